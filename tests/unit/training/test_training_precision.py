"""Smaller numbers in the pass; float32 weights; a loss scale that finds its size."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from krill.training.precision import (
    GROWTH_STEPS,
    LossScale,
    Precision,
    cast,
    first_scale,
    next_scale,
)

pytestmark = pytest.mark.jax


def test_only_float16_has_a_scale():
    assert float(first_scale(Precision.FLOAT16).scale) == 2.0**15
    assert float(first_scale(Precision.BFLOAT16).scale) == float(first_scale(Precision("fp32")).scale) == 1.0


def test_the_scale_halves_after_an_overflow_and_doubles_after_long_enough_without():
    scale = next_scale(first_scale(Precision.FLOAT16), jnp.asarray(False))
    assert (float(scale.scale), int(scale.good_steps)) == (2.0**14, 0)
    scale = next_scale(scale, jnp.asarray(True))
    assert (float(scale.scale), int(scale.good_steps)) == (2.0**14, 1)
    ripe = LossScale(scale.scale, jnp.asarray(GROWTH_STEPS - 1, jnp.int32))
    scale = next_scale(ripe, jnp.asarray(True))
    assert (float(scale.scale), int(scale.good_steps)) == (2.0**15, 0)
    least = next_scale(LossScale(jnp.asarray(1.0), ripe.good_steps), jnp.asarray(False))
    assert float(least.scale) == 1.0


@pytest.mark.parametrize("precision", Precision)
def test_a_cast_leaves_integers_and_its_gradient_comes_back_in_float32(precision):
    tree = {"weights": jnp.asarray([1.0, 2.0]), "number": jnp.asarray([1, 2])}
    changed = cast(tree, precision)
    assert changed["weights"].dtype == precision.dtype
    assert changed["number"].dtype == tree["number"].dtype
    gradient = jax.grad(lambda weights: cast(weights, precision).astype(jnp.float32).sum())(tree["weights"])
    assert gradient.dtype == jnp.float32
    assert gradient.tolist() == [1.0, 1.0]
