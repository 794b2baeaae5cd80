"""One training of a reader inside JAX: the memory plan, the state, the loop, the export.

In: what `opening.py` has opened, and what `job.py` has decided. Out: the facts of the run, for its manifest.
Held in memory: what was in the process when the plan was made, the data's share, and the largest of
compiling, the step, evaluating, and saving a checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import jax

from krill import _native
from krill.budget import Meter, Need, Plan, format_size
from krill.errors import BudgetError
from krill.model.recurrent import Reader
from krill.threads.progress import Progress
from krill.training.checkpoints import SAVING_BYTES, CheckpointStore
from krill.training.compiler import lean
from krill.training.folder import TrainFolder
from krill.training.loop import Counted, Evaluate, Loop, Place, Rhythm, StepMemory
from krill.training.memory_plan import step_share
from krill.training.metrics import MetricsFile
from krill.training.optimizers import make_optimizer
from krill.training.qa.memory_plan import Planned, ReaderPlan, compile_plan, plan_step
from krill.training.qa.opening import EVALUATION_BYTES, Opened
from krill.training.qa.saved import reader_config, save_reader
from krill.training.qa.scoring import Answering, SegmentReader, score
from krill.training.qa.step import ReaderState, first_state, state_shapes
from krill.training.saved_model import save_tokenizer
from krill.training.schedule import cosine
from krill.training.xla import start_backend

_NOTHING_WHOLE = "no checkpoint is whole: starting anew"


class ReaderSession:
    """Everything of a run that needs JAX; made once, used once."""

    def __init__(
        self, opened: Opened, folder: TrainFolder, meter: Meter, progress: Progress, run: Mapping[str, Any]
    ) -> None:
        settings = opened.settings
        self._opened = opened
        self._settings = settings
        self._folder = folder
        self._meter = meter
        self._progress = progress
        self._run = run
        self._store = CheckpointStore(folder.checkpoints, keep=settings.keep_checkpoints, note=progress.note)
        self._steps = settings.max_steps or settings.epochs * opened.data.steps_per_epoch
        self._schedule = cosine(settings.learning_rate, self._steps)
        self._optimizer = make_optimizer("adamw", self._schedule, weight_decay=settings.weight_decay)
        start_backend()
        self._base = meter.used
        self._plan: Plan | None = None

    def train(self, *, continues: bool) -> dict[str, Any]:
        """All of it; the facts are for the manifest."""
        settings, opened = self._settings, self._opened
        stored = self._store.read_extra() if continues else None
        if continues and stored is None:
            self._progress.note(_NOTHING_WHOLE)
        planned = self._plan_step(stored)
        segments = None if opened.evaluation is None else SegmentReader(opened.design)
        self._plan = self._meter.plan(self._needs(planned.plan, segments), self._base)
        self._progress.note(self._told_plan(planned.plan))
        state, place = self._begin(continues=stored is not None)
        metrics = MetricsFile(self._folder.metrics, place.step, note=self._progress.note)
        every = settings.evaluate_every or settings.save_every
        loop = Loop(
            planned.compiled,
            opened.data,
            self._store,
            metrics,
            self._progress,
            counted=Counted("learn", "documents", opened.data.documents),
            rhythm=Rhythm(self._steps, settings.log_every, settings.save_every, every),
            memory=self._step_memory(planned.plan),
            schedule=self._schedule,
            evaluate=None if segments is None else self._evaluate(segments),
            stored={
                "identity": self._run["identity"],
                "plan": planned.plan.to_json(),
                "reader": reader_config(opened.design, opened.tokenizer.fingerprint),
            },
        )
        try:
            with self._meter.stage("train"):
                state, place = loop.run(state, place)
        finally:
            metrics.close()
            self._store.close()
        return self._finish(state.model, place, planned.plan)

    def budget(self) -> dict[str, Any]:
        """The block of the manifest."""
        assert self._plan is not None
        measured = {"measured_peak": self._meter.peak, "tree_pss": self._meter.tree_pss}
        return {**self._plan.to_json(), **measured}

    def _plan_step(self, stored: Mapping[str, Any] | None) -> Planned:
        """The stored plan as it was, or the fastest that fits what the budget leaves."""
        data, design = self._opened.data, self._opened.design
        share = step_share(self._meter.limit, self._base, lean()) - data.held_bytes
        sizes = {"documents": data.documents, "segments": data.segments}
        self._progress.note("compiling the step")
        if stored is None:
            bptt = self._settings.bptt
            return plan_step(design, self._optimizer, **sizes, bptt=bptt, budget=share)
        plan = ReaderPlan.from_json(stored["plan"])
        planned = compile_plan(design, self._optimizer, plan.options, **sizes)
        if planned.plan.step_bytes > share:
            raise _no_longer_fits(planned.plan, share)
        return planned

    def _evaluate(self, segments: SegmentReader) -> Evaluate:
        dataset = self._opened.evaluation
        assert dataset is not None
        return lambda model: score(segments, model, dataset, Answering())

    def _step_memory(self, plan: ReaderPlan) -> StepMemory:
        assert self._plan is not None
        temporary = plan.step_bytes - self._state_bytes()
        return StepMemory(temporary, tight=self._plan.predicted_peak + temporary > self._plan.limit)

    def _state_bytes(self) -> int:
        """Of the weights and the optimizer."""
        shapes = state_shapes(self._opened.design, self._optimizer)
        return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))

    def _needs(self, plan: ReaderPlan, segments: SegmentReader | None) -> list[Need]:
        held, data = self._state_bytes(), self._opened.data
        compiling, settled = lean().step
        smaller = "give a smaller --batch-size or --max-segments"
        needs = [
            Need("JAX", settled),
            Need("compiling", compiling - settled, during="compile"),
            Need("the step", plan.step_bytes, during="train"),
            Need("the state to be saved", held, during="save"),
            Need("saving", SAVING_BYTES, during="save"),
        ]
        stages = ["train", "save"]
        if segments is not None:
            stages.append("evaluate")
            needs += [
                # The weights are a part of what evaluating holds.
                Need("the optimizer meanwhile", held - 4 * self._opened.design.parameters, during="evaluate"),
                Need("evaluating", segments.held_bytes, during="evaluate"),
                Need("features to evaluate on", EVALUATION_BYTES, during="evaluate"),
            ]
        reading = Need("data", data.held_bytes, remedy=smaller)
        return needs + [replace(reading, during=stage) for stage in stages]

    def _told_plan(self, plan: ReaderPlan) -> str:
        assert self._plan is not None
        design = self._opened.design
        cut = f", {plan.microbatch} at once" if plan.microbatch < plan.documents else ""
        less = ", layers computed again" if plan.remat else ""
        return (
            f"{design.parameters:,} parameters, {design.memory.slots} memory vectors; a step takes"
            f" {plan.documents} documents of up to {plan.segments} segments of {plan.length}"
            f" tokens{cut}{less};"
            f" predicted peak {format_size(self._plan.predicted_peak)} of {format_size(self._meter.limit)}"
        )

    def _begin(self, *, continues: bool) -> tuple[ReaderState, Place]:
        """The state to go on from, or a fresh one."""
        opened = self._opened
        if continues:
            self._folder.sweep()
            restored = self._store.restore(state_shapes(opened.design, self._optimizer))
            if restored is not None:
                opened.data.load_state_dict(restored.extra["data"])
                place = Place.from_json(restored.extra["place"])
                self._progress.note(f"continuing after step {place.step:,}")
                return restored.state, place
            self._progress.note(_NOTHING_WHOLE)
        self._folder.start(self._run)
        # So that features for a checkpoint can be made before the model is finished.
        save_tokenizer(self._folder.output, opened.tokenizer.file)
        state = first_state(opened.design, self._optimizer, self._settings.seed)
        state.step.block_until_ready()
        _native.trim(code=True)  # what compiling the draw of the weights took
        return state, Place()

    def _finish(self, model: Reader, place: Place, plan: ReaderPlan) -> dict[str, Any]:
        """Export the model; returns all that is known of the run now."""
        opened = self._opened
        self._folder.begin_saving()
        with self._meter.stage("export"):
            save_reader(
                self._folder.output,
                model,
                tokenizer=opened.tokenizer.file,
                fingerprint=opened.tokenizer.fingerprint,
            )
        documents = place.step * plan.documents
        return {
            "stages": [
                {"name": "train", "seconds": round(place.seconds, 3), "peak": self._meter.stages["train"]}
            ],
            "model": asdict(opened.design.encoder),
            "memory_tokens": opened.design.memory.slots,
            "parameters": opened.design.parameters,
            "plan": plan.to_json(),
            "steps": place.step,
            "documents": documents,
            "documents_per_second": round(documents / place.seconds, 1) if place.seconds else None,
            "final_loss": place.last_line.get("loss"),
            "evaluation": place.evaluation,
        }


def _no_longer_fits(plan: ReaderPlan, share: int) -> BudgetError:
    more = -(-(plan.step_bytes - share) // 10**6)
    return BudgetError(
        f"the training was begun with steps that hold {format_size(plan.step_bytes)}, and the budget leaves"
        f" {format_size(max(share, 0))} for them; cut otherwise, they would not give the same model",
        hint=f"give {more}MB more --memory, or start anew with --overwrite",
    )
