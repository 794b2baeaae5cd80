"""Which way of dividing a step fits the budget, and what the step will hold.

In: a `StepSpec`, and a share of the budget. Out: the first of the spec's choices that fits, fastest first,
compiled; or a `BudgetError` that says what would. Held in memory: nothing of the step's size, only what XLA
takes to compile.

What a step holds is not guessed: it is compiled, and XLA reports how it laid the memory out. An estimate only
picks where to begin, so that a choice or two are compiled and not all of them. Precision and optimizer are
never chosen here. The same spec and budget give the same plan; a checkpoint stores it and a resumed run uses
it as it is, since another choice would round differently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import jax

from krill import _native
from krill.budget import RESERVE, format_size, memory_flag
from krill.errors import BudgetError
from krill.training.compiler import FAST, Compiler
from krill.training.step import StepPlan, StepSpec, lower_step, memory_of

# Of what XLA lays out for a step, what the allocator holds beside it: 0 to 14 %.
_ALLOCATOR_SHARE: Final = 0.12


@dataclass(frozen=True, slots=True)
class CompiledPlan:
    """The plan and the step that was compiled to make it: call it as the step itself."""

    plan: Any
    compiled: jax.stages.Compiled


def step_share(limit: int, resident: int, compiler: Compiler) -> int:
    """What a budget of `limit` leaves for the step in a process that holds `resident` before compiling."""
    compiling, settled = compiler.step
    if limit < resident + compiling + RESERVE:
        raise BudgetError(
            f"the budget is too small: compiling a step takes {format_size(compiling)} beside the"
            f" program's {format_size(resident)}, given {format_size(limit)}",
            hint=f"{memory_flag(resident + compiling + RESERVE)} is the least for any model",
        )
    return limit - RESERVE - resident - settled


def predicted_peak(resident: int, plan: StepPlan) -> int:
    """The process's peak, as the kernel will report it: while compiling, or in the step."""
    compiling, settled = plan.compiler.step
    return resident + max(compiling, settled + plan.step_bytes)


def plan_step(spec: StepSpec, *, budget: int, compiler: Compiler = FAST) -> CompiledPlan:
    """The fastest choice whose step holds at most `budget` bytes."""
    choices = spec.choices()
    needed: list[int] = []
    for plan in choices:
        estimated = spec.estimate(plan)
        if estimated > budget * spec.estimate_slack and plan is not choices[-1]:
            continue
        doubtful = estimated * spec.estimate_slack > budget
        planned = compile_plan(spec, plan, compiler, trial_budget=budget if doubtful else None)
        if planned.plan.step_bytes <= budget:
            return planned
        needed.append(planned.plan.step_bytes)
        # Not beside the next one's compilation.
        del planned
        _native.trim(code=True)
    raise spec.too_small(min(needed), budget)


def compile_plan(
    spec: StepSpec, plan: StepPlan, compiler: Compiler = FAST, *, trial_budget: int | None = None
) -> CompiledPlan:
    """The step of a plan, compiled, and what it holds; a resumed run calls it with its stored plan.

    With a `trial_budget` it is compiled on trial first; if it holds more than that, it is not compiled to
    run.
    """
    sharing = 1 if spec.placement is None else spec.placement.sharing_memory

    def step_bytes(compiled: jax.stages.Compiled) -> int:
        laid_out = memory_of(compiled) * sharing
        return laid_out + round(_ALLOCATOR_SHARE * laid_out)

    lowered = lower_step(spec, plan)
    if trial_budget is None:
        compiled = compiler.compile(lowered)
    else:
        compiled = compiler.compile_if(lambda trial: step_bytes(trial) <= trial_budget, lowered)
    # The compiler leaves half of what it took to the allocator: the step needs it.
    _native.trim(code=True)
    _native.configure_malloc(spec.mapped_from)
    return CompiledPlan(plan.with_memory(step_bytes(compiled), compiler), compiled)
