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

from krill.budget import Meter, resolve_limit, resolve_threads
from krill.budget.process import bounded_process
from krill.errors import Interrupted
from krill.model.installed import require_train_extra
from krill.threads.progress import Progress, Silent
from krill.training.inference_needs import inference_needs, running_need
from krill.training.xla import bound_xla, start_backend

if TYPE_CHECKING:
    from krill.training.evaluate import Evaluation
    from krill.training.saved_model import SavedModel
    from krill.training.scored import Scored

# Tokens of a batch: enough that products run at full speed, few beside the weights.
BATCH_TOKENS: Final = 2048


@dataclass(frozen=True, slots=True)
class Report:
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
        """For `--json`."""
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
) -> Report:
    """Score a model on a prepared dataset or on text; `floor` is what the process held before. With `verify`,
    what Krill wrote is held against its checksums."""
    require_train_extra("evaluating")
    limit, count = resolve_limit(memory), resolve_threads(threads)
    with bounded_process(count, parquet=False), Meter(limit, floor) as meter:
        bound_xla(count, meter)
        # Not at the top: they import JAX, whose threads are to be bounded before.
        from krill.training.saved_model import open_model
        from krill.training.scored import open_scored

        saved = open_model(model, checkpoint=checkpoint)
        scored = open_scored(
            str(data), saved, split=split, text_column=text_column, threads=count, verify=verify
        )
        try:
            return _evaluate(saved, scored, meter, progress or Silent(), str(data))
        except KeyboardInterrupt:
            raise Interrupted("interrupted: nothing was scored to the end") from None


def _evaluate(saved: SavedModel, scored: Scored, meter: Meter, progress: Progress, data: str) -> Report:

    from krill.training.evaluate import Sums, make_evaluator
    from krill.training.memory_plan import loss_chunk

    started = time.monotonic()
    start_backend()
    base = meter.used
    rows = max(1, BATCH_TOKENS // scored.length)
    needs = [*inference_needs(saved.shape), *scored.needs(rows)]
    meter.plan(needs, base)  # refused before anything is compiled
    evaluator = make_evaluator(
        saved.shape, rows=rows, length=scored.length, loss_chunk=loss_chunk(saved.shape.vocab_size)
    )
    plan = meter.plan([*needs, running_need(evaluator.held_bytes)], base)
    model, table, sums, text = saved.model, scored.text_bytes(plan), Sums(), 0.0
    progress.begin("score", None)
    for batch in scored.batches(rows, plan):
        nats, tokens = evaluator(model, batch)
        sums.add(nats, tokens)
        text += 0.0 if table is None else table.of(batch["labels"])
        progress.advance(tokens)
    progress.end("score")
    return Report(
        model=str(saved.folder),
        step=saved.step,
        data=data,
        split=scored.split,
        evaluation=sums.evaluation(None if table is None else text),
        exact=table is not None and table.exact,
        seconds=round(time.monotonic() - started, 3),
        budget={**plan.to_json(), "measured_peak": meter.peak},
    )
