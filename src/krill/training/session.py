"""One training inside JAX: the memory plan, the state, the loop, the export.

In: what `job.py` has opened and decided. Out: the facts of the run, for its manifest. Held in memory: see
`budget`: what was in the process when the plan was made, the data's share, and the largest of compiling, the
step, evaluating, and saving a checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import jax

from krill import _native
from krill.budget import Meter, Need, Plan, format_size
from krill.config import KrillConfig
from krill.errors import BudgetError
from krill.model.sizing import breakdown, count_parameters
from krill.model.transformer import Transformer
from krill.threads.progress import Progress
from krill.training.checkpoints import SAVING_BYTES, CheckpointStore
from krill.training.compiler import Compiler
from krill.training.data import TrainData
from krill.training.folder import TrainFolder
from krill.training.loggers import open_loggers
from krill.training.loop import Counted, Loop, Place, Rhythm, StepMemory
from krill.training.memory_plan import (
    MemoryPlan,
    Planned,
    compile_plan,
    pick_compiler,
    plan_step,
    step_share,
)
from krill.training.mesh import make_devices
from krill.training.metrics import MetricsFile
from krill.training.precision import Precision
from krill.training.recipe import Recipe, count_steps, make_recipe
from krill.training.saved_model import save_model, save_tokenizer
from krill.training.step import TrainState, first_state, state_shapes
from krill.training.validation import Validation, open_validation
from krill.training.xla import start_backend

_NOTHING_WHOLE = "no checkpoint is whole: starting anew"


class Session:
    """Everything of a run that needs JAX; made once, used once."""

    def __init__(
        self,
        config: KrillConfig,
        data: TrainData,
        folder: TrainFolder,
        meter: Meter,
        progress: Progress,
        run: Mapping[str, Any],
    ) -> None:
        self._config = config
        self._settings = config.train
        self._data = data
        self._folder = folder
        self._meter = meter
        self._progress = progress
        self._run = run
        self._store = CheckpointStore(
            folder.checkpoints, keep=config.train.keep_checkpoints, note=progress.note
        )
        self._placement = make_devices(config.train.parallel, data.rows)
        start_backend()
        self._base = meter.used
        self._plan: Plan | None = None

    def train(self, *, continues: bool) -> dict[str, Any]:
        """All of it; the facts are for the manifest."""
        settings = self._settings
        stored = self._store.read_extra() if continues else None
        if continues and stored is None:
            self._progress.note(_NOTHING_WHOLE)
        steps = int(stored["steps"]) if stored else self._count_steps()
        recipe = make_recipe(settings, self._data.vocabulary.size, steps)
        planned = self._plan_step(recipe, stored)
        validation = open_validation(
            self._data, settings.evaluate_rows, recipe, planned.plan, self._placement
        )
        self._plan = self._meter.plan(self._needs(recipe, planned.plan, validation), self._base)
        self._progress.note(self._told_plan(recipe, planned.plan))
        if recipe.precision is Precision.BFLOAT16 and jax.default_backend() == "cpu":
            self._progress.note("bf16 on a CPU is computed in 32 bits: it saves no memory here; fp16 does")
        state, place = self._begin(recipe, continues=stored is not None)
        evaluate_every = settings.evaluate_every or settings.save_every
        metrics = MetricsFile(
            self._folder.metrics,
            place.step,
            note=self._progress.note,
            loggers=open_loggers(settings.loggers, self._config),
        )
        loop = Loop(
            planned.compiled,
            self._data,
            self._store,
            metrics,
            self._progress,
            counted=count_tokens(self._data),
            rhythm=Rhythm(steps, settings.log_every, settings.save_every, evaluate_every),
            memory=self._step_memory(recipe, planned.plan),
            schedule=recipe.schedule,
            evaluate=validation,
            stored={"identity": self._run["identity"], "steps": steps, "plan": planned.plan.to_json()},
        )
        try:
            with self._meter.stage("train"):
                state, place = loop.run(state, place)
        finally:
            metrics.close()
            self._store.close()
            self._data.close()
        return self._finish(recipe, state.model, place, planned.plan)

    def budget(self) -> dict[str, Any]:
        """The block of the manifest."""
        assert self._plan is not None
        measured = {"measured_peak": self._meter.peak, "tree_pss": self._meter.tree_pss}
        return {**self._plan.to_json(), **measured}

    def _count_steps(self) -> int:
        data = self._data
        return count_steps(
            self._settings, data.rows * data.length, lambda: data.steps_per_epoch(self._progress)
        )

    def _plan_step(self, recipe: Recipe, stored: Mapping[str, Any] | None) -> Planned:
        """The stored plan as it was, or the fastest that fits what the budget leaves."""
        settings, data = self._settings, self._data
        fixed = settings.fixed_microbatch
        stored_plan = None if stored is None else MemoryPlan.from_json(stored["plan"])
        if stored_plan is not None:
            compiler = stored_plan.compiler
        else:
            room = self._meter.limit - self._base - data.held_bytes
            compiler = pick_compiler(
                recipe.shape, rows=data.rows, length=data.length, room=room, microbatch=fixed
            )
        # Compiling is over before data comes in.
        share = step_share(self._meter.limit, self._base, compiler) - data.held_bytes
        if share <= 0:
            raise self._no_room_for_data(share, compiler)
        what: dict[str, Any] = {
            "rows": data.rows,
            "length": data.length,
            "precision": recipe.precision,
            "placement": self._placement,
        }
        self._progress.note("compiling the step")
        if stored_plan is not None:
            planned = compile_plan(recipe.shape, recipe.optimizer, stored_plan.options, compiler, **what)
            if planned.plan.step_bytes > share:
                raise _no_longer_fits(planned.plan, share)
            return planned
        try:
            return plan_step(
                recipe.shape, recipe.optimizer, budget=share, compiler=compiler, microbatch=fixed, **what
            )
        except BudgetError as error:
            raise _with_way_out(error, exactly=fixed is not None) from None

    def _step_memory(self, recipe: Recipe, plan: MemoryPlan) -> StepMemory:
        assert self._plan is not None
        temporary = plan.step_bytes - _state_bytes(recipe)
        return StepMemory(temporary, tight=self._plan.predicted_peak + temporary > self._plan.limit)

    def _needs(self, recipe: Recipe, plan: MemoryPlan, validation: Validation | None) -> list[Need]:
        held = _state_bytes(recipe)
        compiling, settled = plan.compiler.step
        smaller = "set a smaller `train.batch_size`"
        needs = [
            Need("JAX", settled),
            Need("compiling", compiling - settled, during="compile"),
            Need("the step", plan.step_bytes, during="train", remedy=smaller),
            Need("the state to be saved", held, during="save"),
            Need("saving", SAVING_BYTES, during="save"),
        ]
        if validation is not None:
            needs += [
                Need("validation rows", validation.batch_bytes, remedy="set a smaller `train.evaluate_rows`"),
                # The weights are a part of what evaluating holds.
                Need("the optimizer meanwhile", held - 4 * count_parameters(recipe.shape), during="evaluate"),
                Need("evaluating", validation.held_bytes, during="evaluate", remedy=smaller),
            ]
        data = Need("data", self._data.held_bytes, expected=self._data.expected_bytes)
        return needs + [replace(data, during=stage) for stage in ("train", "evaluate", "save")]

    def _no_room_for_data(self, share: int, compiler: Compiler) -> BudgetError:
        limit, held = self._meter.limit, self._data.held_bytes
        return BudgetError(
            f"the budget is too small: reading data takes {format_size(held)} beside"
            f" {format_size(self._base + compiler.step.settled)} of the program and JAX,"
            f" given {format_size(limit)}",
            hint=f"give more than {-(-(limit - share) // 10**6)}MB; or, where text is streamed, a smaller"
            " `preprocess.max_document_bytes`",
        )

    def _told_plan(self, recipe: Recipe, plan: MemoryPlan) -> str:
        assert self._plan is not None
        cut = f", in {plan.accumulation_steps} pieces" if plan.accumulation_steps > 1 else ""
        less = ", activations computed again" if plan.remat else ""
        return (
            f"{count_parameters(recipe.shape):,} parameters; a step takes {plan.rows} rows of {plan.length}"
            f" tokens{cut}{less}; predicted peak {format_size(self._plan.predicted_peak)}"
            f" of {format_size(self._meter.limit)}"
        )

    def _begin(self, recipe: Recipe, *, continues: bool) -> tuple[TrainState, Place]:
        """The state to go on from, or a fresh one."""
        if continues:
            self._folder.sweep()
            like = state_shapes(recipe.shape, recipe.optimizer, recipe.precision, self._placement)
            restored = self._store.restore(like)
            if restored is not None:
                self._data.load_state_dict(restored.extra["data"])
                place = Place.from_json(restored.extra["place"])
                self._progress.note(f"continuing after step {place.step:,}")
                return restored.state, place
            self._progress.note(_NOTHING_WHOLE)
        self._folder.start(self._run)
        if self._data.vocabulary.source is not None:
            # So that a checkpoint can be used before the model is finished.
            save_tokenizer(self._folder.output, self._data.vocabulary.source)
        state = first_state(
            recipe.shape, recipe.optimizer, recipe.precision, self._config.seed, self._placement
        )
        state.step.block_until_ready()
        _native.trim(code=True)  # what compiling the draw of the weights took
        return state, Place()

    def _finish(self, recipe: Recipe, model: Transformer, place: Place, plan: MemoryPlan) -> dict[str, Any]:
        """Export the model; returns all that is known of the run now."""
        data = self._data
        self._folder.begin_saving()
        with self._meter.stage("export"):
            save_model(self._folder.output, model, context=data.length, tokenizer=data.vocabulary.source)
        tokens = place.step * data.rows * data.length
        measured = place.evaluation or place.last_line
        return {
            "stages": [
                {"name": "train", "seconds": round(place.seconds, 3), "peak": self._meter.stages["train"]}
            ],
            "model": asdict(recipe.shape),
            "parameters": count_parameters(recipe.shape),
            "parameters_by_part": breakdown(recipe.shape),
            "plan": plan.to_json(),
            "steps": place.step,
            "tokens": tokens,
            "tokens_per_second": round(tokens / place.seconds, 1) if place.seconds else None,
            "final_loss": place.last_line.get("loss"),
            "bits_per_byte": measured.get("bits_per_byte"),
            "bits_per_byte_on": "validation" if place.evaluation else "training",
            "validation": place.evaluation,
        }


def count_tokens(data: TrainData) -> Counted:
    """What a step over some data works through."""
    text = data.vocabulary.bytes
    if text is None:
        return Counted("train", "tokens", data.rows * data.length)
    return Counted("train", "tokens", data.rows * data.length, lambda batch: text.of(batch["labels"]))


def _state_bytes(recipe: Recipe) -> int:
    """Of the weights and the optimizer, on all devices together."""
    shapes = state_shapes(recipe.shape, recipe.optimizer, recipe.precision)
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))


def _no_longer_fits(plan: MemoryPlan, share: int) -> BudgetError:
    more = -(-(plan.step_bytes - share) // 10**6)
    return BudgetError(
        f"the training was begun with steps that hold {format_size(plan.step_bytes)}, and the budget leaves"
        f" {format_size(share)} for them; cut otherwise, they would not give the same model",
        hint=f"give {more}MB more --memory, or start anew with --overwrite",
    )


def _with_way_out(error: BudgetError, *, exactly: bool) -> BudgetError:
    """Where the rows that are computed at once were fixed, that they need not be."""
    if not exactly:
        return error
    hint = f"{error.hint}; or leave `train.gradient_accumulation_steps` out, and steps are cut to fit"
    return BudgetError(error.message, hint=hint)
