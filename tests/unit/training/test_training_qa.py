"""Training a reader: its batches, its step, its folder, and a task that only memory solves."""

from __future__ import annotations

from dataclasses import asdict, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krill.errors import BudgetError, ConfigError, InputError, MissingExtra
from krill.qa import Shape, prepare
from krill.training.compiler import low_memory_compiler
from krill.training.memory_plan import plan_step
from krill.training.optimizers import cosine, make_optimizer
from krill.training.qa import ReaderSettings, evaluate_reader, train_reader
from krill.training.qa.features import ReaderData, check_fits, design_for, inspect_tokenizer
from krill.training.qa.saved import open_reader, save_reader
from krill.training.qa.step import ReaderStep
from krill.training.step import first_state
from recall_task import write_tokenizer
from tiny_readers import LENGTH, TINY_READER, write_recall

pytestmark = pytest.mark.jax

TINY = ReaderSettings(**TINY_READER)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Features of ten documents with two to four segments."""
    folder = tmp_path_factory.mktemp("reader")
    write_recall(folder, "features", 10, segments=(2, 4), seed=3)
    return folder


@pytest.fixture(scope="module")
def design(home):
    data = ReaderData(home / "features", TINY)
    return design_for(data.stored, inspect_tokenizer(home / "tokenizer.json"), TINY)


@pytest.fixture(scope="module")
def spec(design):
    return ReaderStep(design, make_optimizer("adamw", cosine(0.01, 10)), documents=4, segments=4)


@pytest.fixture(scope="module")
def fresh(spec):
    """A first state, which may not be given up: a step takes a copy."""
    return first_state(spec, 0)


@pytest.fixture(scope="module")
def plans(spec):
    """Steps over four documents: planned with room for all at once, and with a byte too little for that."""
    roomy = plan_step(spec, budget=10**9, compiler=low_memory_compiler())
    return roomy, plan_step(spec, budget=roomy.plan.step_bytes - 1, compiler=low_memory_compiler())


def taken(batches, count):
    return [next(batches) for _ in range(count)]


def names(batch):
    """What tells documents apart: their first segments' tokens."""
    return [row.tobytes() for row in batch["input_ids"][:, 0]]


def test_every_document_is_read_once_in_an_epoch_and_the_next_begins_in_the_same_batch(home):
    data = ReaderData(home / "features", TINY)
    assert (data.segments, data.length, data.steps_per_epoch) == (4, LENGTH, 3)
    read = [name for batch in taken(data.batches(), 5) for name in names(batch)]
    assert len(set(read[:10])) == len(set(read[10:])) == 10
    assert read[:10] != read[10:]


def test_batches_go_on_where_a_state_was_made(home):
    data = ReaderData(home / "features", TINY)
    batches = data.batches()
    taken(batches, 2)
    state = data.state_dict()
    again = ReaderData(home / "features", TINY)
    again.load_state_dict(state)
    for expected, found in zip(taken(batches, 2), taken(again.batches(), 2), strict=True):
        for name, column in expected.items():
            np.testing.assert_array_equal(found[name], column)


def test_of_long_documents_the_segments_around_the_answer_are_read(home):
    data = ReaderData(home / "features", ReaderSettings(**TINY_READER, max_segments=2))
    batch = next(data.batches())
    assert batch["input_ids"].shape == (4, 2, LENGTH)
    # The answer is in the last segment, and the last two are chosen.
    assert (batch["start_positions"][:, 1] > 0).all()
    assert (batch["start_positions"][:, 0] == batch["cls_index"][:, 0]).all()


def test_documents_computed_by_pieces_give_the_step_of_all_at_once(home, fresh, plans):
    batch = next(ReaderData(home / "features", TINY).batches())
    assert [planned.plan.microbatch for planned in plans] == [4, 2]
    ends = [planned.compiled(jax.tree.map(jnp.array, fresh), batch) for planned in plans]
    (whole, figures), (pieces, others) = ends
    assert float(figures.loss) == pytest.approx(float(others.loss), rel=1e-5)
    assert int(figures.tokens) == int(batch["document_mask"].sum()) == int(others.tokens)
    for one, other in zip(jax.tree.leaves(whole.model), jax.tree.leaves(pieces.model), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-4)


def test_a_reader_is_the_same_once_it_was_saved_and_opened(home, design, fresh, tmp_path):
    reader = fresh.model
    save_reader(tmp_path / "model", reader, tokenizer=home / "tokenizer.json", fingerprint="made by")
    saved = open_reader(tmp_path / "model")
    assert (saved.design, saved.fingerprint, saved.step) == (design, "made by", None)
    for one, other in zip(jax.tree.leaves(saved.reader), jax.tree.leaves(reader), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_design_follows_from_tokenizer_and_features(home, design):
    tokenizer = inspect_tokenizer(home / "tokenizer.json")
    assert (design.memory.reads, design.memory.writes) == (tokenizer.reads, tokenizer.writes)
    assert (len(tokenizer.reads), design.memory.around, design.token_types) == (2, False, 2)
    assert design.encoder.vocab_size == tokenizer.vocab_size
    data = ReaderData(home / "features", TINY)
    off = design_for(data.stored, tokenizer, ReaderSettings(**TINY_READER, memory_tokens=0))
    assert off.memory.slots == 0
    with pytest.raises(ConfigError, match="`memory_tokens` is `3`, and the features have 2 memory tokens"):
        design_for(data.stored, tokenizer, ReaderSettings(**TINY_READER, memory_tokens=3))


def test_features_without_memory_tokens_get_them_around_each_row(home, tmp_path):
    tokenizer = write_tokenizer(tmp_path / "plain.json", memory_tokens=0)
    prepare(home / "features.jsonl", tokenizer, output=tmp_path / "plain", shape=Shape(LENGTH, 0))
    data = ReaderData(tmp_path / "plain", TINY)
    found = inspect_tokenizer(tokenizer)
    design = design_for(data.stored, found, ReaderSettings(**TINY_READER, memory_tokens=3))
    assert design.memory.reads == tuple(range(found.vocab_size, found.vocab_size + 3))
    assert (design.memory.around, design.row_length) == (True, LENGTH + 6)
    assert design.encoder.vocab_size == found.vocab_size + 6


def test_features_of_another_tokenizer_are_refused(home, design, tmp_path):
    other = write_tokenizer(tmp_path / "other.json", memory_tokens=1)
    data = ReaderData(home / "features", TINY)
    with pytest.raises(InputError, match="were made by another tokenizer than the tokenizer"):
        design_for(data.stored, inspect_tokenizer(other), TINY)
    with pytest.raises(InputError, match="were made by another tokenizer than that of the model `m`"):
        check_fits(data.stored, design, inspect_tokenizer(other).fingerprint, "the model `m`")


def test_features_without_any_answer_are_refused(home, tmp_path):
    questions = (home / "features.jsonl").read_text().splitlines()
    silent = [line[: line.index('"answers"')] + '"answers": []}' for line in questions]
    (tmp_path / "silent.jsonl").write_text("\n".join(silent))
    prepare(
        tmp_path / "silent.jsonl", home / "tokenizer.json", output=tmp_path / "silent", shape=Shape(LENGTH, 0)
    )
    with pytest.raises(InputError, match=r"no feature of `.*silent` has an answer"):
        ReaderData(tmp_path / "silent", TINY)


def test_documents_are_computed_by_pieces_where_the_budget_is_too_small_for_all(plans, spec):
    roomy, tight = (planned.plan for planned in plans)
    assert (roomy.microbatch, tight.microbatch) == (4, 2)
    assert tight.step_bytes < roomy.step_bytes
    assert spec.stored_plan(asdict(tight)) == tight


def test_a_step_that_cannot_fit_says_how_much_more_it_needs(spec):
    with pytest.raises(BudgetError, match="a step over one document at a time") as refused:
        plan_step(replace(spec, documents=1, segments=2), budget=1000, compiler=low_memory_compiler())
    assert "MB more --memory" in refused.value.hint


@pytest.mark.parametrize(
    ("setting", "fact"),
    [
        ({"bptt": 0}, "`bptt` is `0`"),
        ({"memory_tokens": -1}, "`memory_tokens` is `-1`"),
        ({"learning_rate": 0.0}, "`learning_rate` is `0.0`"),
        ({"segment_selection": "last"}, "`segment_selection` is `last`"),
        ({"hidden": 30, "heads": 4}, "a width of `30` can't be split over `4` heads"),
    ],
)
def test_settings_that_mean_nothing_are_refused(setting, fact):
    with pytest.raises(ConfigError, match=fact):
        ReaderSettings(**setting)


@pytest.mark.parametrize(("width", "heads"), [(128, 4), (100, 2), (16, 1), (90, 1), (320, 10)])
def test_a_width_is_split_into_heads_of_about_32_numbers(width, heads):
    assert ReaderSettings(hidden=width).encoder(10).heads == heads


def test_without_jax_the_extra_is_named(monkeypatch, home, tmp_path):
    monkeypatch.setattr("krill.model.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="training a reader") as missing:
        train_reader(home / "features", tokenizer=home / "tokenizer.json", output_dir=tmp_path / "model")
    assert "pip install 'krill-lm[train]'" in missing.value.hint
    with pytest.raises(MissingExtra, match="evaluating a reader"):
        evaluate_reader(tmp_path / "model", home / "features")
    assert not (tmp_path / "model").exists()
