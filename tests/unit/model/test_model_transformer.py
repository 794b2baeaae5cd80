"""The decoder: documents apart, blocks and remat change memory alone, a cache gives the same logits."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krill.model.attention import attend, attend_where
from krill.model.cache import decode_step, empty_cache, prefill
from krill.model.sizing import ModelShape, count_parameters
from krill.model.transformer import Compute, init_transformer, project
from tiny_models import tiny_model

pytestmark = pytest.mark.jax

SHAPE = ModelShape(vocab_size=97, width=32, layers=3, heads=4, kv_heads=2, hidden=48)


@pytest.fixture(scope="module")
def model():
    # Larger than a fresh start's, so that layers matter to the logits.
    return tiny_model(SHAPE, 7, scale=0.16)


@pytest.fixture(scope="module")
def logits(model):
    """Of two rows of 12 tokens: one compiled program for every test."""
    run = jax.jit(lambda *inputs: model.logits(*inputs))

    def of(ids, segments=None, positions=None):
        segments = jnp.ones_like(ids) if segments is None else segments
        positions = jnp.tile(jnp.arange(12), (2, 1)) if positions is None else positions
        return run(ids, segments, positions)

    return of


def tokens(*size: int, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).integers(0, SHAPE.vocab_size, size), jnp.int32)


def test_it_has_as_many_weights_as_are_counted_and_the_same_for_the_same_seed():
    first, again, other = (init_transformer(SHAPE, seed) for seed in (1, 1, 2))
    assert sum(leaf.size for leaf in jax.tree.leaves(first)) == count_parameters(SHAPE)
    assert all(jax.tree.leaves(jax.tree.map(lambda a, b: bool((a == b).all()), first, again)))
    assert not bool((first.embedding == other.embedding).all())
    assert float(first.layers.output.std()) == pytest.approx(0.02 / 6**0.5, rel=0.1)


def test_a_token_sees_what_precedes_it_and_nothing_after(logits):
    ids = tokens(2, 12)
    changed = ids.at[:, 7].add(1) % SHAPE.vocab_size
    before, after = logits(ids), logits(changed)
    np.testing.assert_array_equal(before[:, :7], after[:, :7])
    assert float(jnp.abs(before[:, 8:] - after[:, 8:]).max()) > 1e-3


def test_a_document_in_a_packed_row_has_the_logits_that_it_has_alone(logits):
    ids = tokens(2, 12)
    segments, positions = [[1] * 6 + [2] * 6] * 2, [[*range(6), *range(6)]] * 2
    packed = logits(ids, jnp.asarray(segments), jnp.asarray(positions))
    np.testing.assert_allclose(packed[:, :6], logits(ids)[:, :6], atol=2e-5)
    second = logits(jnp.roll(ids, -6, axis=1))
    np.testing.assert_allclose(packed[:, 6:], second[:, :6], atol=2e-5)


def test_attention_equals_the_obvious_loop():
    rng = np.random.default_rng(3)
    queries, keys, values = (rng.normal(size=(2, 6, heads, 4)).astype("f4") for heads in (4, 2, 2))
    segments = np.array([[1, 1, 2, 2, 2, 0], [1, 1, 1, 1, 1, 1]])
    expected = np.zeros_like(queries)
    for row, at, head in np.ndindex(2, 6, 4):
        seen = [other for other in range(at + 1) if segments[row, other] == segments[row, at]]
        scores = np.array([queries[row, at, head] @ keys[row, other, head // 2] / 2 for other in seen])
        weights = np.exp(scores - scores.max())
        expected[row, at, head] = (weights / weights.sum()) @ values[row, seen, head // 2]
    for block in (None, 4):
        found = attend(*map(jnp.asarray, (queries, keys, values, segments)), block)
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("outputs", [5, 11])
def test_a_projection_has_the_gradients_of_a_plain_product_whichever_side_is_narrower(outputs):
    rng = np.random.default_rng(0)
    states, weights = (jnp.asarray(rng.normal(size=size), jnp.float32) for size in ((2, 3, 7), (7, outputs)))

    def gradients(product):
        return jax.grad(lambda *both: (product(*both) ** 3).sum(), (0, 1))(states, weights)

    for ours, theirs in zip(gradients(project), gradients(jnp.matmul), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_blocks_of_queries_and_rematerialised_layers_change_the_memory_and_not_the_gradient():
    shape = ModelShape(vocab_size=64, width=64, layers=6, heads=4, kv_heads=4, hidden=176)
    weights = tiny_model(shape, 0, scale=0.02)
    ids = tokens(2, 250) % 64
    segments = jnp.concatenate([jnp.ones((2, 100), jnp.int32), jnp.full((2, 150), 2)], axis=1)

    def outcome(compute):
        def loss(model):
            return (model.hidden(ids, segments, None, compute) ** 3).sum()

        compiled = jax.jit(jax.value_and_grad(loss)).lower(weights).compile()
        return compiled.memory_analysis().temp_size_in_bytes, *compiled(weights)

    plain, expected, expected_gradient = outcome(Compute())
    blocked, *first = outcome(Compute(attention_block=64))
    remat, *second = outcome(Compute(remat=True, attention_block=64))
    assert blocked < 0.7 * plain
    assert remat < 0.5 * blocked
    for value, gradient in (first, second):
        assert float(value) == pytest.approx(float(expected), rel=1e-4)
        for ours, theirs in zip(jax.tree.leaves(gradient), jax.tree.leaves(expected_gradient), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-4 * float(jnp.abs(theirs).max()))


def test_decoding_with_the_cache_gives_the_logits_of_the_whole_text(model, logits):
    ids = tokens(2, 12, seed=5)
    expected = logits(ids)
    padded = jnp.pad(ids[:, :6], ((0, 0), (0, 2)))
    found, cache = jax.jit(prefill)(model, empty_cache(SHAPE, 2, 12), padded, 6)
    np.testing.assert_allclose(found, expected[:, 5], atol=2e-5)
    step = jax.jit(decode_step)
    for at in range(6, 12):
        found, cache = step(model, cache, ids[:, at])
        np.testing.assert_allclose(found, expected[:, at], atol=2e-5)
    assert int(cache.length) == cache.capacity == 12


def test_nothing_visible_but_itself_gives_its_own_value():
    values = jnp.arange(8.0).reshape(1, 2, 1, 4)
    found = attend_where(jnp.ones((1, 2, 1, 4)), jnp.ones((1, 2, 1, 4)), values, jnp.eye(2, dtype=bool)[None])
    np.testing.assert_allclose(found, values)
