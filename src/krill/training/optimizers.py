"""The optimizers by name: clipping, Adam with 32-bit or 8-bit state, decay of matrices, the schedule.

In: a schedule and a few numbers. Out: an optax transformation. Held in memory: its state, 8 bytes a weight
for `adamw`, 2.03 to 2.13 for `adamw8bit` outside small tensors. The budget never chooses between them.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax

from krill.errors import ConfigError
from krill.training.optimizer8bit import scale_by_adam8bit
from krill.training.schedule import Schedule

OPTIMIZERS = ("adamw", "adamw8bit")


def make_optimizer(
    name: str,
    schedule: Schedule,
    *,
    weight_decay: float = 0.1,
    clip: float | None = 1.0,
    b1: float = 0.9,
    b2: float = 0.95,
    eps: float = 1e-8,
) -> optax.GradientTransformation:
    """`adamw` or `adamw8bit`; gradients with a norm above `clip` are scaled down to it."""
    if name not in OPTIMIZERS:
        raise ConfigError(f"there is no optimizer `{name}`", hint=f"give one of {', '.join(OPTIMIZERS)}")
    adam = optax.scale_by_adam if name == "adamw" else scale_by_adam8bit
    return optax.chain(
        *([] if clip is None else [clip_to_norm(clip)]),
        adam(b1=b1, b2=b2, eps=eps),
        optax.add_decayed_weights(weight_decay, mask=matrices),
        optax.scale_by_learning_rate(schedule),
    )


def clip_to_norm(limit: float) -> optax.GradientTransformationExtraArgs:
    """As `optax.clip_by_global_norm`, with the norm that the caller has: a device sees only its own part."""

    def update(gradients: Any, state: Any, weights: Any = None, *, norm: Any = None, **_: Any) -> Any:
        size = optax.tree.norm(gradients) if norm is None else norm
        share = limit / jnp.maximum(size, limit)
        return jax.tree.map(lambda leaf: leaf * share.astype(leaf.dtype), gradients), state

    return optax.GradientTransformationExtraArgs(lambda _: optax.EmptyState(), update)


def matrices(weights: Any) -> Any:
    """Which weights decay: all but the scales of norms, which lie stacked and so look like matrices."""
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: leaf.ndim > 1 and not _name(path).endswith("norm"), weights
    )


def _name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")
