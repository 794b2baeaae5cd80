"""The next token: drawn from what the model expects, or the likeliest.

In: logits (B, vocabulary) and a random key a row. Out: a token a row, with the probability that the model
gave it and how unsure the model was. Held in memory: a few arrays of the logits' size. Temperature comes
first, then the k likeliest, then the fewest that have the probability p together, as in `transformers`;
probability and entropy are of the model's own distribution, before any of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from krill.errors import ConfigError

_OUT = -jnp.inf


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is chosen. A temperature of 0 takes the likeliest; `top_k` and `top_p` cut rare ones."""

    temperature: float = 0.8
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ConfigError(
                f"a temperature of `{self.temperature}` can't be used",
                hint="give 0 for the likeliest token each time, or a number up to about 2",
            )
        if self.top_k is not None and self.top_k < 1:
            raise ConfigError(f"`top_k` is `{self.top_k}`", hint="give how many of the likeliest tokens stay")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ConfigError(f"`top_p` is `{self.top_p}`", hint="give a share above 0 and up to 1")


class Drawn(NamedTuple):
    """A token a row; `probability` and `entropy` (in bits) are as the model had them."""

    tokens: jax.Array
    probability: jax.Array
    entropy: jax.Array


def row_keys(seed: int, rows: int) -> jax.Array:
    """A key for each row; those of the first rows are the same however many there are."""
    return jax.vmap(lambda row: jax.random.fold_in(jax.random.key(seed), row))(jnp.arange(rows))


def draw(logits: jax.Array, keys: jax.Array, step: jax.Array, sampling: Sampling) -> Drawn:
    """Choose the token of number `step` in each row."""
    expected = jax.nn.log_softmax(logits, axis=-1)
    if sampling.temperature == 0:
        tokens = jnp.argmax(logits, axis=-1)
    else:
        left = restrict(logits / sampling.temperature, sampling.top_k, sampling.top_p)

        def noise(key: jax.Array) -> jax.Array:
            return jax.random.gumbel(jax.random.fold_in(key, step), logits.shape[-1:])

        tokens = jnp.argmax(left + jax.vmap(noise)(keys), axis=-1)
    chosen = jnp.take_along_axis(expected, tokens[:, None], axis=-1)[:, 0]
    # A logit of minus infinity has no share in the sum, and must not make it one that is no number.
    shares = jnp.where(expected > _OUT, jnp.exp(expected) * expected, 0.0)
    return Drawn(tokens.astype(jnp.int32), jnp.exp(chosen), -shares.sum(axis=-1) / math.log(2))


def restrict(logits: jax.Array, top_k: int | None, top_p: float | None) -> jax.Array:
    """Minus infinity for all but the `top_k` likeliest, then for all beyond the share `top_p`; ties stay."""
    if top_k is not None and top_k < logits.shape[-1]:
        least = jax.lax.top_k(logits, top_k)[0][:, -1:]
        logits = jnp.where(logits < least, _OUT, logits)
    if top_p is not None and top_p < 1:
        shares = jax.nn.softmax(logits, axis=-1)
        ordered = jnp.sort(shares, axis=-1, descending=True)
        # A token stays if those before it don't reach the share yet: so the first one always does.
        before = jnp.cumsum(ordered, axis=-1) - ordered
        count = (before < top_p).sum(axis=-1, keepdims=True)
        least = jnp.take_along_axis(ordered, jnp.maximum(count, 1) - 1, axis=-1)
        logits = jnp.where(shares < least, _OUT, logits)
    return logits
