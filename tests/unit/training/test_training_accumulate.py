"""Microbatches add up to the batch, however unevenly their tokens count."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krill.training.step import accumulate, microbatches

pytestmark = pytest.mark.jax


def test_microbatches_with_unequal_tokens_give_the_gradient_of_the_whole_batch():
    rng = np.random.default_rng(0)
    weights = {"matrix": jnp.asarray(rng.normal(size=(5, 3)), jnp.float32)}
    batch = {
        "inputs": jnp.asarray(rng.normal(size=(8, 6, 5)), jnp.float32),
        "counts": jnp.asarray(rng.random((8, 6)) < np.linspace(0.1, 0.9, 8)[:, None], jnp.float32),
    }

    def summed(weights, piece):
        losses = jnp.tanh(piece["inputs"] @ weights["matrix"]).sum(-1) ** 2
        return (losses * piece["counts"]).sum(), piece["counts"].sum().astype(jnp.int32)

    whole, halves, single = (
        jax.jit(lambda weights, batch, size=size: accumulate(summed, weights, microbatches(batch, size)))(
            weights, batch
        )
        for size in (8, 4, 1)
    )
    assert int(whole.tokens) == int(halves.tokens) == int(single.tokens) == int(batch["counts"].sum())
    for other in (halves, single):
        np.testing.assert_allclose(other.loss, whole.loss, rtol=1e-6)
        np.testing.assert_allclose(other.gradients["matrix"], whole.gradients["matrix"], rtol=1e-5, atol=1e-5)
