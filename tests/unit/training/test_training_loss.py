"""The chunked loss: the plain one's value and gradients, in a fraction of its memory."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krill.training.loss import IGNORED, count_labels, summed_loss

pytestmark = pytest.mark.jax


def plain_loss(hidden, embedding, labels):
    """The obvious one: all logits at once."""
    logits = hidden @ embedding.T
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), jnp.maximum(labels, 0)[:, None], axis=-1)[:, 0]
    return -jnp.where(labels == IGNORED, 0.0, chosen).sum()


@functools.cache
def example():
    rng = np.random.default_rng(0)
    hidden, embedding = rng.normal(size=(50, 16)).astype("f4"), rng.normal(size=(37, 16)).astype("f4")
    labels = rng.integers(0, 37, 50)
    labels[rng.random(50) < 0.3] = IGNORED
    return jnp.asarray(hidden), jnp.asarray(embedding), jnp.asarray(labels, jnp.int32)


def gradients_of(chunk, scale=1.0, dtype=jnp.float32, above=1.0):
    hidden, embedding, labels = example()

    def loss(hidden, embedding):
        return above * summed_loss(hidden, embedding, labels, jnp.float32(scale), chunk)

    return jax.jit(jax.value_and_grad(loss, (0, 1)))(hidden.astype(dtype), embedding.astype(dtype))


@functools.cache
def expected():
    hidden, embedding, labels = example()
    return jax.jit(jax.value_and_grad(plain_loss, (0, 1)))(hidden, embedding, labels)


@pytest.mark.parametrize("chunk", [7, 1000])
def test_chunks_of_any_size_give_the_plain_loss_and_gradients(chunk):
    value, gradients = expected()
    found, ours = gradients_of(chunk, above=0.5)
    assert float(found) == pytest.approx(float(value) / 2, rel=1e-5)
    for mine, theirs in zip(ours, gradients, strict=True):
        np.testing.assert_allclose(mine, theirs / 2, atol=1e-5)


def test_without_a_gradient_the_value_is_the_same():
    hidden, embedding, labels = example()
    found = jax.jit(functools.partial(summed_loss, chunk=16))(hidden, embedding, labels, jnp.float32(2))
    assert float(found) == pytest.approx(2 * float(expected()[0]), rel=1e-5)
    assert int(count_labels(labels)) == int((np.asarray(labels) != IGNORED).sum())


def test_a_scale_keeps_gradients_alive_that_float16_would_lose():
    _, plain = expected()
    _, (scaled, _) = gradients_of(16, scale=1e-4 * 2**15, dtype=jnp.float16)
    found = np.asarray(scaled, np.float32) / 2**15
    np.testing.assert_allclose(found, np.asarray(plain[0]) * 1e-4, atol=3e-7)


def test_at_32_000_tokens_the_loss_takes_at_most_a_fifth_of_the_unchunked_memory():
    def held(loss):
        sizes = (4096, 128), (32_000, 128)
        arrays = [jax.ShapeDtypeStruct(size, jnp.float32) for size in sizes]
        labels = jax.ShapeDtypeStruct((4096,), jnp.int32)
        compiled = jax.jit(jax.value_and_grad(loss, (0, 1))).lower(*arrays, labels).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    def chunked(hidden, embedding, labels):
        return summed_loss(hidden, embedding, labels, jnp.float32(1), 256)

    assert held(chunked) <= 0.2 * held(plain_loss)
