"""The training step of a language model, and the ways to divide it so that it fits a budget.

In: the model's shape, an optimizer, a batch's rows and length. Out: the step for batches of `input_ids` and
`labels` (B, T), perhaps `segment_ids` and `position_ids`; its choices of microbatch, loss chunk and
rematerialisation; and the `MemoryPlan` of one of them. Held in memory by a step: the state, the gradients, a
microbatch's activations. With a `Placement` every device holds its part; batches may come as NumPy arrays all
the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import jax
import jax.numpy as jnp
import optax

from krill.budget import format_size
from krill.errors import BudgetError, ConfigError
from krill.model.sizing import ModelShape, count_parameters
from krill.model.transformer import Compute, Transformer, init_transformer
from krill.training.compiler import FAST, Compiler, low_memory_compiler
from krill.training.loss import count_labels, summed_loss
from krill.training.mesh import ONE_DEVICE, Collectives, Placement, along
from krill.training.precision import Precision, cast, first_scale, next_scale
from krill.training.step import (
    Batch,
    GradientSums,
    Metrics,
    Shapes,
    Step,
    TrainState,
    accumulate,
    microbatches,
    shape_of,
)

COLUMNS: Final = ("input_ids", "labels", "segment_ids", "position_ids")
# One chunk's logits: large enough that the products run at full speed, small beside everything else.
CHUNK_BYTES: Final = 8 * 2**20
_FEWEST_CHUNK_TOKENS: Final = 32
_MOST_CHUNK_TOKENS: Final = 2048
# Below so many tokens a microbatch, keeping less (remat) is cheaper than dividing further. Over 4,096 tokens
# a step with 1.4 and 10 million parameters, microbatches of 1,024 took 1.03 and 0.99 times as long as all at
# once, remat 1.01 and 1.06.
_WORTHWHILE_TOKENS: Final = 1024


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """How a step is divided; what changes its memory but, beyond float tolerance, not its result."""

    rows: int
    length: int
    microbatch: int
    loss_chunk: int
    remat: bool = False
    step_bytes: int = 0
    lean: bool = False
    """Whether the low-memory compiler is used; checkpoints have this name."""

    @property
    def compiler(self) -> Compiler:
        return low_memory_compiler() if self.lean else FAST

    @property
    def accumulation_steps(self) -> int:
        return self.rows // self.microbatch

    @property
    def compute(self) -> Compute:
        return Compute(remat=self.remat)

    def with_memory(self, step_bytes: int, compiler: Compiler) -> MemoryPlan:
        return replace(self, step_bytes=step_bytes, lean=compiler is not FAST)


@dataclass(frozen=True, slots=True)
class LanguageModelStep:
    """A `StepSpec` for batches of `rows` x `length`; a given `microbatch` is kept, whatever the budget.

    Microbatches count the rows of all devices together.
    """

    shape: ModelShape
    optimizer: optax.GradientTransformation
    rows: int
    length: int
    precision: Precision = Precision.FLOAT32
    placement: Placement | None = None
    microbatch: int | None = None
    # The estimate was 1.1 to 1.4 times off, in five settings of `benchmarks/train_memory.py`.
    estimate_slack: float = 1.5
    # Blocks of a chunk's size are used again instead of mapped anew in every chunk.
    mapped_from: int = CHUNK_BYTES + 2**20

    @property
    def parameters(self) -> int:
        return count_parameters(self.shape)

    def init(self, seed: int) -> TrainState:
        model = init_transformer(self.shape, seed)
        scale = first_scale(self.precision)
        return TrainState(model, self.optimizer.init(model), scale, jnp.zeros((), jnp.int32))

    def batch_shapes(self) -> Shapes:
        sharding = None if self.placement is None else self.placement.batch
        return dict.fromkeys(COLUMNS, shape_of((self.rows, self.length), sharding=sharding))

    def make_step(self, plan: MemoryPlan) -> Step:
        take = functools.partial(_take_step, self.optimizer, self.precision)
        placement = self.placement
        if placement is None:
            return jax.jit(functools.partial(take, plan, ONE_DEVICE), donate_argnums=0)
        own = replace(plan, microbatch=plan.microbatch // placement.count)

        def spread(state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
            specs, rows = placement.specs(state), placement.batch.spec
            run = jax.shard_map(
                functools.partial(take, own, placement.collectives(state.model)),
                mesh=placement.mesh,
                in_specs=(specs, rows),
                out_specs=(specs, along(None)),
                check_vma=False,
            )
            done: tuple[TrainState, Metrics] = run(state, batch)
            return done

        return jax.jit(spread, donate_argnums=0)

    def choices(self) -> list[MemoryPlan]:
        """Fastest first: everything kept while microbatches are worthwhile, then remat, then ever less."""
        sizes = self._microbatches()
        worthwhile = [size for size in sizes if size == sizes[0] or size * self.length >= _WORTHWHILE_TOKENS]
        return [
            *(self._plan(size) for size in worthwhile),
            *(self._plan(size, remat=True) for size in sizes),
            replace(
                self._plan(sizes[-1], remat=True),
                loss_chunk=min(_FEWEST_CHUNK_TOKENS, sizes[-1] * self.length),
            ),
        ]

    def _plan(self, microbatch: int, *, remat: bool = False) -> MemoryPlan:
        chunk = min(loss_chunk(self.shape.vocab_size), microbatch * self.length)
        return MemoryPlan(self.rows, self.length, microbatch, chunk, remat)

    def _microbatches(self) -> list[int]:
        """How many rows may be computed at once, most first: what divides the batch and the devices."""
        rows, microbatch = self.rows, self.microbatch
        devices = 1 if self.placement is None else self.placement.count
        if microbatch is None:
            return [size for size in range(rows, 0, -1) if rows % size == 0 and size % devices == 0]
        if microbatch < 1 or rows % microbatch:
            raise ConfigError(
                f"a batch of `{rows}` rows can't be cut into microbatches of `{microbatch}`",
                hint="give a batch size that is a multiple of the gradient accumulation steps",
            )
        if microbatch % devices:
            raise ConfigError(
                f"a microbatch of `{microbatch}` rows can't be spread over `{devices}` devices",
                hint=f"give a batch size that is a multiple of {devices},"
                " or fewer gradient accumulation steps",
            )
        return [microbatch]

    def estimate(self, plan: MemoryPlan) -> int:
        shape, length = self.shape, self.length
        weights = count_parameters(shape)
        tokens = plan.microbatch * length
        # Weights, 32-bit Adam, gradients; accumulated ones beside a microbatch's own.
        held = 16 * weights + (4 * weights if plan.microbatch < self.rows else 0)
        scores = 3 * shape.heads * min(length, plan.compute.block_for(length) or length)
        layer = 8 * shape.width + 4 * shape.hidden + scores
        kept = shape.width * shape.layers + layer if plan.remat else layer * shape.layers
        logits = 2 * plan.loss_chunk * shape.vocab_size + shape.vocab_size * shape.width
        return held + 4 * (tokens * kept + logits)

    def pick_compiler(self, room: int) -> Compiler:
        """The one that makes the faster step if `room` bytes are enough to compile it and to run it whole."""
        whole = self._plan(self.microbatch or self.rows)
        runs = FAST.step.settled + round(self.estimate(whole) * self.estimate_slack)
        return FAST if room >= max(FAST.step.compiling, runs) else low_memory_compiler()

    def stored_plan(self, stored: Mapping[str, Any]) -> MemoryPlan:
        return MemoryPlan(**stored)

    def too_small(self, needed: int, budget: int) -> BudgetError:
        short = -(-(needed - budget) // 10**6)
        hint = (
            f"give {short}MB more --memory; or a smaller --target-params, --vocab-size or --seq-len,"
            " or `train.optimizer: adamw8bit`"
        )
        if self.microbatch is not None:
            hint += "; or leave `train.gradient_accumulation_steps` out, and steps are divided to fit"
        return BudgetError(
            f"the budget is too small: a step over `{self.rows}` rows of `{self.length}` tokens needs at"
            f" least {format_size(needed)}, {format_size(budget)} of the budget are left for it",
            hint=hint,
        )


def loss_chunk(vocab_size: int) -> int:
    """Tokens a chunk: a power of two whose logits take about `CHUNK_BYTES`."""
    tokens = CHUNK_BYTES // (4 * vocab_size)
    rounded = 1 << max(tokens, 1).bit_length() - 1
    return min(max(rounded, _FEWEST_CHUNK_TOKENS), _MOST_CHUNK_TOKENS)


def _take_step(
    optimizer: optax.GradientTransformation,
    precision: Precision,
    plan: MemoryPlan,
    collectives: Collectives,
    state: TrainState,
    batch: Batch,
) -> tuple[TrainState, Metrics]:
    assert state.scale is not None
    labels = batch["labels"].size * collectives.count
    # Each token's gradient as a share of the batch: a sum over a large one would overflow float16.
    own = _own_sums(state.model, batch, state.scale.scale / labels, plan, precision, collectives)
    tokens = collectives.total(own.tokens)
    # From a share of all labels to a share of those that count, and the loss scale taken out.
    share = labels / (jnp.maximum(tokens, 1).astype(jnp.float32) * state.scale.scale)
    gradients = jax.tree.map(lambda gradient: gradient * share, collectives.gradients(own.gradients))
    norm = collectives.norm(gradients)
    finite = jnp.isfinite(norm)
    update = functools.partial(optimizer.update, norm=norm, part=collectives.part)
    model, held = _apply(update, state, gradients, finite if precision.scaled else None)
    scale = next_scale(state.scale, finite) if precision.scaled else state.scale
    skipped = jnp.logical_and(precision.scaled, ~finite).astype(jnp.int32)
    metrics = Metrics(collectives.total(own.loss) * share, norm, tokens, skipped)
    return TrainState(model, held, scale, state.step + 1), metrics


def _own_sums(
    model: Transformer,
    batch: Batch,
    scale: jax.Array,
    plan: MemoryPlan,
    precision: Precision,
    collectives: Collectives,
) -> GradientSums:
    """Of this device's rows: the gradients and the loss, times `scale`, and the tokens."""
    fetch = None if collectives.count == 1 else collectives.layer

    def summed(model: Transformer, microbatch: Batch) -> tuple[jax.Array, jax.Array]:
        used = cast(model, precision)
        used = replace(used, embedding=collectives.embedding(used.embedding))
        states = used.hidden(
            microbatch["input_ids"],
            microbatch.get("segment_ids"),
            microbatch.get("position_ids"),
            plan.compute,
            fetch,
        )
        labels = microbatch["labels"].reshape(-1)
        flat = states.reshape(labels.shape[0], -1)
        loss = summed_loss(flat, used.embedding, labels, scale, plan.loss_chunk)
        return loss, count_labels(labels)

    return accumulate(summed, model, microbatches(batch, plan.microbatch))


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
