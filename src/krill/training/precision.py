"""Smaller numbers for the forward and backward pass; the weights and the optimizer keep theirs.

In: float32 weights. Out: a copy in the type that the pass computes in; for float16 a loss scale that finds
its own size. Held in memory: that copy, half as large as the weights.

float16 halves what is kept of activations (a step of 91 MB took 63), also on a CPU. bfloat16 does so only on
devices that compute in it: XLA widens it to float32 wherever a CPU can't, and 91 MB stay 91. On a CPU neither
is faster: its matrix units work in float32. The weights that are trained stay float32 (a float16 weight would
lose updates below a thousandth of it), and so do the optimizer's numbers.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp

Tree = TypeVar("Tree")

FIRST_SCALE = 2.0**15
# Steps without an overflow after which twice the scale is tried.
GROWTH_STEPS = 2000


class Precision(StrEnum):
    """What the forward and backward pass computes in."""

    FLOAT32 = "fp32"
    BFLOAT16 = "bf16"
    FLOAT16 = "fp16"

    @property
    def dtype(self) -> jnp.dtype[Any]:
        return jnp.dtype({"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}[self.value])

    @property
    def scaled(self) -> bool:
        """Whether gradients need a loss scale so as not to vanish: float16 has nothing below 6e-8."""
        return self is Precision.FLOAT16


class LossScale(NamedTuple):
    """The factor that keeps small gradients above what float16 can hold; part of a checkpoint."""

    scale: jax.Array
    good_steps: jax.Array


def first_scale(precision: Precision) -> LossScale:
    """The first loss scale; 1, and never changed, where none is needed."""
    size = FIRST_SCALE if precision.scaled else 1.0
    return LossScale(jnp.asarray(size, jnp.float32), jnp.zeros((), jnp.int32))


def next_scale(current: LossScale, finite: jax.Array) -> LossScale:
    """Half of it after an overflow, twice of it after `GROWTH_STEPS` without one."""
    good = jnp.where(finite, current.good_steps + 1, 0)
    grown = good >= GROWTH_STEPS
    scale = jnp.where(finite, jnp.where(grown, current.scale * 2, current.scale), current.scale / 2)
    return LossScale(jnp.clip(scale, 1.0, 2.0**24), jnp.where(grown, 0, good).astype(jnp.int32))


def cast(tree: Tree, precision: Precision) -> Tree:
    """Every floating array of `tree` in the pass's type; the gradient comes back in the array's own."""

    def change(leaf: jax.Array) -> jax.Array:
        return leaf.astype(precision.dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    changed: Tree = jax.tree.map(change, tree)
    return changed
