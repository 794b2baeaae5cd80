"""A decoder: RMSNorm, rotary positions, SwiGLU, shared heads of keys and values, tied embeddings.

In: tokens (B, T), and where documents share a row their numbers and positions. Out: hidden states (B, T,
width); logits only where they are asked for, since for a training batch they are the largest array of all
(`krill.training.loss` takes the hidden states). Held in memory: the weights, one copy; for the gradient what
`Compute` leaves: every layer's activations, or only every layer's input.

The layers' weights lie stacked, the first axis is the layer, and run in one `lax.scan`: compile time and
code don't grow with depth.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from krill.model.attention import attend, rotate, rotation
from krill.model.sizing import ModelShape

INIT_SCALE = 0.02
# Rows up to this are attended to in one piece; longer ones in blocks of queries.
WHOLE_ATTENTION = 512
ATTENTION_BLOCK = 256

Rope = tuple[jax.Array, jax.Array]
Attention = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]


@dataclass(frozen=True, slots=True)
class Compute:
    """What is kept for the gradient: never what is computed, beyond float tolerance.

    `remat` keeps each layer's input and nothing else, and computes the layer once more on the way back.
    `attention_block` is the number of queries at a time; None takes blocks only for rows above 512 tokens.
    """

    remat: bool = False
    attention_block: int | None = None

    def block_for(self, length: int) -> int | None:
        """Queries at a time for rows of `length`; None is all of them."""
        if self.attention_block is not None:
            return self.attention_block
        return None if length <= WHOLE_ATTENTION else ATTENTION_BLOCK


class Layers(eqx.Module):
    """The weights of all layers, stacked; matrices take (…, in) to (…, out)."""

    attention_norm: jax.Array
    query: jax.Array
    key: jax.Array
    value: jax.Array
    output: jax.Array
    mlp_norm: jax.Array
    gate: jax.Array
    up: jax.Array
    down: jax.Array


class Transformer(eqx.Module):
    """The weights and the shape that they have; a pytree whose leaves are all arrays."""

    embedding: jax.Array
    layers: Layers
    final_norm: jax.Array
    shape: ModelShape = eqx.field(static=True)

    def hidden(
        self,
        ids: jax.Array,
        segment_ids: jax.Array | None = None,
        position_ids: jax.Array | None = None,
        compute: Compute = Compute(),
        fetch: Callable[[Layers], Layers] | None = None,
    ) -> jax.Array:
        """The normed output of the last layer, (B, T, width); its product with the embedding is the logits.

        `segment_ids` numbers the documents of a row: none sees another. Positions restart where they do in
        `position_ids`, and run along the row without it. `fetch` makes one layer's weights whole where other
        devices hold parts of them; never more than one layer's are.
        """
        if position_ids is None:
            position_ids = jnp.arange(ids.shape[1])[None]
        rope = rotation(position_ids, self.shape.head_size, self.shape.rope_theta)
        block = compute.block_for(ids.shape[1])

        def attention(queries: jax.Array, keys: jax.Array, values: jax.Array) -> jax.Array:
            return attend(queries, keys, values, segment_ids, block)

        def layer(carried: jax.Array, weights: Layers) -> tuple[jax.Array, None]:
            whole = weights if fetch is None else fetch(weights)
            return apply_layer(self.shape, whole, carried, rope, attention), None

        body = layer
        if compute.remat:
            body = jax.checkpoint(layer)
        elif fetch is not None:
            body = jax.checkpoint(layer, policy=_is_own)
        states, _ = jax.lax.scan(body, self.embedding[ids], self.layers)
        return rms_norm(states, self.final_norm, self.shape.norm_eps)

    def logits(
        self, ids: jax.Array, segment_ids: jax.Array | None = None, position_ids: jax.Array | None = None
    ) -> jax.Array:
        """(B, T, vocabulary) in float32; for looking at a few rows, not for training."""
        return self.unembed(self.hidden(ids, segment_ids, position_ids))

    def unembed(self, states: jax.Array) -> jax.Array:
        """Hidden states as logits in float32."""
        return jnp.einsum("...d,vd->...v", states, self.embedding, preferred_element_type=jnp.float32)


def _is_own(primitive: Any, *_: Any, **__: Any) -> bool:
    """What is kept for the way back: everything but weights that came from other devices."""
    return bool(primitive.name != "all_gather")


def apply_layer(
    shape: ModelShape, weights: Layers, states: jax.Array, rope: Rope, attention: Attention
) -> jax.Array:
    """One layer over (B, T, width); `attention` gets rotated queries and keys, and values, by heads."""
    batch, length, width = states.shape
    normed = rms_norm(states, weights.attention_norm, shape.norm_eps)
    queries = project(normed, weights.query).reshape(batch, length, shape.heads, shape.head_size)
    keys = project(normed, weights.key).reshape(batch, length, shape.kv_heads, shape.head_size)
    values = project(normed, weights.value).reshape(batch, length, shape.kv_heads, shape.head_size)
    gathered = attention(rotate(queries, rope), rotate(keys, rope), values)
    states = states + project(gathered.reshape(batch, length, width), weights.output)
    normed = rms_norm(states, weights.mlp_norm, shape.norm_eps)
    gated = jax.nn.silu(project(normed, weights.gate)) * project(normed, weights.up)
    return states + project(gated, weights.down)


@jax.custom_vjp
def project(states: jax.Array, weights: jax.Array) -> jax.Array:
    """`states @ weights`, for activations (…, in) and weights (in, out).

    Only the order of the gradient's products differs from `@`: the weights' gradient is a product over all
    tokens, for which a CPU copies one of its two sides into another layout, and here that is the narrower
    one. By itself XLA always copies the output's side, the wide one of a feed-forward layer.
    """
    return states @ weights


def _forward(states: jax.Array, weights: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return states @ weights, (states, weights)


def _backward(kept: tuple[jax.Array, jax.Array], above: jax.Array) -> tuple[Any, Any]:
    states, weights = kept
    outputs, inputs = (part.reshape(-1, part.shape[-1]) for part in (above, states))
    if inputs.shape[1] <= outputs.shape[1]:
        gradient = _over_tokens(inputs, outputs)
    else:
        gradient = _over_tokens(outputs, inputs).T
    return above @ weights.T, gradient.astype(weights.dtype)


def _over_tokens(first: jax.Array, second: jax.Array) -> jax.Array:
    """(N, a) and (N, b) as (a, b): the first is the one that is copied."""
    return jax.lax.dot_general(first, second, (((0,), (0,)), ((), ())))


project.defvjp(_forward, _backward)


def rms_norm(states: jax.Array, scale: jax.Array, eps: float) -> jax.Array:
    """Scaled to a root mean square of 1, in float32 whatever the states are kept in."""
    wide = states.astype(jnp.float32)
    wide = wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + eps)
    return (wide * scale.astype(jnp.float32)).astype(states.dtype)


def matrix_sizes(shape: ModelShape) -> dict[str, tuple[int, int]]:
    """(in, out) of a layer's matrices."""
    width, hidden = shape.width, shape.hidden
    return {
        "query": (width, width),
        "key": (width, shape.kv_width),
        "value": (width, shape.kv_width),
        "output": (width, width),
        "gate": (width, hidden),
        "up": (width, hidden),
        "down": (hidden, width),
    }


# Matrices whose products are added to the residual stream.
_ADDED = ("output", "down")


@functools.partial(jax.jit, static_argnums=0)
def init_transformer(shape: ModelShape, seed: int) -> Transformer:
    """Fresh float32 weights, the same for the same seed.

    Normal with 0.02; what is added to the residual stream is smaller by the root of its 2 x layers addends,
    so that the stream has the same size at any depth.
    """
    depth, width = shape.layers, shape.width
    added = INIT_SCALE / (2 * depth) ** 0.5
    sizes = matrix_sizes(shape)
    first, *keys = jax.random.split(jax.random.key(seed), 1 + len(sizes))
    matrices = {
        name: jax.random.normal(key, (depth, *size), jnp.float32) * (added if name in _ADDED else INIT_SCALE)
        for key, (name, size) in zip(keys, sizes.items(), strict=True)
    }
    norms = {name: jnp.ones((depth, width), jnp.float32) for name in ("attention_norm", "mlp_norm")}
    embedding = jax.random.normal(first, (shape.vocab_size, width), jnp.float32) * INIT_SCALE
    return Transformer(embedding, Layers(**matrices, **norms), jnp.ones(width, jnp.float32), shape)
