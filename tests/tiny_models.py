"""Models for tests, made by NumPy: drawing them with JAX would compile a program for every shape."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from krill.model.sizing import ModelShape
from krill.model.transformer import Layers, Transformer


def tiny_model(shape: ModelShape, seed: int, scale: float = 0.1, dtype: str = "float32") -> Transformer:
    """Normal weights of size `scale`; norms around 1."""
    rng = np.random.default_rng(seed)

    def weights(*size: int) -> jnp.ndarray:
        return jnp.asarray(rng.normal(0, scale, size).astype("float32"), dtype)

    def norm(*size: int) -> jnp.ndarray:
        return jnp.asarray(rng.normal(1, 0.1, size).astype("float32"), dtype)

    depth, width, hidden = shape.layers, shape.width, shape.hidden
    layers = Layers(
        attention_norm=norm(depth, width),
        query=weights(depth, width, width),
        key=weights(depth, width, shape.kv_width),
        value=weights(depth, width, shape.kv_width),
        output=weights(depth, width, width),
        mlp_norm=norm(depth, width),
        gate=weights(depth, width, hidden),
        up=weights(depth, width, hidden),
        down=weights(depth, hidden, width),
    )
    return Transformer(weights(shape.vocab_size, width), layers, norm(width), shape)
