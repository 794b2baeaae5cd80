"""A training step, whatever model it trains: its state, its figures, gradient accumulation, compilation.

In: a `StepSpec`: a model, its loss, an optimizer and the size of a batch. Out: the first state, and the
lowered program that takes a state and a batch to the next state, in the same memory (donated), with the
step's loss, gradient norm and counted tokens. Held in memory: the state, the gradients, a microbatch's
activations; `memory_of` says how much, before a step is run.

`language_step.py` and `qa/step.py` are the two specs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp

from krill import _native
from krill.errors import BudgetError
from krill.training.compiler import Compiler, low_memory_compiler
from krill.training.mesh import Placement
from krill.training.precision import LossScale

Weights = TypeVar("Weights")
Batch = Mapping[str, jax.Array]
Shapes = Mapping[str, jax.ShapeDtypeStruct]


class TrainState(NamedTuple):
    """Everything that a step changes, and so everything of it that a checkpoint holds.

    A reader has no loss scale: None is no array, neither in memory nor in a checkpoint.
    """

    model: Any
    optimizer: Any
    scale: LossScale | None
    step: jax.Array


class Metrics(NamedTuple):
    """Of one step: the mean loss of its tokens, the gradient's norm before clipping, how many tokens counted.

    `skipped` is 1 where float16 overflowed: then the weights are as they were and the loss scale is halved.
    """

    loss: jax.Array
    grad_norm: jax.Array
    tokens: jax.Array
    skipped: jax.Array


Step = Callable[[TrainState, Mapping[str, Any]], tuple[TrainState, Metrics]]


class StepPlan(Protocol):
    """How a step is divided, and once it is compiled what it holds: plain numbers, for a checkpoint to store.

    Plans of the same batch give the same result to float tolerance.
    """

    @property
    def step_bytes(self) -> int: ...

    @property
    def compiler(self) -> Compiler:
        """What the step is compiled with, again after a checkpoint."""

    def with_memory(self, step_bytes: int, compiler: Compiler) -> StepPlan: ...


class StepSpec(Protocol):
    """What is trained on which batches."""

    @property
    def placement(self) -> Placement | None: ...

    @property
    def parameters(self) -> int: ...

    @property
    def estimate_slack(self) -> float:
        """How far the estimate may be from the truth, as a factor, in both directions."""

    @property
    def mapped_from(self) -> int:
        """The size from which malloc maps a block by itself: smaller blocks are reused by later steps."""

    def init(self, seed: int) -> TrainState:
        """New weights and an empty optimizer, to be traced."""

    def make_step(self, plan: Any) -> Step:
        """The step as a jitted function; the state that is passed in is donated."""

    def batch_shapes(self) -> Shapes: ...

    def choices(self) -> list[Any]:
        """The plans that a budget chooses from, fastest first."""

    def estimate(self, plan: Any) -> int:
        """Roughly what a step holds, in bytes: where to begin, never what is promised."""

    def stored_plan(self, stored: Mapping[str, Any]) -> StepPlan:
        """As a checkpoint has it."""

    def too_small(self, needed: int, budget: int) -> BudgetError:
        """The error where even the last choice needs more than the budget."""


def first_state(spec: StepSpec, seed: int) -> TrainState:
    """New weights and an empty optimizer, the same weights on however many devices."""

    def init() -> TrainState:
        return spec.init(seed)

    # One program and not one for each array: compiling those takes longer and leaves more behind.
    shardings = None if spec.placement is None else spec.placement.state(jax.eval_shape(init))
    lowered = jax.jit(init, out_shardings=shardings).lower()
    state: TrainState = low_memory_compiler().compile(lowered, runs_once=True)()
    _native.trim(code=True)
    return state


def state_shapes(spec: StepSpec) -> TrainState:
    """The shapes of `first_state`, and with a placement where each array lies; nothing is allocated."""
    shapes: TrainState = jax.eval_shape(lambda: spec.init(0))
    if spec.placement is None:
        return shapes
    placed: TrainState = jax.tree.map(
        lambda array, sharding: shape_of(array.shape, array.dtype, sharding),
        shapes,
        spec.placement.state(shapes),
    )
    return placed


def state_bytes(spec: StepSpec) -> int:
    """Of the weights and the optimizer, on all devices together."""
    return sum(
        leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(jax.eval_shape(lambda: spec.init(0)))
    )


def lower_step(spec: StepSpec, plan: Any) -> jax.stages.Lowered:
    """The step traced for a batch; nothing of that size is allocated."""
    step: Any = spec.make_step(plan)
    lowered: jax.stages.Lowered = step.lower(state_shapes(spec), dict(spec.batch_shapes()))
    return lowered


def shape_of(
    size: tuple[int, ...], dtype: Any = jnp.int32, sharding: jax.sharding.Sharding | None = None
) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(size, dtype, sharding=sharding)  # type: ignore[no-untyped-call]


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


class GradientSums(NamedTuple):
    """Sums over a batch; dividing by the tokens is the caller's, so that every token counts the same in
    whichever microbatch it is, as in one large batch."""

    gradients: Any
    loss: jax.Array
    tokens: jax.Array


def microbatches(batch: Batch, rows: int) -> dict[str, jax.Array]:
    """Columns (B, T) as (B / rows, rows, T); B must be a multiple."""
    return {name: column.reshape(-1, rows, *column.shape[1:]) for name, column in batch.items()}


def accumulate(
    summed_loss: Callable[[Weights, Batch], tuple[jax.Array, jax.Array]], weights: Weights, batches: Batch
) -> GradientSums:
    """Run `summed_loss(weights, microbatch) -> (loss, tokens)` and its gradient over every microbatch.

    Holds one sum of gradients, one microbatch's gradients and its activations.
    """
    gradient = jax.value_and_grad(summed_loss, has_aux=True)
    count = next(iter(batches.values())).shape[0]
    if count == 1:
        # No second set of gradients to hold beside the first.
        (loss, tokens), own = gradient(weights, {name: column[0] for name, column in batches.items()})
        return GradientSums(own, loss, tokens)

    def add(sums: GradientSums, microbatch: Batch) -> tuple[GradientSums, None]:
        (loss, tokens), own = gradient(weights, microbatch)
        gradients = jax.tree.map(jnp.add, sums.gradients, own)
        return GradientSums(gradients, sums.loss + loss, sums.tokens + tokens), None

    zeros = GradientSums(
        jax.tree.map(jnp.zeros_like, weights), jnp.zeros((), jnp.float32), jnp.zeros((), jnp.int32)
    )
    sums, _ = jax.lax.scan(add, zeros, dict(batches))
    return sums
