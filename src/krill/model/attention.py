"""Causal attention inside documents, whole or a block of queries at a time.

In: queries (B, T, heads, size), keys and values (B, T, kv heads, size), already rotated, and the documents'
numbers (B, T). Out: (B, T, heads, size). Held in memory: with `block`, the scores of one block of queries,
B x heads x block x T numbers, forwards and backwards (each block is computed again for its gradient);
without, those of all of them. Both give the same result to float tolerance.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

# Low enough that its exponential is 0, high enough that nothing overflows on the way.
_HIDDEN = -1e30


def rotation(positions: jax.Array, head_size: int, theta: float) -> tuple[jax.Array, jax.Array]:
    """Cosines and sines (B, T, head_size / 2) of each position's angles."""
    frequencies = theta ** (-jnp.arange(0, head_size, 2, dtype=jnp.float32) / head_size)
    angles = positions[..., None].astype(jnp.float32) * frequencies
    return jnp.cos(angles), jnp.sin(angles)


def rotate(vectors: jax.Array, rope: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Rope (B, T, heads, size) by its positions; a number's partner is half a head away, as in Llama."""
    cosines, sines = (part[:, :, None, :] for part in rope)
    first, second = jnp.split(vectors.astype(jnp.float32), 2, axis=-1)
    turned = jnp.concatenate([first * cosines - second * sines, second * cosines + first * sines], axis=-1)
    return turned.astype(vectors.dtype)


def attend(
    queries: jax.Array, keys: jax.Array, values: jax.Array, segments: jax.Array | None, block: int | None
) -> jax.Array:
    """What each position gathers from those before it in its own document."""
    length = queries.shape[1]
    positions = jnp.arange(length)
    if block is None or block >= length:
        return attend_where(queries, keys, values, _visible(positions, positions, segments, segments))
    blocks = -(-length // block)
    ragged = blocks * block - length
    padded = jnp.pad(queries, ((0, 0), (0, ragged), (0, 0), (0, 0)))
    starts = jnp.arange(blocks) * block

    # Without the checkpoint the scan would keep every block's scores for the way back.
    @jax.checkpoint
    def one_block(start: jax.Array) -> jax.Array:
        # The last block may reach beyond the end: those queries are padding, whatever they see is cut off.
        taken = jax.lax.dynamic_slice_in_dim(padded, start, block, axis=1)
        rows = jnp.minimum(start + jnp.arange(block), length - 1)
        own = None if segments is None else jnp.take(segments, rows, axis=1)
        return attend_where(taken, keys, values, _visible(rows, positions, own, segments))

    gathered = jax.lax.map(one_block, starts)
    joined = jnp.moveaxis(gathered, 0, 1).reshape(queries.shape[0], blocks * block, *queries.shape[2:])
    return joined[:, :length]


def attend_where(queries: jax.Array, keys: jax.Array, values: jax.Array, visible: jax.Array) -> jax.Array:
    """Softmax attention of every query over the keys that `visible` (B or 1, queries, keys) shows it."""
    batch, count, heads, size = queries.shape
    kv_heads = keys.shape[2]
    # Heads that share keys are folded into the rows of one product instead of repeating the keys.
    grouped = (queries * size**-0.5).reshape(batch, count, kv_heads, heads // kv_heads, size)
    product = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)
    scores = product("bqkgd,btkd->bkgqt", grouped, keys)
    scores = jnp.where(visible[:, None, None], scores, _HIDDEN)
    weights = jax.nn.softmax(scores, axis=-1).astype(values.dtype)
    gathered = product("bkgqt,btkd->bqkgd", weights, values)
    return gathered.reshape(batch, count, heads, size).astype(values.dtype)


def _visible(
    rows: jax.Array, columns: jax.Array, row_segments: jax.Array | None, segments: jax.Array | None
) -> jax.Array:
    causal = (rows[:, None] >= columns[None, :])[None]
    if row_segments is None or segments is None:
        return causal
    return causal & (row_segments[:, :, None] == segments[:, None, :])
