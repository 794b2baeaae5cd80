"""A reader as what a session trains: the features, the step, the evaluation, the export.

In: features, their tokenizer, settings. Out: what `training/session.py` asks for. Held in memory: while
evaluating, the weights and one segment of some documents.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from krill.budget import Need
from krill.model.recurrent import Reader
from krill.qa.dataset import QaDataset
from krill.training.loop import Intervals, StepUnits, TrainProgress
from krill.training.optimizers import cosine, make_optimizer
from krill.training.qa.features import (
    EVALUATION_BYTES,
    ReaderData,
    check_fits,
    design_for,
    inspect_tokenizer,
)
from krill.training.qa.saved import reader_config, save_reader
from krill.training.qa.scoring import SegmentReader, score
from krill.training.qa.settings import ReaderSettings
from krill.training.qa.step import ReaderPlan, ReaderStep
from krill.training.saved_model import save_tokenizer
from krill.training.session import TaskEvaluation, TrainTask


class ReaderTask(TrainTask):
    """Trains a reader on features and scores it on others; refused if they don't belong together."""

    remedy = data_remedy = "give a smaller --batch-size or --max-segments"

    def __init__(
        self,
        features: str | Path,
        tokenizer: str | Path,
        evaluation: str | Path | None,
        settings: ReaderSettings,
        *,
        verify: bool,
    ) -> None:
        data = ReaderData(Path(features), settings, verify=verify)
        self._tokenizer = inspect_tokenizer(tokenizer)
        self._design = design_for(data.stored, self._tokenizer, settings)
        self._evaluation: QaDataset | None = None
        if evaluation is not None:
            self._evaluation = QaDataset(Path(evaluation), memory=EVALUATION_BYTES, verify=verify)
            check_fits(self._evaluation.stored, self._design, self._tokenizer.fingerprint, "the model")
        manifest = data.stored.manifest
        # What decides the batches, as JSON.
        self.identity = {"features": manifest["identity"], "tokenizer": manifest["tokenizer"]["fingerprint"]}
        self.data = data
        self.seed = settings.seed
        self.keep_checkpoints = settings.keep_checkpoints
        steps = settings.max_steps or settings.epochs * data.steps_per_epoch
        every = settings.evaluate_every or settings.save_every
        self.intervals = Intervals(steps, settings.log_every, settings.save_every, every)
        self.schedule = cosine(settings.learning_rate, steps)
        optimizer = make_optimizer("adamw", self.schedule, weight_decay=settings.weight_decay)
        self.spec = ReaderStep(self._design, optimizer, data.documents, data.segments, settings.bptt)
        self.units = StepUnits("learn", "documents", data.documents)

    def open_evaluation(self, plan: ReaderPlan) -> TaskEvaluation | None:
        dataset = self._evaluation
        if dataset is None:
            return None
        segments = SegmentReader(self._design)
        need = Need("features to evaluate on", EVALUATION_BYTES, during="evaluate")
        return TaskEvaluation(segments.held_bytes, need, lambda model: score(segments, model, dataset))

    def describe(self, plan: ReaderPlan) -> str:
        design = self._design
        divided = f", {plan.microbatch} at once" if plan.microbatch < plan.documents else ""
        remat = ", layers computed again" if plan.remat else ""
        return (
            f"{design.parameters:,} parameters, {design.memory.slots} memory vectors; a step takes"
            f" {plan.documents} documents of up to {plan.segments} segments of {plan.length}"
            f" tokens{divided}{remat}"
        )

    def checkpoint_extra(self) -> dict[str, Any]:
        return {"reader": reader_config(self._design, self._tokenizer.fingerprint)}

    def save_tokenizer(self, folder: Path) -> None:
        save_tokenizer(folder, self._tokenizer.file)

    def save_model(self, folder: Path, model: Reader) -> None:
        tokenizer = self._tokenizer
        save_reader(folder, model, tokenizer=tokenizer.file, fingerprint=tokenizer.fingerprint)

    def facts(self, trained: TrainProgress, plan: ReaderPlan) -> dict[str, Any]:
        design, documents = self._design, trained.step * plan.documents
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
