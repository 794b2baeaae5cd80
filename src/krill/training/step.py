"""One step of training, compiled, with its state given up to the next one.

In: a `TrainState` and a batch: `input_ids` and `labels` (B, T), perhaps `segment_ids` and `position_ids`.
Out: the next state, in the same memory (donated), and the step's loss, gradient norm and counted tokens.
Held in memory: the state, the gradients, a microbatch's activations; `memory_of` says how much, before a
step is run. With a `Placement` every device holds its part; batches may come as NumPy arrays all the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from krill import _native
from krill.model.sizing import ModelShape
from krill.model.transformer import Compute, Transformer, init_transformer
from krill.training.accumulate import Batch, Sums, accumulate, cut
from krill.training.compiler import lean
from krill.training.loss import count_labels, summed_loss
from krill.training.mesh import ALONE, Exchange, Placement, along
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
    shape: ModelShape,
    optimizer: optax.GradientTransformation,
    precision: Precision,
    seed: int,
    placement: Placement | None = None,
) -> TrainState:
    """Fresh weights and an empty optimizer, the same weights on however many devices."""

    def made() -> TrainState:
        return _fresh(shape, optimizer, precision, seed)

    # One program and not one for each array: compiling those takes longer and leaves more behind.
    placed = None if placement is None else placement.state(jax.eval_shape(made))
    state: TrainState = lean().compile(jax.jit(made, out_shardings=placed).lower(), runs_once=True)()
    _native.trim(code=True)
    return state


def _fresh(
    shape: ModelShape, optimizer: optax.GradientTransformation, precision: Precision, seed: int
) -> TrainState:
    model = init_transformer(shape, seed)
    return TrainState(model, optimizer.init(model), first_scale(precision), jnp.zeros((), jnp.int32))


def state_shapes(
    shape: ModelShape,
    optimizer: optax.GradientTransformation,
    precision: Precision,
    placement: Placement | None = None,
) -> TrainState:
    """The shapes of `first_state`, and with a placement where each array lies; nothing is allocated."""
    shapes: TrainState = jax.eval_shape(lambda: _fresh(shape, optimizer, precision, 0))
    if placement is None:
        return shapes
    placed: TrainState = jax.tree.map(_placed, shapes, placement.state(shapes))
    return placed


def _placed(array: jax.ShapeDtypeStruct, sharding: jax.sharding.Sharding) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=sharding)  # type: ignore[no-untyped-call]


def make_step(
    optimizer: optax.GradientTransformation,
    options: StepOptions,
    precision: Precision = Precision.FLOAT32,
    placement: Placement | None = None,
) -> Step:
    """The step as a jitted function; the state that is passed in is gone afterwards.

    `options.microbatch` counts the rows of all devices together.
    """
    take = functools.partial(_take_step, optimizer, precision)
    if placement is None:
        return jax.jit(functools.partial(take, options, ALONE), donate_argnums=0)
    own = replace(options, microbatch=options.microbatch // placement.count)

    def spread(state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
        specs, rows = placement.specs(state), placement.batch.spec
        run = jax.shard_map(
            functools.partial(take, own, placement.exchange(state.model)),
            mesh=placement.mesh,
            in_specs=(specs, rows),
            out_specs=(specs, along(None)),
            check_vma=False,
        )
        done: tuple[TrainState, Metrics] = run(state, batch)
        return done

    return jax.jit(spread, donate_argnums=0)


def _take_step(
    optimizer: optax.GradientTransformation,
    precision: Precision,
    options: StepOptions,
    exchange: Exchange,
    state: TrainState,
    batch: Batch,
) -> tuple[TrainState, Metrics]:
    labels = batch["labels"].size * exchange.count
    # Each token's gradient as a share of the batch: a sum over a large one would overflow float16.
    own = _own_sums(state.model, batch, state.scale.scale / labels, options, precision, exchange)
    tokens = exchange.total(own.tokens)
    # From a share of all labels to a share of those that count, and the loss scale taken out.
    share = labels / (jnp.maximum(tokens, 1).astype(jnp.float32) * state.scale.scale)
    gradients = jax.tree.map(lambda gradient: gradient * share, exchange.gradients(own.gradients))
    norm = exchange.norm(gradients)
    finite = jnp.isfinite(norm)
    update = functools.partial(optimizer.update, norm=norm, part=exchange.part)
    model, held = _apply(update, state, gradients, finite if precision.scaled else None)
    scale = next_scale(state.scale, finite) if precision.scaled else state.scale
    skipped = jnp.logical_and(precision.scaled, ~finite).astype(jnp.int32)
    metrics = Metrics(exchange.total(own.loss) * share, norm, tokens, skipped)
    return TrainState(model, held, scale, state.step + 1), metrics


def _own_sums(
    model: Transformer,
    batch: Batch,
    scale: jax.Array,
    options: StepOptions,
    precision: Precision,
    exchange: Exchange,
) -> Sums:
    """Of this device's rows: the gradients and the loss, times `scale`, and the tokens."""
    fetch = None if exchange.count == 1 else exchange.layer

    def summed(model: Transformer, piece: Batch) -> tuple[jax.Array, jax.Array]:
        used = cast(model, precision)
        used = replace(used, embedding=exchange.embedding(used.embedding))
        states = used.hidden(
            piece["input_ids"], piece.get("segment_ids"), piece.get("position_ids"), options.compute, fetch
        )
        labels = piece["labels"].reshape(-1)
        flat = states.reshape(labels.shape[0], -1)
        loss = summed_loss(flat, used.embedding, labels, scale, options.loss_chunk)
        return loss, count_labels(labels)

    return accumulate(summed, model, cut(batch, options.microbatch))


def _apply(
    update: Callable[..., tuple[Any, Any]], state: TrainState, gradients: Any, finite: jax.Array | None
) -> tuple[Transformer, Any]:
    """The optimizer's update; with `finite`, only where that holds."""

    def take(gradients: Any) -> tuple[Transformer, Any]:
        updates, held = update(gradients, state.optimizer, state.model)
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
    placement: Placement | None = None,
) -> jax.stages.Lowered:
    """The step traced for a batch of `rows` x `length`; nothing of that size is allocated."""
    state = state_shapes(shape, optimizer, precision, placement)
    sharding = None if placement is None else placement.batch
    column = jax.ShapeDtypeStruct((rows, length), jnp.int32, sharding=sharding)  # type: ignore[no-untyped-call]
    lowered: jax.stages.Lowered = step.lower(state, dict.fromkeys(COLUMNS, column))  # type: ignore[attr-defined]
    return lowered


def memory_of(compiled: jax.stages.Compiled) -> int:
    """The most that a compiled step holds on a device, its state and batch included, as XLA laid it out."""
    found: Any = compiled.memory_analysis()
    # `peak_memory_in_bytes` leaves parts out on the CPU.
    return int(
        found.argument_size_in_bytes
        + found.output_size_in_bytes
        + found.temp_size_in_bytes
        - found.alias_size_in_bytes
    )
