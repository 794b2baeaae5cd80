"""One training inside JAX, whatever is trained: the memory plan, the state, the loop, the export.

In: a `TrainTask`, and what the job has opened and decided. Out: the facts of the run, for its manifest. Held
in memory: see `budget`: what was in the process when the plan was made, the data's share, and the largest of
compiling, the step, evaluating, and saving a checkpoint.

`language_task.py` and `qa/task.py` are the two tasks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from krill import _native
from krill.budget import Meter, Need, Plan, format_size
from krill.errors import BudgetError
from krill.storage.run import DONE, Run, RunSummary, summarize
from krill.threads.progress import Progress
from krill.training.checkpoints import SAVING_BYTES, CheckpointStore
from krill.training.compiler import Compiler, low_memory_compiler
from krill.training.data import BatchSource
from krill.training.folder import TrainFolder
from krill.training.loop import Intervals, Loop, StepUnits, TrainProgress
from krill.training.memory_plan import CompiledPlan, compile_plan, plan_step, step_share
from krill.training.metrics import Logger, MetricsFile
from krill.training.optimizers import Schedule
from krill.training.step import StepPlan, StepSpec, TrainState, first_state, state_bytes, state_shapes
from krill.training.xla import start_backend

_NO_CHECKPOINT = "no checkpoint is intact: starting from the beginning"


@dataclass(frozen=True, slots=True)
class TaskEvaluation:
    """An evaluation of the model during training, compiled before the state exists.

    `held_bytes` counts the weights, too; `data` is what it reads. `run` gives the figures, `loss` among them.
    """

    held_bytes: int
    data: Need
    run: Callable[[Any], dict[str, Any]]


class TrainTask(ABC):
    """What is trained: data, step, evaluation, and how the model is saved."""

    data: BatchSource
    spec: StepSpec
    units: StepUnits
    schedule: Schedule
    intervals: Intervals
    seed: int
    keep_checkpoints: int
    remedy: str
    """What a user changes so that a step takes less memory; `data_remedy` is for reading."""
    data_remedy: str

    def prepare(self, stored: Mapping[str, Any] | None, progress: Progress) -> None:  # noqa: B027
        """Set what depends on the number of steps; `stored` is of the checkpoint that the run continues."""

    def first_state(self) -> TrainState:
        """What a new training begins with."""
        return first_state(self.spec, self.seed)

    def pick_compiler(self, room: int) -> Compiler:
        """For a new step that has `room` bytes."""
        return low_memory_compiler()

    @abstractmethod
    def open_evaluation(self, plan: Any) -> TaskEvaluation | None: ...

    @abstractmethod
    def describe(self, plan: Any) -> str:
        """The model and its step in a line."""

    @abstractmethod
    def checkpoint_extra(self) -> dict[str, Any]:
        """What a checkpoint stores beside identity, plan, progress and the data's state."""

    def open_loggers(self) -> tuple[Logger, ...]:
        return ()

    @abstractmethod
    def save_tokenizer(self, folder: Path) -> None: ...

    @abstractmethod
    def save_model(self, folder: Path, model: Any) -> None: ...

    @abstractmethod
    def facts(self, trained: TrainProgress, plan: Any) -> dict[str, Any]:
        """For the manifest."""


class Session:
    """Everything of a run that needs JAX; made once, used once."""

    def __init__(
        self, task: TrainTask, run: Run, folder: TrainFolder, meter: Meter, progress: Progress
    ) -> None:
        self._task = task
        self._run = run
        self._folder = folder
        self._meter = meter
        self._progress = progress
        self._store = CheckpointStore(folder.checkpoints, keep=task.keep_checkpoints, note=progress.note)
        start_backend()
        self._base = meter.used

    def train(self, settings: Mapping[str, Any] | None = None) -> RunSummary[Mapping[str, Any]]:
        """Train what the run has begun with, and publish it; `settings` go into the manifest as they are."""
        task, meter, continued = self._task, self._meter, self._run.continued
        header = self._store.header() if continued else None
        stored = None if header is None else header.extra
        if continued and stored is None:
            self._progress.note(_NO_CHECKPOINT)
        task.prepare(stored, self._progress)
        planned = self._plan_step(stored)
        evaluation = task.open_evaluation(planned.plan)
        plan = meter.plan(self._needs(planned.plan, evaluation), self._base)
        self._progress.note(
            f"{task.describe(planned.plan)}; predicted peak {format_size(plan.predicted_peak)}"
            f" of {format_size(meter.limit)}"
        )
        state, trained = self._begin(continues=stored is not None)
        state, trained = self._run_loop(state, trained, planned, plan, evaluation)
        self._folder.begin_saving()
        with meter.stage("export"):
            task.save_model(self._folder.output, state.model)
        stage = {"name": "train", "seconds": round(trained.seconds, 3), "peak": meter.stages["train"]}
        measured = {"measured_peak": meter.peak, "tree_pss": meter.tree_pss, "threads": meter.threads}
        manifest = {
            "format": 1,
            "command": self._folder.command,
            **self._run.description,
            "seconds": meter.seconds,
            "continued": continued,
            "stages": [stage],
            **task.facts(trained, planned.plan),
            "budget": {**plan.to_json(), **measured},
            "timeline": meter.timeline.to_json(),
            **({} if settings is None else {"settings": settings}),
        }
        self._run.publish(manifest)
        return summarize(DONE, self._folder.output, manifest)

    def _run_loop(
        self,
        state: TrainState,
        trained: TrainProgress,
        planned: CompiledPlan,
        plan: Plan,
        evaluation: TaskEvaluation | None,
    ) -> tuple[TrainState, TrainProgress]:
        task, note = self._task, self._progress.note
        metrics = MetricsFile(self._folder.metrics, trained.step, note=note, loggers=task.open_loggers())
        temporary = planned.plan.step_bytes - state_bytes(task.spec)
        identity = {"identity": self._run.description["identity"], "plan": asdict(planned.plan)}
        loop = Loop(
            planned.compiled,
            task.data,
            self._store,
            metrics,
            self._progress,
            units=task.units,
            intervals=task.intervals,
            temporary=temporary,
            tight=plan.predicted_peak + temporary > plan.limit,
            schedule=task.schedule,
            evaluate=None if evaluation is None else evaluation.run,
            stored={**identity, **task.checkpoint_extra()},
        )
        try:
            with self._meter.stage("train"):
                return loop.run(state, trained)
        finally:
            metrics.close()
            self._store.close()
            task.data.close()

    def _plan_step(self, stored: Mapping[str, Any] | None) -> CompiledPlan:
        """The stored plan as it was, or the fastest that fits what the budget leaves."""
        task, data = self._task, self._task.data
        before = None if stored is None else task.spec.stored_plan(stored["plan"])
        if before is not None:
            compiler = before.compiler
        else:
            compiler = task.pick_compiler(self._meter.limit - self._base - data.held_bytes)
        # Compiling is over before data comes in.
        share = step_share(self._meter.limit, self._base, compiler) - data.held_bytes
        if share <= 0:
            raise self._no_room_for_data(share, compiler)
        self._progress.note("compiling the step")
        if before is None:
            return plan_step(task.spec, budget=share, compiler=compiler)
        planned = compile_plan(task.spec, before, compiler)
        if planned.plan.step_bytes > share:
            raise no_longer_fits(planned.plan, share)
        return planned

    def _needs(self, plan: StepPlan, evaluation: TaskEvaluation | None) -> list[Need]:
        task, held = self._task, state_bytes(self._task.spec)
        compiling, settled = plan.compiler.step
        needs = [
            Need("JAX", settled),
            Need("compiling", compiling - settled, during="compile"),
            Need("the step", plan.step_bytes, during="train", remedy=task.remedy),
            Need("the state to be saved", held, during="save"),
            Need("saving", SAVING_BYTES, during="save"),
        ]
        if evaluation is not None:
            needs += [
                evaluation.data,
                # The weights are a part of what evaluating holds.
                Need("the optimizer meanwhile", held - 4 * task.spec.parameters, during="evaluate"),
                Need("evaluating", evaluation.held_bytes, during="evaluate", remedy=task.remedy),
            ]
        data = Need("data", task.data.held_bytes, expected=task.data.expected_bytes, remedy=task.remedy)
        return needs + [replace(data, during=stage) for stage in ("train", "evaluate", "save")]

    def _no_room_for_data(self, share: int, compiler: Compiler) -> BudgetError:
        limit, held = self._meter.limit, self._task.data.held_bytes
        return BudgetError(
            f"the budget is too small: reading data takes {format_size(held)} beside"
            f" {format_size(self._base + compiler.step.settled)} of the program and JAX,"
            f" given {format_size(limit)}",
            hint=f"give more than {-(-(limit - share) // 10**6)}MB; or {self._task.data_remedy}",
        )

    def _begin(self, *, continues: bool) -> tuple[TrainState, TrainProgress]:
        """The state to continue from, or a new one."""
        task = self._task
        if continues:
            self._folder.sweep()
            restored = self._store.restore(state_shapes(task.spec))
            if restored is not None:
                task.data.load_state_dict(restored.extra["data"])
                trained = TrainProgress.from_json(restored.extra["place"])
                self._progress.note(f"continuing after step {trained.step:,}")
                return restored.state, trained
            self._progress.note(_NO_CHECKPOINT)
        self._folder.start(self._run.description)
        # So that a checkpoint can be used before the model is finished.
        task.save_tokenizer(self._folder.output)
        state = task.first_state()
        state.step.block_until_ready()
        _native.trim(code=True)  # what compiling the draw of the weights took
        return state, TrainProgress()


def no_longer_fits(plan: StepPlan, share: int) -> BudgetError:
    more = -(-(plan.step_bytes - share) // 10**6)
    return BudgetError(
        f"the training was started with steps that hold {format_size(plan.step_bytes)}, and the budget leaves"
        f" {format_size(share)} for them; divided differently, they would not give the same model",
        hint=f"give {more}MB more --memory, or start anew with --overwrite",
    )
