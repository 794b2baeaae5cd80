"""The product of activations with a matrix of weights, and how its gradient is computed.

In: activations (…, in) and weights (in, out). Out: (…, out). Held in memory for the gradient: the two that
came in. What differs from `@` is only the order on the way back: the weights' gradient is a product over all
tokens, for which a CPU lays one of its two sides out anew, and the narrower one is given to it for that.
Left to itself it is always the output's side, the wide one of a feed-forward layer.
"""

from __future__ import annotations

from typing import Any

import jax


@jax.custom_vjp
def project(states: jax.Array, weights: jax.Array) -> jax.Array:
    """`states @ weights`."""
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
    """(N, a) and (N, b) as (a, b): it is the first that is laid out anew."""
    return jax.lax.dot_general(first, second, (((0,), (0,)), ((), ())))


project.defvjp(_forward, _backward)
