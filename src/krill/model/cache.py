"""Generating token by token with the keys and values of what came before.

In: a prompt (B, T), then one token a row at a time. Out: the logits after the last token, equal to those of
the whole text run at once. Held in memory: the cache, 2 x layers x B x capacity x kv width numbers, of fixed
size so that every step runs the same compiled program; steps may donate it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from krill.model.attention import attend_where, rotation
from krill.model.sizing import ModelShape
from krill.model.transformer import Layers, Transformer, apply_layer, rms_norm


class Cache(NamedTuple):
    """Keys (already rotated) and values (layers, B, capacity, kv heads, size), and how many are real."""

    keys: jax.Array
    values: jax.Array
    length: jax.Array

    @property
    def capacity(self) -> int:
        """Positions that fit; decoding stops there."""
        return self.keys.shape[2]


def empty_cache(
    shape: ModelShape, batch: int, capacity: int, dtype: jax.typing.DTypeLike = jnp.float32
) -> Cache:
    """Room for `capacity` positions of `batch` texts."""
    size = (shape.layers, batch, capacity, shape.kv_heads, shape.head_size)
    return Cache(jnp.zeros(size, dtype), jnp.zeros(size, dtype), jnp.zeros((), jnp.int32))


def prefill(
    model: Transformer, cache: Cache, ids: jax.Array, length: jax.Array | int | None = None
) -> tuple[jax.Array, Cache]:
    """The logits (B, vocabulary) after the first `length` of `ids` (B, T), and the cache filled with them.

    `ids` may be padded beyond `length`, so that prompts of many lengths share one compiled program.
    """
    count = ids.shape[1] if length is None else length
    states, cache = _extend(model, cache, ids, jnp.asarray(count, jnp.int32))
    last = jax.lax.dynamic_slice_in_dim(states, count - 1, 1, axis=1)[:, 0]
    return model.unembed(last), cache


def decode_step(model: Transformer, cache: Cache, tokens: jax.Array) -> tuple[jax.Array, Cache]:
    """The logits (B, vocabulary) after one more token (B,), and the cache with it."""
    states, cache = _extend(model, cache, tokens[:, None], jnp.ones((), jnp.int32))
    return model.unembed(states[:, 0]), cache


def _extend(model: Transformer, cache: Cache, ids: jax.Array, added: jax.Array) -> tuple[jax.Array, Cache]:
    """Run `ids` behind what the cache has; `added` of them are real, the rest is overwritten later."""
    shape = model.shape
    positions = cache.length + jnp.arange(ids.shape[1])
    rope = rotation(positions[None], shape.head_size, shape.rope_theta)
    visible = (positions[:, None] >= jnp.arange(cache.capacity)[None, :])[None]

    def layer(
        states: jax.Array, entry: tuple[Layers, jax.Array, jax.Array]
    ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        weights, old_keys, old_values = entry
        stored: list[jax.Array] = []

        def attention(queries: jax.Array, keys: jax.Array, values: jax.Array) -> jax.Array:
            at = (0, cache.length, 0, 0)
            stored.append(jax.lax.dynamic_update_slice(old_keys, keys.astype(old_keys.dtype), at))
            stored.append(jax.lax.dynamic_update_slice(old_values, values.astype(old_values.dtype), at))
            return attend_where(queries, stored[0], stored[1], visible)

        states = apply_layer(shape, weights, states, rope, attention)
        return states, (stored[0], stored[1])

    states, (keys, values) = jax.lax.scan(
        layer, model.embedding[ids], (model.layers, cache.keys, cache.values)
    )
    normed = rms_norm(states, model.final_norm, shape.norm_eps)
    return normed, Cache(keys, values, cache.length + added)
