"""The recurrent reader: what is carried, what is not, and that its loss is that of the plain loop."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krill.model.recurrent import (
    MemoryTokens,
    ReaderShape,
    init_reader,
    read_segment,
    segment_losses,
    summed_span_loss,
)
from krill.model.sizing import ModelShape
from krill.training.optimizers import cosine, make_optimizer
from krill.training.qa.step import ReaderStep
from krill.training.step import lower_step, memory_of

pytestmark = pytest.mark.jax

VOCABULARY, LENGTH, SLOTS = 20, 8, 2
AROUND = MemoryTokens.behind(VOCABULARY, SLOTS)
ENCODER = ModelShape(VOCABULARY + 2 * SLOTS, 16, 1, 2, 2, 32)
DESIGN = ReaderShape(ENCODER, LENGTH, AROUND, token_types=2)


@pytest.fixture(scope="module")
def reader():
    return init_reader(DESIGN, 0)


def documents(count=3, segments=4, *, lengths=(4, 2, 3), seed=0):
    """Columns of documents that end after `lengths` segments, with padding at the end of each row."""
    draw = np.random.default_rng(seed)
    size = (count, segments)
    mask = (np.arange(LENGTH) < draw.integers(4, LENGTH + 1, (*size, 1))).astype(np.int32)
    there = np.arange(segments) < np.array(lengths)[:, None]
    labels = draw.integers(0, 4, size).astype(np.int32)
    return {
        "input_ids": draw.integers(0, VOCABULARY, (*size, LENGTH)).astype(np.int32),
        "attention_mask": mask * there[..., None],
        "token_type_ids": draw.integers(0, 2, (*size, LENGTH)).astype(np.int32),
        "start_positions": labels,
        "end_positions": np.minimum(labels + 1, 3).astype(np.int32),
        "cls_index": np.zeros(size, np.int32),
        "document_mask": there,
    }


def segment_of(columns, number):
    return {name: jnp.asarray(column[:, number]) for name, column in columns.items()}


read = jax.jit(read_segment)


@jax.jit
def read_and_score(reader, memory, segment):
    """Compiled for one segment, forward and backward: the plain loop takes it again and again."""
    scores, memory = read_segment(reader, memory, segment)
    return segment_losses(scores, segment).sum(), memory


def plain_loss(reader, columns, bptt=None):
    """The slow, obvious way: one segment after the other, everything kept."""
    memory, total = reader.begin(len(columns["document_mask"])), 0.0
    for number in range(columns["document_mask"].shape[1]):
        if bptt is not None and number > 0 and number % bptt == 0:
            memory = jax.lax.stop_gradient(memory)
        loss, memory = read_and_score(reader, memory, segment_of(columns, number))
        total = total + loss
    return total


def assert_close(found, expected):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("bptt", [None, 2])
def test_the_scan_gives_the_loss_and_the_gradient_of_the_plain_loop(reader, bptt):
    columns = documents(lengths=(3, 1, 2))  # the fourth segment is nobody's: it is passed over
    scanned = jax.jit(jax.value_and_grad(functools.partial(summed_span_loss, bptt=bptt), has_aux=True))
    (loss, count), gradient = scanned(reader, columns)
    shorter = {name: column[:, :3] for name, column in columns.items()}
    expected, slopes = jax.value_and_grad(functools.partial(plain_loss, bptt=bptt))(reader, shorter)
    assert int(count) == 3 + 1 + 2
    assert float(loss) == pytest.approx(float(expected), rel=1e-5)
    assert_close(gradient, slopes)


def test_a_document_that_has_ended_keeps_its_memory(reader):
    columns = documents(lengths=(4, 1, 4))
    memory = reader.begin(3)
    _, after_first = read(reader, memory, segment_of(columns, 0))
    _, after_second = read(reader, after_first, segment_of(columns, 1))
    moved = np.abs(np.asarray(after_second - after_first)).max(axis=(1, 2))
    assert moved[1] == 0
    assert min(moved[0], moved[2]) > 0.01


def test_what_a_segment_says_depends_on_the_one_before_only_through_memory(reader):
    columns = documents(lengths=(4, 4, 4))
    second = segment_of(columns, 1)
    carried = [read(reader, reader.begin(3), segment_of(columns, number))[1] for number in (0, 2)]
    scores = [np.asarray(read(reader, memory, second)[0]) for memory in carried]
    assert np.abs(scores[0] - scores[1])[:, :, 0].max() > 1e-4
    alone = init_reader(ReaderShape(ENCODER, LENGTH, MemoryTokens()), 0)
    memory = alone.begin(3)
    assert memory.shape == (3, 0, 16)
    assert read(alone, memory, second)[1].shape == (3, 0, 16)


def test_padding_is_neither_seen_nor_scored(reader):
    columns = documents(lengths=(4, 4, 4))
    segment = segment_of(columns, 0)
    hidden = segment["attention_mask"] == 0
    other = {**segment, "input_ids": jnp.where(hidden, 7, segment["input_ids"])}
    scores, memory = read(reader, reader.begin(3), segment)
    changed, changed_memory = read(reader, reader.begin(3), other)
    np.testing.assert_array_equal(scores, changed)
    np.testing.assert_array_equal(memory, changed_memory)
    assert bool((scores[:, hidden] < -1e29).all())
    assert bool((scores[:, ~hidden] > -1e3).all())


def test_memory_tokens_in_the_features_do_what_those_around_them_do(reader):
    inside = MemoryTokens(AROUND.reads, AROUND.writes)
    design = ReaderShape(ENCODER, LENGTH + 2 * SLOTS, inside, token_types=2)
    other = init_reader(design, 0)
    assert_close(other, reader)  # the same weights
    segment = segment_of(documents(lengths=(4, 4, 4)), 0)
    rows = np.ones((3, SLOTS), np.int32)
    longer = {
        **segment,
        "input_ids": np.concatenate(
            (rows * AROUND.reads, segment["input_ids"], rows * AROUND.writes), axis=1
        ),
        "attention_mask": np.concatenate((rows, segment["attention_mask"], rows), axis=1),
        "token_type_ids": np.concatenate((0 * rows, segment["token_type_ids"], 0 * rows), axis=1),
        "cls_index": segment["cls_index"] + SLOTS,
    }
    scores, memory = read(reader, reader.begin(3), segment)
    longer_scores, longer_memory = read(other, other.begin(3), longer)
    np.testing.assert_allclose(memory, longer_memory, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(scores, longer_scores[:, :, SLOTS:-SLOTS], rtol=1e-5, atol=1e-6)


def test_no_answer_takes_the_place_of_the_classification_token_in_both_scores(reader):
    scores, _ = read(reader, reader.begin(3), segment_of(documents(), 0))
    np.testing.assert_array_equal(scores[0, :, 0], scores[1, :, 0])
    assert np.abs(np.asarray(scores[0, :, 1] - scores[1, :, 1])).min() > 0


def test_a_step_holds_no_more_with_32_segments_than_with_2():
    optimizer = make_optimizer("adamw", cosine(0.001, 10))
    steps = [ReaderStep(DESIGN, optimizer, documents=4, segments=segments) for segments in (2, 32)]
    held = [memory_of(lower_step(step, step.choices()[0]).compile()) for step in steps]
    batch = 4 * 30 * (3 * LENGTH + 4) * 4  # of 30 segments more: what goes in is not what a step computes
    assert held[1] - batch < 1.2 * held[0]


def test_as_many_memory_tokens_are_written_as_read():
    from krill.errors import ConfigError

    with pytest.raises(ConfigError, match="2 memory tokens to read and 1 to write"):
        MemoryTokens((1, 2), (3,))


def test_the_number_of_parameters_is_that_of_the_arrays():
    for design in (DESIGN, ReaderShape(ENCODER, LENGTH, MemoryTokens())):
        shapes = jax.eval_shape(functools.partial(init_reader, design, 0))
        assert design.parameters == sum(leaf.size for leaf in jax.tree.leaves(shapes))
