"""`krill qa evaluate`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from krill.cli.formats import Row, format_count, format_duration, format_memory
from krill.cli.options import BudgetOptions, OutputOptions, VerifyOptions

if TYPE_CHECKING:
    from krill.training.qa.evaluate import ReaderReport


def evaluate(
    model: Path,
    features: Path,
    /,
    *,
    predictions: Path | None = None,
    checkpoint: str | None = None,
    n_best: int = 20,
    max_answer_length: int = 30,
    budget: BudgetOptions = BudgetOptions(),  # noqa: B008  a frozen value, never changed
    verify: VerifyOptions = VerifyOptions(),  # noqa: B008
    display: OutputOptions = OutputOptions(),  # noqa: B008
) -> None:
    """How well a reader answers: exact match and F1 as SQuAD 2.0's official script has them.

    Over all questions, over those with and without an answer, and at the threshold on the probability of no
    answer that would have scored best. All segments of every document are read.

    Parameters
    ----------
    model
        The folder of a model that `krill qa train` made, finished or not.
    features
        What `krill qa prepare` made of the questions, with the model's tokenizer.
    predictions
        A JSON file to write: the predicted answer of each question by its id, empty where there is none.
        It may replace earlier predictions, and nothing else.
    checkpoint
        Instead of the finished model: latest, best, or the number of a step.
    n_best
        The best firsts and lasts of each segment that are joined to spans.
    max_answer_length
        Tokens of an answer, at most.
    """
    from krill.cli.progress import bounded
    from krill.cli.screen import print_result
    from krill.training.qa.evaluate import evaluate_reader

    with bounded(display, budget, verify) as bounds:
        report = evaluate_reader(
            model,
            features,
            predictions=predictions,
            checkpoint=checkpoint,
            n_best=n_best,
            max_answer_length=max_answer_length,
            **bounds,
        )
    print_result(report.to_json(), display, lambda: _rows(report))


def _rows(report: ReaderReport) -> list[Row]:
    scores = report.scores
    which = "" if report.step is None else f", step {report.step:,}"
    kinds = [("scores", ""), ("  answered", "HasAns_"), ("  unanswered", "NoAns_")]
    return [
        ("model", f"{report.model}{which}"),
        ("features", f"{report.features}: {format_count(report.segments, 'segment')}"),
        *(
            (
                label,
                f"exact {scores[kind + 'exact']:.2f} %, F1 {scores[kind + 'f1']:.2f} %"
                f" of {format_count(int(scores[kind + 'total']), 'question')}",
            )
            for label, kind in kinds
            if kind + "exact" in scores
        ),
        ("best", ", ".join(_format_best(scores, name) for name in ("exact", "f1"))),
        ("loss", f"{report.loss:.4f} nats a segment"),
        *([] if report.predictions is None else [("predictions", report.predictions)]),
        ("time", format_duration(report.seconds)),
        ("memory", format_memory(report.budget)),
    ]


def _format_best(scores: Mapping[str, float], name: str) -> str:
    """What a threshold on the probability of no answer would have given."""
    label = {"exact": "exact", "f1": "F1"}[name]
    return f"{label} {scores[f'best_{name}']:.2f} % at a threshold of {scores[f'best_{name}_thresh']:.3f}"
