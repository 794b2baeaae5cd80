"""How many documents of a batch a reader's step computes at once, and what the step will hold.

In: the model, a batch's documents and segments, and a share of the budget. Out: a `ReaderPlan`, the first of
a fixed list of choices that fits, fastest first; or a `BudgetError` that says what would. Held in memory:
nothing of the step's size, only what XLA takes to compile.

As for `krill train`, a choice is compiled and XLA says what it holds; a checkpoint stores the plan, and a
resumed run uses it as it is, since another one would round differently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import jax
import optax

from krill import _native
from krill.budget import format_size
from krill.errors import BudgetError
from krill.model.recurrent import ReaderShape
from krill.model.transformer import Compute
from krill.training.compiler import lean
from krill.training.memory_plan import with_allocator
from krill.training.qa.step import ReaderOptions, lower_step, make_step
from krill.training.step import memory_of

# The estimate may be this far above the truth: what it calls too large by more is not compiled. Where the
# truth may be as far above it, a step is compiled on trial first.
_ESTIMATE_SLACK = 2.0


@dataclass(frozen=True, slots=True)
class ReaderPlan:
    """How a step is cut up, and what it will hold in bytes: plain numbers, for a checkpoint to store."""

    documents: int
    segments: int
    length: int
    microbatch: int
    remat: bool
    bptt: int | None
    step_bytes: int

    @property
    def options(self) -> ReaderOptions:
        """What `make_step` takes."""
        return ReaderOptions(self.microbatch, self.bptt, Compute(remat=self.remat))

    def to_json(self) -> dict[str, Any]:
        """For a checkpoint and `krill-run.json`."""
        return asdict(self)

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> ReaderPlan:
        """What `to_json` gave."""
        return ReaderPlan(**stored)


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan and the step that was compiled to make it: call it as the step itself."""

    plan: ReaderPlan
    compiled: jax.stages.Compiled


def plan_step(
    design: ReaderShape,
    optimizer: optax.GradientTransformation,
    *,
    documents: int,
    segments: int,
    bptt: int | None,
    budget: int,
) -> Planned:
    """The fastest choice whose step holds at most `budget` bytes."""
    choices = list(_choices(documents, bptt))
    smallest: int | None = None
    for options in choices:
        estimated = estimate(design, options, segments)
        if estimated > budget * _ESTIMATE_SLACK and options is not choices[-1]:
            continue
        planned = compile_plan(
            design,
            optimizer,
            options,
            documents=documents,
            segments=segments,
            doubtful_in=budget if estimated * _ESTIMATE_SLACK > budget else None,
        )
        if planned.plan.step_bytes <= budget:
            return planned
        needed = planned.plan.step_bytes
        smallest = needed if smallest is None else min(smallest, needed)
        # Not beside the next one's compilation.
        del planned
        _native.trim(code=True)
    assert smallest is not None
    raise _too_small(smallest, budget, design)


def compile_plan(
    design: ReaderShape,
    optimizer: optax.GradientTransformation,
    options: ReaderOptions,
    *,
    documents: int,
    segments: int,
    doubtful_in: int | None = None,
) -> Planned:
    """The step with these options, compiled, and what it holds; how a stored plan is taken up again.

    If it is `doubtful_in` so many bytes and does hold more, it is not compiled to run.
    """
    step = make_step(optimizer, options)
    lowered = lower_step(step, design, optimizer, documents=documents, segments=segments)
    if doubtful_in is None:
        compiled = lean().compile(lowered)
    else:
        compiled = lean().compile_if(lambda trial: with_allocator(memory_of(trial)) <= doubtful_in, lowered)
    _native.trim(code=True)  # what compiling took: the step needs it
    held = with_allocator(memory_of(compiled))
    plan = ReaderPlan(
        documents, segments, design.length, options.microbatch, options.compute.remat, options.bptt, held
    )
    return Planned(plan, compiled)


def estimate(design: ReaderShape, options: ReaderOptions, segments: int) -> int:
    """Roughly what a step holds, in bytes: where to begin, never what is promised."""
    shape, tokens = design.encoder, options.microbatch * design.row_length
    layer = 8 * shape.width + 4 * shape.hidden + 3 * shape.heads * design.row_length
    kept = shape.width * shape.layers + layer if options.compute.remat else layer * shape.layers
    carried = segments * options.microbatch * design.memory.slots * shape.width
    return 4 * (5 * design.parameters + tokens * kept + carried)


def _choices(documents: int, bptt: int | None) -> Iterator[ReaderOptions]:
    """Fastest first: ever fewer documents at once, and at last layers computed once more, too."""
    sizes = [size for size in range(documents, 0, -1) if documents % size == 0]
    for size in sizes:
        yield ReaderOptions(size, bptt)
    yield ReaderOptions(1, bptt, Compute(remat=True))


def _too_small(needed: int, budget: int, design: ReaderShape) -> BudgetError:
    more = -(-(needed - budget) // 10**6)
    return BudgetError(
        f"the budget is too small: a step over one document at a time, in segments of `{design.length}`"
        f" tokens, needs {format_size(needed)}, {format_size(max(budget, 0))} of the budget are left for it",
        hint=f"give {more}MB more --memory, or a smaller --hidden or --layers, or features of a smaller"
        " --max-seq-length",
    )
