"""A reader as what a session trains: the features, the step, the evaluation, the export.

In: what `features.py` has opened. Out: what `training/session.py` asks for. Held in memory: while evaluating,
the weights and one segment of some documents.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from krill.budget import Need
from krill.model.recurrent import Reader, ReaderShape
from krill.qa.dataset import QaDataset
from krill.training.loop import Intervals, StepUnits, TrainProgress
from krill.training.optimizers import cosine, make_optimizer
from krill.training.qa.features import EVALUATION_BYTES, OpenedFeatures
from krill.training.qa.saved import reader_config, save_reader
from krill.training.qa.scoring import SegmentReader, score
from krill.training.qa.step import ReaderPlan, ReaderStep
from krill.training.saved_model import save_tokenizer
from krill.training.session import TrainTask


class ReaderTask(TrainTask):
    """Trains a reader on features."""

    remedy = data_remedy = "give a smaller --batch-size or --max-segments"

    def __init__(self, opened: OpenedFeatures) -> None:
        settings, data = opened.settings, opened.data
        self._opened = opened
        self.data = data
        self.seed = settings.seed
        self.keep_checkpoints = settings.keep_checkpoints
        steps = settings.max_steps or settings.epochs * data.steps_per_epoch
        every = settings.evaluate_every or settings.save_every
        self.intervals = Intervals(steps, settings.log_every, settings.save_every, every)
        self.schedule = cosine(settings.learning_rate, steps)
        optimizer = make_optimizer("adamw", self.schedule, weight_decay=settings.weight_decay)
        self.spec = ReaderStep(opened.design, optimizer, data.documents, data.segments, settings.bptt)
        self.units = StepUnits("learn", "documents", data.documents)

    def open_evaluation(self, plan: ReaderPlan) -> ReaderEvaluation | None:
        dataset = self._opened.evaluation
        return None if dataset is None else ReaderEvaluation(self._opened.design, dataset)

    def describe(self, plan: ReaderPlan) -> str:
        design = self._opened.design
        divided = f", {plan.microbatch} at once" if plan.microbatch < plan.documents else ""
        remat = ", layers computed again" if plan.remat else ""
        return (
            f"{design.parameters:,} parameters, {design.memory.slots} memory vectors; a step takes"
            f" {plan.documents} documents of up to {plan.segments} segments of {plan.length}"
            f" tokens{divided}{remat}"
        )

    def checkpoint_extra(self) -> dict[str, Any]:
        return {"reader": reader_config(self._opened.design, self._opened.tokenizer.fingerprint)}

    def save_tokenizer(self, folder: Path) -> None:
        save_tokenizer(folder, self._opened.tokenizer.file)

    def save_model(self, folder: Path, model: Reader) -> None:
        tokenizer = self._opened.tokenizer
        save_reader(folder, model, tokenizer=tokenizer.file, fingerprint=tokenizer.fingerprint)

    def facts(self, trained: TrainProgress, plan: ReaderPlan) -> dict[str, Any]:
        design, documents = self._opened.design, trained.step * plan.documents
        return {
            "model": asdict(design.encoder),
            "memory_tokens": design.memory.slots,
            "parameters": design.parameters,
            "plan": asdict(plan),
            "steps": trained.step,
            "documents": documents,
            "documents_per_second": round(documents / trained.seconds, 1) if trained.seconds else None,
            "final_loss": trained.last_line.get("loss"),
            "evaluation": trained.evaluation,
        }


class ReaderEvaluation:
    """Scores a reader on a cache of features; compiled when it is made, while memory is free."""

    def __init__(self, design: ReaderShape, dataset: QaDataset) -> None:
        self._segments = SegmentReader(design)
        self._dataset = dataset
        self.held_bytes = self._segments.held_bytes

    def needs(self) -> list[Need]:
        return [Need("features to evaluate on", EVALUATION_BYTES, during="evaluate")]

    def __call__(self, model: Reader) -> dict[str, Any]:
        return score(self._segments, model, self._dataset)
