"""Cross-entropy over a large vocabulary, without ever having the logits whole.

In: hidden states (N, width), the embedding (vocabulary, width), labels (N) where -100 counts for nothing.
Out: the summed loss and how many labels counted, and the gradients of the sum. Held in memory: one chunk's
logits (chunk x vocabulary floats, and their gradient), and the gradients themselves.

The gradient of a chunk is computed in the forward pass, while its logits are there (`custom_vjp`): the
backward pass only multiplies by what arrives from above. So no product is computed twice, unlike with
`jax.checkpoint`, and nothing of size N x vocabulary outlives its chunk.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

IGNORED = -100

# The gradients of the sum: with respect to the hidden states and to the embedding.
_Gradients = tuple[jax.Array, jax.Array]


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def summed_loss(
    hidden: jax.Array, embedding: jax.Array, labels: jax.Array, scale: jax.Array, chunk: int
) -> jax.Array:
    """`scale` x the sum of the losses of all labels, in float32; `chunk` tokens are worked on at a time.

    The scale is applied before gradients are stored in the hidden states' type: float16 needs it there.
    """
    chunks = _in_chunks(hidden, labels, chunk)

    def add(total: jax.Array, piece: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        states, targets = piece
        _, losses = _chunk_losses(states, embedding, targets)
        return total + losses.sum(), None

    total, _ = jax.lax.scan(add, jnp.zeros((), jnp.float32), chunks)
    return total * scale


def count_labels(labels: jax.Array) -> jax.Array:
    return jnp.sum(labels != IGNORED, dtype=jnp.int32)


def _forward(
    hidden: jax.Array, embedding: jax.Array, labels: jax.Array, scale: jax.Array, chunk: int
) -> tuple[jax.Array, _Gradients]:
    vocabulary = jnp.arange(embedding.shape[0])

    def add(
        carried: tuple[jax.Array, jax.Array], piece: tuple[jax.Array, jax.Array]
    ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        total, embedding_gradient = carried
        states, targets = piece
        (shifted, normalizer), losses = _chunk_losses(states, embedding, targets)
        counted = jnp.where(targets == IGNORED, 0.0, scale)[:, None]
        # d loss / d logits: the softmax, less 1 at the label.
        hit = vocabulary[None, :] == targets[:, None]
        slope = (jnp.exp(shifted - normalizer) - hit) * counted
        slope = slope.astype(states.dtype)
        grown = jnp.einsum("nv,nd->vd", slope, states, preferred_element_type=jnp.float32)
        gradient = (slope @ embedding).astype(states.dtype)
        return (total + losses.sum(), embedding_gradient + grown), gradient

    start = jnp.zeros((), jnp.float32), jnp.zeros(embedding.shape, jnp.float32)
    (total, embedding_gradient), gradients = jax.lax.scan(add, start, _in_chunks(hidden, labels, chunk))
    hidden_gradient = gradients.reshape(-1, hidden.shape[1])[: hidden.shape[0]]
    return total * scale, (hidden_gradient, embedding_gradient.astype(embedding.dtype))


def _backward(chunk: int, gradients: _Gradients, above: jax.Array) -> tuple[Any, ...]:
    hidden_gradient, embedding_gradient = gradients
    return (
        (hidden_gradient * above).astype(hidden_gradient.dtype),
        (embedding_gradient * above).astype(embedding_gradient.dtype),
        None,
        None,
    )


summed_loss.defvjp(_forward, _backward)


def _chunk_losses(
    states: jax.Array, embedding: jax.Array, targets: jax.Array
) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
    """A chunk's logits less their largest, their log-sum, and each token's loss; float32 throughout."""
    logits = jnp.einsum("nd,vd->nv", states, embedding, preferred_element_type=jnp.float32)
    shifted = logits - logits.max(axis=-1, keepdims=True)
    normalizer = jnp.log(jnp.exp(shifted).sum(axis=-1, keepdims=True))
    chosen = jnp.take_along_axis(shifted, jnp.maximum(targets, 0)[:, None], axis=-1)
    losses = jnp.where(targets == IGNORED, 0.0, (normalizer - chosen)[:, 0])
    return (shifted, normalizer), losses


def _in_chunks(hidden: jax.Array, labels: jax.Array, chunk: int) -> tuple[jax.Array, jax.Array]:
    """Cut into pieces of `chunk` tokens, the last one filled up with labels that count for nothing."""
    count, width = hidden.shape
    size = min(chunk, count)
    missing = -count % size
    if missing:
        hidden = jnp.pad(hidden, ((0, missing), (0, 0)))
        labels = jnp.pad(labels, (0, missing), constant_values=IGNORED)
    return hidden.reshape(-1, size, width), labels.reshape(-1, size)
