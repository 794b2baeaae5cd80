"""`krill evaluate` from end to end: the plan, the model, the data, the figures.

In: a model's folder, and a prepared dataset or text. Out: an `Evaluation` and what it was of. Held in memory:
what the plan says: the program with JAX, the weights and one batch's activations, and what reading takes.

Batches have a fixed number of tokens: the budget decides whether they fit, never what comes out.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from krill.budget import Meter
from krill.errors import Interrupted
from krill.threads.progress import Progress, Silent
from krill.training.xla import inference_process, measured_budget, plan_inference

if TYPE_CHECKING:
    from krill.training.evaluation_data import PreparedRows, TextRows
    from krill.training.saved_model import SavedModel
    from krill.training.scoring import Evaluation

# Tokens of a batch: enough that products run at full speed, few beside the weights.
BATCH_TOKENS: Final = 2048


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """The figures and what they are of. Bits per byte are `exact` where the tokenizer tells every byte."""

    model: str
    step: int | None
    data: str
    split: str | None
    evaluation: Evaluation
    exact: bool
    seconds: float
    budget: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        figures = {**asdict(self), **asdict(self.evaluation)}
        del figures["evaluation"]
        return figures


def run_evaluate(
    model: str | Path,
    data: str | Path,
    *,
    checkpoint: str | int | None = None,
    split: str | None = None,
    text_column: str = "text",
    memory: str | int = "auto",
    threads: int | str = "auto",
    verify: bool = True,
    progress: Progress | None = None,
    floor: int = 0,
) -> EvaluationReport:
    """Score a model on a prepared dataset or on text; `floor` is what the process held before. With `verify`,
    what Krill wrote is verified against its checksums."""
    with inference_process("evaluating", memory, threads, floor) as meter:
        # Not at the top: they import JAX, whose threads are to be bounded before.
        from krill.training.evaluation_data import open_rows
        from krill.training.saved_model import open_model

        saved = open_model(model, checkpoint=checkpoint)
        rows = open_rows(
            str(data), saved, split=split, text_column=text_column, threads=meter.threads, verify=verify
        )
        try:
            return _evaluate(saved, rows, meter, progress or Silent(), str(data))
        except KeyboardInterrupt:
            raise Interrupted("interrupted: there are no results") from None


def _evaluate(
    saved: SavedModel, data_rows: PreparedRows | TextRows, meter: Meter, progress: Progress, data: str
) -> EvaluationReport:
    from krill.training.language_step import loss_chunk
    from krill.training.scoring import LossSums, make_evaluator

    started = time.monotonic()
    rows = max(1, BATCH_TOKENS // data_rows.length)
    sizes = {"rows": rows, "length": data_rows.length, "loss_chunk": loss_chunk(saved.shape.vocab_size)}
    evaluator, plan = plan_inference(
        meter, saved.shape, data_rows.needs(rows), lambda: make_evaluator(saved.shape, **sizes)
    )
    model, table, sums, text = saved.model, data_rows.text_bytes(plan), LossSums(), 0.0
    progress.begin("score", None)
    for batch in data_rows.batches(rows, plan):
        nats, tokens = evaluator(model, batch)
        sums.add(nats, tokens)
        text += 0.0 if table is None else table.of(batch["labels"])
        progress.advance(tokens)
    progress.end("score")
    return EvaluationReport(
        model=str(saved.folder),
        step=saved.step,
        data=data,
        split=data_rows.split,
        evaluation=sums.evaluation(None if table is None else text),
        exact=table is not None and table.exact,
        seconds=round(time.monotonic() - started, 3),
        budget=measured_budget(plan, meter),
    )
