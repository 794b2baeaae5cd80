"""The training step of a reader, and the ways to divide it so that it fits a budget.

In: the reader's shape, an optimizer, a batch's documents and segments. Out: the step for columns of documents
(`features.py`); its choices of how many documents are computed at once; and the `ReaderPlan` of one of them.
Held in memory by a step: the state, the gradients, one segment's activations of some documents, and the
memory vectors between segments.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import optax

from krill.budget import format_size
from krill.errors import BudgetError
from krill.model.recurrent import (
    SEGMENT_COLUMNS,
    TOKEN_COLUMNS,
    ReaderShape,
    init_reader,
    summed_span_loss,
)
from krill.model.transformer import Compute
from krill.training.compiler import Compiler, low_memory_compiler
from krill.training.step import (
    Batch,
    Metrics,
    Shapes,
    Step,
    TrainState,
    accumulate,
    microbatches,
    shape_of,
)


@dataclass(frozen=True, slots=True)
class ReaderPlan:
    """How a step is divided. `bptt` shapes its result; the others, beyond float tolerance, don't."""

    documents: int
    segments: int
    length: int
    microbatch: int
    remat: bool = False
    bptt: int | None = None
    step_bytes: int = 0

    @property
    def compiler(self) -> Compiler:
        return low_memory_compiler()

    def with_memory(self, step_bytes: int, compiler: Compiler) -> ReaderPlan:
        return replace(self, step_bytes=step_bytes)


@dataclass(frozen=True, slots=True)
class ReaderStep:
    """A `StepSpec` for batches of `documents` x `segments`."""

    design: ReaderShape
    optimizer: optax.GradientTransformation
    documents: int
    segments: int
    bptt: int | None = None
    placement: None = None
    estimate_slack: float = 2.0
    mapped_from: int = 2**22  # as everywhere: no block of a step has a size of its own

    @property
    def parameters(self) -> int:
        return self.design.parameters

    def init(self, seed: int) -> TrainState:
        model = init_reader(self.design, seed)
        return TrainState(model, self.optimizer.init(model), None, jnp.zeros((), jnp.int32))

    def batch_shapes(self) -> Shapes:
        return batch_shapes((self.documents, self.segments), self.design.length)

    def make_step(self, plan: ReaderPlan) -> Step:
        return jax.jit(functools.partial(_take_step, self.optimizer, plan), donate_argnums=0)

    def choices(self) -> list[ReaderPlan]:
        """Fastest first: ever fewer documents at once, and at last remat, too."""
        sizes = [size for size in range(self.documents, 0, -1) if self.documents % size == 0]
        return [*map(self._plan, sizes), self._plan(1, remat=True)]

    def _plan(self, microbatch: int, *, remat: bool = False) -> ReaderPlan:
        batch = self.documents, self.segments, self.design.length
        return ReaderPlan(*batch, microbatch, remat, self.bptt)

    def estimate(self, plan: ReaderPlan) -> int:
        design, shape = self.design, self.design.encoder
        tokens = plan.microbatch * design.row_length
        layer = 8 * shape.width + 4 * shape.hidden + 3 * shape.heads * design.row_length
        kept = shape.width * shape.layers + layer if plan.remat else layer * shape.layers
        carried = self.segments * plan.microbatch * design.memory.slots * shape.width
        return 4 * (5 * design.parameters + tokens * kept + carried)

    def stored_plan(self, stored: Mapping[str, Any]) -> ReaderPlan:
        return ReaderPlan(**stored)

    def too_small(self, needed: int, budget: int) -> BudgetError:
        more = -(-(needed - budget) // 10**6)
        return BudgetError(
            "the budget is too small: a step over one document at a time, in segments of"
            f" `{self.design.length}` tokens, needs {format_size(needed)}, {format_size(max(budget, 0))} of"
            " the budget are left for it",
            hint=f"give {more}MB more --memory, or a smaller --hidden or --layers, or features of a smaller"
            " --max-seq-length",
        )


def batch_shapes(size: tuple[int, ...], length: int) -> dict[str, jax.ShapeDtypeStruct]:
    """The columns of rows that lie in an array of `size`."""
    tokens = dict.fromkeys(TOKEN_COLUMNS, shape_of((*size, length)))
    labels = dict.fromkeys(SEGMENT_COLUMNS, shape_of(size))
    return {**tokens, **labels, "document_mask": shape_of(size, jnp.bool_)}


def _take_step(
    optimizer: optax.GradientTransformation, plan: ReaderPlan, state: TrainState, batch: Batch
) -> tuple[TrainState, Metrics]:
    summed = functools.partial(summed_span_loss, bptt=plan.bptt, compute=Compute(remat=plan.remat))
    sums = accumulate(summed, state.model, microbatches(batch, plan.microbatch))
    share = 1.0 / jnp.maximum(sums.tokens, 1).astype(jnp.float32)
    gradients = jax.tree.map(lambda gradient: gradient * share, sums.gradients)
    norm = optax.tree.norm(gradients)
    updates, held = optimizer.update(gradients, state.optimizer, state.model)
    model = optax.apply_updates(state.model, updates)
    metrics = Metrics(sums.loss * share, norm, sums.tokens, jnp.zeros((), jnp.int32))
    return TrainState(model, held, None, state.step + 1), metrics
