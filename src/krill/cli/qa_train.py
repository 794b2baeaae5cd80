"""`krill qa train`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from krill.budget import format_size
from krill.cli.formats import Row, format_count, format_duration, format_memory
from krill.cli.options import BudgetOptions, OutputOptions, Switch, VerifyOptions
from krill.training.qa.settings import ReaderSettings


def train(
    features: Path,
    /,
    *,
    tokenizer: Path,
    output_dir: Path,
    evaluation: Annotated[Path | None, Parameter(name="--eval")] = None,
    overwrite: Switch = False,
    settings: Annotated[ReaderSettings, Parameter(name="*")] = ReaderSettings(),  # noqa: B008
    budget: BudgetOptions = BudgetOptions(),  # noqa: B008  a frozen value, never changed
    verify: VerifyOptions = VerifyOptions(),  # noqa: B008
    display: OutputOptions = OutputOptions(),  # noqa: B008
) -> None:
    """A reader of long documents from prepared features, inside the budget.

    It reads a document segment by segment and carries a memory from each to the next. What a step holds
    does not grow with the number of segments. The same command on a training that was killed continues it
    from its last checkpoint; on a finished one it says so and does nothing.

    Parameters
    ----------
    features
        What `krill qa prepare` made.
    tokenizer
        The tokenizer.json, or its folder, that made the features.
    output_dir
        The folder for the model.
    evaluation
        Features that the model is scored on with every checkpoint, and at the end.
    overwrite
        Start anew: what an earlier training left in the output folder is removed when the first step is
        ready; refused while it holds files that Krill did not write.
    """
    from krill.cli.progress import bounded
    from krill.cli.screen import print_result
    from krill.training.job import train_reader

    with bounded(display, budget, verify) as bounds:
        summary = train_reader(
            features,
            tokenizer=tokenizer,
            output_dir=output_dir,
            evaluation=evaluation,
            settings=settings,
            overwrite=overwrite,
            **bounds,
        )
    facts = summary.to_json()
    then = f"krill qa evaluate {facts['output']} FEATURES"
    print_result(facts, display, lambda: _rows(facts), made="from the same features", then=then)


def _rows(facts: Mapping[str, Any]) -> list[Row]:
    model, plan, scores = facts["model"], facts["plan"], facts["evaluation"]
    shape = f"{format_count(model['layers'], 'layer')} of width {model['width']}"
    memory = format_count(facts["memory_tokens"], "memory vector")
    cut = "" if plan["microbatch"] == plan["documents"] else f", {plan['microbatch']} at once"
    size = f"{plan['documents']} documents of up to {plan['segments']} segments"
    return [
        ("model", f"{facts['parameters']:,} parameters: {shape}, {memory}"),
        ("steps", f"{facts['steps']:,} of {size}{cut}"),
        ("loss", "unknown" if facts["final_loss"] is None else f"{facts['final_loss']:.4f} in training"),
        *([] if scores is None else [("scores", _format_scores(scores))]),
        ("speed", f"{facts['documents_per_second'] or 0:,.1f} documents/s"),
        ("time", format_duration(facts["seconds"])),
        ("memory", f"{format_memory(facts['budget'])}; the step {format_size(plan['step_bytes'])}"),
        ("output", str(facts["output"])),
    ]


def _format_scores(scores: Mapping[str, Any]) -> str:
    return f"exact {scores['exact']:.2f} %, F1 {scores['f1']:.2f} % of {scores['documents']:,} questions"
