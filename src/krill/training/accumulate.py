"""Gradients of a batch that is too large to be run at once.

In: a function that gives a microbatch's summed loss, and the batch cut into microbatches along a leading
axis. Out: the sums over all of them: of gradients, of losses, of counted tokens; dividing by the tokens is
the caller's, so that every token weighs the same wherever it stands, as in one large batch. Held in memory:
one sum of gradients, one microbatch's gradients and its activations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp

Weights = TypeVar("Weights")
Batch = Mapping[str, jax.Array]


class Sums(NamedTuple):
    """What was added up over a batch."""

    gradients: Any
    loss: jax.Array
    tokens: jax.Array


def cut(batch: Batch, microbatch: int) -> dict[str, jax.Array]:
    """Columns (B, T) as (B / microbatch, microbatch, T); B must be a multiple."""
    return {name: column.reshape(-1, microbatch, *column.shape[1:]) for name, column in batch.items()}


def accumulate(
    summed: Callable[[Weights, Batch], tuple[jax.Array, jax.Array]], weights: Weights, pieces: Batch
) -> Sums:
    """Run `summed(weights, microbatch) -> (loss, tokens)` and its gradient over every microbatch in turn."""
    gradient = jax.value_and_grad(summed, has_aux=True)
    count = next(iter(pieces.values())).shape[0]
    if count == 1:
        # No second set of gradients to hold beside the first.
        (loss, tokens), grown = gradient(weights, {name: column[0] for name, column in pieces.items()})
        return Sums(grown, loss, tokens)

    def add(carried: Sums, piece: Batch) -> tuple[Sums, None]:
        (loss, tokens), grown = gradient(weights, piece)
        gradients = jax.tree.map(jnp.add, carried.gradients, grown)
        return Sums(gradients, carried.loss + loss, carried.tokens + tokens), None

    nothing = Sums(
        jax.tree.map(jnp.zeros_like, weights), jnp.zeros((), jnp.float32), jnp.zeros((), jnp.int32)
    )
    sums, _ = jax.lax.scan(add, nothing, dict(pieces))
    return sums
