"""A language model as what a session trains: the config's model, schedule and optimizer, validation, export.

In: the config and its data. Out: what `session.py` asks for. Held in memory: the validation rows; while
evaluating, one batch's activations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import jax

from krill.budget import Need
from krill.config import KrillConfig, TrainConfig
from krill.model.outline import model_shape
from krill.model.sizing import ModelShape, breakdown
from krill.model.transformer import Transformer
from krill.threads.progress import Progress
from krill.training.compiler import Compiler
from krill.training.data import TrainData
from krill.training.language_step import LanguageModelStep, MemoryPlan
from krill.training.loop import Intervals, StepUnits, TrainProgress
from krill.training.mesh import Placement, make_devices
from krill.training.metrics import Logger, open_loggers
from krill.training.optimizers import Schedule, cosine, make_optimizer, wsd
from krill.training.precision import Precision
from krill.training.saved_model import check_vocabulary, open_model, save_model, save_tokenizer
from krill.training.scoring import LossSums, make_evaluator
from krill.training.session import TaskEvaluation, TrainTask
from krill.training.step import TrainState

_BF16_ON_CPU: Final = "bf16 on a CPU is computed in 32 bits: it saves no memory here; fp16 does"


class LanguageModelTask(TrainTask):
    """Trains a language model on rows."""

    remedy = "set a smaller `train.batch_size`"
    data_remedy = "where text is streamed, set a smaller `preprocess.max_document_bytes`"
    data: TrainData
    spec: LanguageModelStep

    def __init__(self, config: KrillConfig, data: TrainData) -> None:
        self._config = config
        self._settings = config.train
        self.data = data
        self.seed = config.seed
        self.keep_checkpoints = config.train.keep_checkpoints

    def prepare(self, stored: Mapping[str, Any] | None, progress: Progress) -> None:
        settings, data = self._settings, self.data
        placement = make_devices(settings.parallel, data.rows)
        if stored is not None:
            steps = int(stored["steps"])
        else:
            steps = count_steps(settings, data.rows * data.length, lambda: data.steps_per_epoch(progress))
        every = settings.evaluate_every or settings.save_every
        self.intervals = Intervals(steps, settings.log_every, settings.save_every, every)
        self.schedule = make_schedule(settings, steps)
        self.spec = language_step(settings, self.schedule, data, placement)
        self.units = count_tokens(data)
        if self.spec.precision is Precision.BFLOAT16 and jax.default_backend() == "cpu":
            progress.note(_BF16_ON_CPU)

    def first_state(self) -> TrainState:
        """New weights, or those of the base model."""
        state = super().first_state()
        if self._settings.base_model is None:
            return state
        model = open_model(self._settings.base_model).model
        placed = jax.tree.map(lambda new, old: jax.device_put(new, old.sharding), model, state.model)
        return state._replace(model=placed)

    def pick_compiler(self, room: int) -> Compiler:
        return self.spec.pick_compiler(room)

    def open_evaluation(self, plan: MemoryPlan) -> TaskEvaluation | None:
        """Of the validation rows."""
        batches = self.data.validation(plan.microbatch, self._settings.evaluate_rows)
        if not batches:
            return None
        evaluator = make_evaluator(
            self.spec.shape,
            rows=plan.microbatch,
            length=plan.length,
            loss_chunk=plan.loss_chunk,
            precision=self.spec.precision,
            placement=self.spec.placement,
        )
        text = self.data.vocabulary.bytes
        # Exact over these batches: their bytes over their predicted tokens.
        text_bytes = None if text is None else sum(text.of(batch["labels"]) for batch in batches)

        def evaluate(model: Transformer) -> dict[str, Any]:
            sums = LossSums()
            for batch in batches:
                sums.add(*evaluator(model, batch))
            return asdict(sums.evaluation(text_bytes))

        size = sum(column.nbytes for batch in batches for column in batch.values())
        rows = Need("validation rows", size, remedy="set a smaller `train.evaluate_rows`")
        return TaskEvaluation(evaluator.held_bytes, rows, evaluate)

    def describe(self, plan: MemoryPlan) -> str:
        divided = f", in {plan.accumulation_steps} microbatches" if plan.accumulation_steps > 1 else ""
        remat = ", activations computed again" if plan.remat else ""
        return (
            f"{self.spec.parameters:,} parameters; a step takes {plan.rows} rows of {plan.length}"
            f" tokens{divided}{remat}"
        )

    def checkpoint_extra(self) -> dict[str, Any]:
        return {"steps": self.intervals.steps}

    def open_loggers(self) -> tuple[Logger, ...]:
        return open_loggers(self._settings.loggers, self._config)

    def save_tokenizer(self, folder: Path) -> None:
        if self.data.vocabulary.source is not None:
            save_tokenizer(folder, self.data.vocabulary.source)

    def save_model(self, folder: Path, model: Transformer) -> None:
        save_model(folder, model, context=self.data.length, tokenizer=self.data.vocabulary.source)

    def facts(self, trained: TrainProgress, plan: MemoryPlan) -> dict[str, Any]:
        tokens = trained.step * self.data.rows * self.data.length
        measured = trained.evaluation or trained.last_line
        return {
            "model": asdict(self.spec.shape),
            "parameters": self.spec.parameters,
            "parameters_by_part": breakdown(self.spec.shape),
            "plan": asdict(plan),
            "steps": trained.step,
            "tokens": tokens,
            "tokens_per_second": round(tokens / trained.seconds, 1) if trained.seconds else None,
            "final_loss": trained.last_line.get("loss"),
            "bits_per_byte": measured.get("bits_per_byte"),
            "bits_per_byte_on": "validation" if trained.evaluation else "training",
            "validation": trained.evaluation,
        }


def _shape(settings: TrainConfig, data: TrainData) -> ModelShape:
    if settings.base_model is None:
        return model_shape(settings, data.vocabulary.size)
    base = open_model(settings.base_model)
    check_vocabulary(base.shape.vocab_size, data.vocabulary.size, f"the tokenizer of `{data.name}`")
    return base.shape


def language_step(
    settings: TrainConfig, schedule: Schedule, data: TrainData, placement: Placement | None = None
) -> LanguageModelStep:
    optimizer = make_optimizer(
        settings.optimizer, schedule, weight_decay=settings.weight_decay, clip=settings.clip
    )
    return LanguageModelStep(
        _shape(settings, data),
        optimizer,
        data.rows,
        data.length,
        Precision(settings.mixed_precision or Precision.FLOAT32),
        placement,
        settings.fixed_microbatch,
    )


def count_steps(settings: TrainConfig, step_tokens: int, epoch_steps: Callable[[], int]) -> int:
    """As many as the config asks for; the length of an epoch is looked up only where it decides."""
    by_tokens = None if settings.max_tokens is None else -(-settings.max_tokens // step_tokens)
    limits = [limit for limit in (settings.max_steps, by_tokens) if limit is not None]
    return min(limits) if limits else settings.epochs * epoch_steps()


def make_schedule(settings: TrainConfig, steps: int) -> Schedule:
    if settings.schedule == "wsd":
        return wsd(settings.learning_rate, steps, warmup=settings.warmup_steps, decay=settings.decay_steps)
    return cosine(settings.learning_rate, steps, warmup=settings.warmup_steps)


def count_tokens(data: TrainData) -> StepUnits:
    text, tokens = data.vocabulary.bytes, data.rows * data.length
    if text is None:
        return StepUnits("train", "tokens", tokens)
    return StepUnits("train", "tokens", tokens, lambda batch: text.of(batch["labels"]))
