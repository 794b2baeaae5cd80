"""Optimizers by name, and learning-rate schedules.

In: a schedule and a few numbers. Out: an optax transformation: clipping, Adam with 32-bit or 8-bit state,
decay of matrices, the learning rate. Held in memory: its state, 8 bytes a weight
for `adamw`, 2.03 to 2.13 for `adamw8bit` outside small tensors. The budget never chooses between them.

Both schedules warm up linearly; `cosine` then falls along half a cosine to a tenth of its peak, `wsd` stays
at its peak and falls linearly to zero over the last steps, so that a run can be extended from before the
fall.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from krill.errors import ConfigError
from krill.training.optimizer8bit import scale_by_adam8bit

Schedule = Callable[[jax.Array | int], jax.Array]

COSINE_FLOOR = 0.1
# The parts of all steps that warm-up and decay take unless they are given.
WARMUP_PART = 0.05
DECAY_PART = 0.2

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


def cosine(peak: float, steps: int, *, warmup: int | None = None, floor: float = COSINE_FLOOR) -> Schedule:
    """Warm-up, then half a cosine from `peak` down to `floor` x `peak` at `steps`, and level after it."""
    rising = _warmup_steps(steps, warmup)

    def rate(step: jax.Array | int) -> jax.Array:
        part = jnp.clip((jnp.asarray(step) - rising) / max(steps - rising, 1), 0.0, 1.0)
        fallen = floor + (1 - floor) * 0.5 * (1 + jnp.cos(jnp.pi * part))
        return peak * jnp.minimum(_rise(step, rising), fallen)

    return rate


def wsd(peak: float, steps: int, *, warmup: int | None = None, decay: int | None = None) -> Schedule:
    """Warm-up, then level, then a straight fall to 0 over the last `decay` of `steps`."""
    rising = _warmup_steps(steps, warmup)
    falling = max(1, int(steps * DECAY_PART)) if decay is None else decay
    if not 1 <= falling <= steps - rising:
        raise ConfigError(
            f"a fall of `{falling}` steps after `{rising}` of warm-up is longer than the run of `{steps}`",
            hint=f"give from 1 to {max(1, steps - rising)} decay steps",
        )

    def rate(step: jax.Array | int) -> jax.Array:
        left = jnp.clip((steps - jnp.asarray(step)) / falling, 0.0, 1.0)
        return peak * jnp.minimum(_rise(step, rising), left)

    return rate


def _warmup_steps(steps: int, warmup: int | None) -> int:
    rising = int(steps * WARMUP_PART) if warmup is None else warmup
    if steps < 1 or not 0 <= rising < steps:
        raise ConfigError(
            f"a warm-up of `{rising}` steps doesn't fit into a run of `{steps}`",
            hint="give fewer warm-up steps than steps",
        )
    return rising


def _rise(step: jax.Array | int, rising: int) -> jax.Array:
    """From just above 0 at step 0 to 1 at the end of the warm-up: no step is wasted on a rate of 0."""
    return jnp.minimum((jnp.asarray(step) + 1) / max(rising + 1, 1), 1.0)
