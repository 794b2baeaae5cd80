"""The learning rate of each step.

In: the step's number, from 0. Out: the rate. Nothing is held. Both warm up in a straight line; `cosine` then
falls along half a cosine to a tenth of its height, `wsd` stays at its height and falls in a straight line to
zero over the last steps, so that a run can be prolonged from before the fall.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from krill.errors import ConfigError

Schedule = Callable[[jax.Array | int], jax.Array]

COSINE_FLOOR = 0.1
# Of the steps: what warming up and the last fall take unless they are given.
WARMUP_PART = 0.05
DECAY_PART = 0.2


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
