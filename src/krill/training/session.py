"""One training inside JAX, whatever is trained: the memory plan, the state, the loop, the export.

In: a `TrainTask`, and what the job has opened and decided. Out: the facts of the run, for its manifest. Held
in memory: see `budget`: what was in the process when the plan was made, the data's share, and the largest of
compiling, the step, evaluating, and saving a checkpoint.

`language_task.py` and `qa/task.py` are the two tasks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol

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


class TaskEvaluation(Protocol):
    """An evaluation of the model during training, compiled before the state exists."""

    @property
    def held_bytes(self) -> int:
        """While evaluating, the weights included."""

    def needs(self) -> list[Need]:
        """What else it holds."""

    def __call__(self, model: Any) -> dict[str, Any]:
        """The figures, `loss` among them."""


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


def train_task(
    task: TrainTask,
    run: Run,
    folder: TrainFolder,
    meter: Meter,
    progress: Progress,
    described: Mapping[str, Any],
    settings: Mapping[str, Any] | None = None,
) -> RunSummary[Mapping[str, Any]]:
    """Train what a run has begun with, and publish it; `settings` go into the manifest as they are."""
    session = Session(task, folder, meter, progress, described)
    facts = session.train(continues=run.continued)
    manifest = {
        "format": 1,
        "command": folder.command,
        **described,
        "seconds": meter.seconds,
        "continued": run.continued,
        **facts,
        "budget": {**session.budget(), "threads": meter.threads},
        **({} if settings is None else {"settings": settings}),
    }
    run.publish(manifest)
    return summarize(DONE, folder.output, manifest)


class Session:
    """Everything of a run that needs JAX; made once, used once."""

    def __init__(
        self, task: TrainTask, folder: TrainFolder, meter: Meter, progress: Progress, run: Mapping[str, Any]
    ) -> None:
        self._task = task
        self._folder = folder
        self._meter = meter
        self._progress = progress
        self._run = run
        self._store = CheckpointStore(folder.checkpoints, keep=task.keep_checkpoints, note=progress.note)
        start_backend()
        self._base = meter.used
        self._plan: Plan | None = None

    def train(self, *, continues: bool) -> dict[str, Any]:
        """Trains and exports the model; returns the facts for the manifest."""
        task = self._task
        header = self._store.header() if continues else None
        stored = None if header is None else header.extra
        if continues and stored is None:
            self._progress.note(_NO_CHECKPOINT)
        task.prepare(stored, self._progress)
        planned = self._plan_step(stored)
        evaluation = task.open_evaluation(planned.plan)
        plan = self._plan = self._meter.plan(self._needs(planned.plan, evaluation), self._base)
        self._progress.note(
            f"{task.describe(planned.plan)}; predicted peak {format_size(plan.predicted_peak)}"
            f" of {format_size(self._meter.limit)}"
        )
        state, trained = self._begin(continues=stored is not None)
        metrics = MetricsFile(
            self._folder.metrics, trained.step, note=self._progress.note, loggers=task.open_loggers()
        )
        temporary = planned.plan.step_bytes - state_bytes(task.spec)
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
            evaluate=evaluation,
            stored={
                "identity": self._run["identity"],
                "plan": asdict(planned.plan),
                **task.checkpoint_extra(),
            },
        )
        try:
            with self._meter.stage("train"):
                state, trained = loop.run(state, trained)
        finally:
            metrics.close()
            self._store.close()
            task.data.close()
        self._folder.begin_saving()
        with self._meter.stage("export"):
            task.save_model(self._folder.output, state.model)
        stage = {"name": "train", "seconds": round(trained.seconds, 3), "peak": self._meter.stages["train"]}
        return {"stages": [stage], **task.facts(trained, planned.plan)}

    def budget(self) -> dict[str, Any]:
        """The block of the manifest."""
        assert self._plan is not None
        measured = {"measured_peak": self._meter.peak, "tree_pss": self._meter.tree_pss}
        return {**self._plan.to_json(), **measured}

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
                *evaluation.needs(),
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
        self._folder.start(self._run)
        # So that a checkpoint can be used before the model is finished.
        task.save_tokenizer(self._folder.output)
        state = first_state(task.spec, task.seed)
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
