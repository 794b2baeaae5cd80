"""One step of training, compiled, with its state given up to the next one.

In: a `TrainState` and a batch: `input_ids` and `labels` (B, T), perhaps `segment_ids` and `position_ids`.
Out: the next state, in the same memory (donated), and the step's loss, gradient norm and counted tokens.
Held in memory: the state, the gradients, a microbatch's activations; `memory_of` says how much, before a
step is run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from krill.model.sizing import ModelShape
from krill.model.transformer import Compute, Transformer, init_transformer
from krill.training.accumulate import Batch, Sums, accumulate, cut
from krill.training.loss import count_labels, summed_loss
from krill.training.precision import LossScale, Precision, cast, first_scale, next_scale

COLUMNS = ("input_ids", "labels", "segment_ids", "position_ids")


class TrainState(NamedTuple):
    """Everything that a step changes, and so everything of it that a checkpoint holds."""

    model: Transformer
    optimizer: Any
    scale: LossScale
    step: jax.Array


class Metrics(NamedTuple):
    """Of one step: the mean loss of its tokens, the gradient's norm before clipping, how many tokens counted.

    `skipped` is 1 where float16 overflowed: then the weights are as they were and the loss scale is halved.
    """

    loss: jax.Array
    grad_norm: jax.Array
    tokens: jax.Array
    skipped: jax.Array


@dataclass(frozen=True, slots=True)
class StepOptions:
    """What changes a step's memory but, beyond float tolerance, not its result."""

    microbatch: int
    loss_chunk: int
    compute: Compute = field(default_factory=Compute)


Step = Callable[[TrainState, Mapping[str, Any]], tuple[TrainState, Metrics]]


def first_state(
    shape: ModelShape, optimizer: optax.GradientTransformation, precision: Precision, seed: int
) -> TrainState:
    """Fresh weights and an empty optimizer."""
    model = init_transformer(shape, seed)
    return TrainState(model, optimizer.init(model), first_scale(precision), jnp.zeros((), jnp.int32))


def make_step(
    optimizer: optax.GradientTransformation,
    options: StepOptions,
    precision: Precision = Precision.FLOAT32,
) -> Step:
    """The step as a jitted function; the state that is passed in is gone afterwards."""

    def step(state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
        sums = _batch_sums(state, batch, options, precision)
        # From a share of all labels to a share of those that count, and the loss scale taken out.
        counted = jnp.maximum(sums.tokens, 1).astype(jnp.float32)
        share = batch["labels"].size / (counted * state.scale.scale)
        gradients = jax.tree.map(lambda gradient: gradient * share, sums.gradients)
        norm = jnp.sqrt(sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(gradients)))
        finite = jnp.isfinite(norm)
        model, held = _apply(optimizer, state, gradients, finite if precision.scaled else None)
        scale = next_scale(state.scale, finite) if precision.scaled else state.scale
        skipped = jnp.logical_and(precision.scaled, ~finite).astype(jnp.int32)
        metrics = Metrics(sums.loss * share, norm, sums.tokens, skipped)
        return TrainState(model, held, scale, state.step + 1), metrics

    return jax.jit(step, donate_argnums=0)


def _batch_sums(state: TrainState, batch: Batch, options: StepOptions, precision: Precision) -> Sums:
    # Each token's gradient as a share of the batch: a sum over a large one would overflow float16.
    scale = state.scale.scale / batch["labels"].size

    def summed(model: Transformer, piece: Batch) -> tuple[jax.Array, jax.Array]:
        used = cast(model, precision)
        states = used.hidden(
            piece["input_ids"], piece.get("segment_ids"), piece.get("position_ids"), options.compute
        )
        labels = piece["labels"].reshape(-1)
        flat = states.reshape(labels.shape[0], -1)
        loss = summed_loss(flat, used.embedding, labels, scale, options.loss_chunk)
        return loss, count_labels(labels)

    return accumulate(summed, state.model, cut(batch, options.microbatch))


def _apply(
    optimizer: optax.GradientTransformation, state: TrainState, gradients: Any, finite: jax.Array | None
) -> tuple[Transformer, Any]:
    """The optimizer's update; with `finite`, only where that holds."""

    def take(gradients: Any) -> tuple[Transformer, Any]:
        updates, held = optimizer.update(gradients, state.optimizer, state.model)
        return optax.apply_updates(state.model, updates), held

    if finite is None:
        return take(gradients)
    # A branch and not a choice between two results: that would hold both of them.
    taken: tuple[Transformer, Any] = jax.lax.cond(
        finite, take, lambda _: (state.model, state.optimizer), gradients
    )
    return taken


def lower_step(
    step: Step,
    shape: ModelShape,
    optimizer: optax.GradientTransformation,
    precision: Precision,
    rows: int,
    length: int,
) -> jax.stages.Lowered:
    """The step traced for a batch of `rows` x `length`; nothing of that size is allocated."""
    state = jax.eval_shape(lambda: first_state(shape, optimizer, precision, 0))
    column = jax.ShapeDtypeStruct((rows, length), jnp.int32)  # type: ignore[no-untyped-call]
    lowered: jax.stages.Lowered = step.lower(state, dict.fromkeys(COLUMNS, column))  # type: ignore[attr-defined]
    return lowered


def memory_of(compiled: jax.stages.Compiled) -> int:
    """The most that a compiled step holds, its state and batch included, as XLA has laid it out."""
    found: Any = compiled.memory_analysis()
    # `peak_memory_in_bytes` leaves parts out on the CPU.
    return int(
        found.argument_size_in_bytes
        + found.output_size_in_bytes
        + found.temp_size_in_bytes
        - found.alias_size_in_bytes
    )
