"""From the config's numbers to what is trained: the model's shape, the learning rate, the optimizer.

In: `train:` of the config, a vocabulary, a number of steps. Out: what `step.py` takes. Nothing is held.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import optax

from krill.config import TrainConfig
from krill.model.outline import model_shape
from krill.model.sizing import ModelShape
from krill.training.optimizers import make_optimizer
from krill.training.precision import Precision
from krill.training.schedule import Schedule, cosine, wsd


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that shapes a step but its data."""

    shape: ModelShape
    precision: Precision
    steps: int
    schedule: Schedule
    optimizer: optax.GradientTransformation


def make_recipe(settings: TrainConfig, vocab_size: int, steps: int) -> Recipe:
    """What the config asks for, over so many steps."""
    schedule = make_schedule(settings, steps)
    optimizer = make_optimizer(
        settings.optimizer, schedule, weight_decay=settings.weight_decay, clip=settings.clip
    )
    precision = Precision(settings.mixed_precision or Precision.FLOAT32)
    return Recipe(model_shape(settings, vocab_size), precision, steps, schedule, optimizer)


def count_steps(settings: TrainConfig, step_tokens: int, epoch_steps: Callable[[], int]) -> int:
    """By what was asked for; how many an epoch has is looked up only where that decides."""
    by_tokens = None if settings.max_tokens is None else -(-settings.max_tokens // step_tokens)
    limits = [limit for limit in (settings.max_steps, by_tokens) if limit is not None]
    return min(limits) if limits else settings.epochs * epoch_steps()


def make_schedule(settings: TrainConfig, steps: int) -> Schedule:
    """The learning rate of each of `steps`."""
    if settings.schedule == "wsd":
        return wsd(settings.learning_rate, steps, warmup=settings.warmup_steps, decay=settings.decay_steps)
    return cosine(settings.learning_rate, steps, warmup=settings.warmup_steps)
