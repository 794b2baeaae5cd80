"""`krill qa`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from krill.cli.options import BudgetOptions, EngineOptions, OutputOptions
from krill.cli.qa_evaluate import evaluate
from krill.cli.qa_train import train
from krill.errors import Interrupted

if TYPE_CHECKING:
    from krill.qa.cache import Prepared

qa = App(name="qa", help="Question answering on long documents: prepare features, train a reader, score it.")
qa.command(train)
qa.command(evaluate)


@qa.command
def prepare(
    source: str,
    /,
    *,
    tokenizer: Path,
    output: Path,
    split: str | None = None,
    max_seq_length: int = 384,
    doc_stride: int = 128,
    max_segments: int | None = None,
    max_examples: int | None = None,
    missing_answers: Literal["no_answer", "drop"] = "no_answer",
    overwrite: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    engine: EngineOptions = EngineOptions(),  # noqa: B008  a frozen value, never changed
    options: BudgetOptions = BudgetOptions(),  # noqa: B008
    shown: OutputOptions = OutputOptions(),  # noqa: B008
) -> None:
    """Make features of questions and contexts, and keep them on disk for training and evaluation.

    Each context is tokenised once for all of its questions. The same command on a run that was killed
    continues it; on a finished one it says so and does nothing.

    Parameters
    ----------
    source
        SQuAD's JSON, JSON lines of id, question, context and answers, a folder with such a file for the
        split, a saved Hugging Face dataset, or a hub id.
    tokenizer
        A tokenizer.json or its folder; memory tokens that it has stand in every feature.
    output
        The folder to make.
    split
        Which split of a folder or a dataset, by default the one for training; a file is one split.
    max_seq_length
        Tokens of a feature.
    doc_stride
        Tokens that two neighbouring windows of a context share.
    max_segments
        Keep at most so many windows of a context; by default all.
    max_examples
        Take only so many questions.
    missing_answers
        What becomes of a question whose answer is not in its context.
    overwrite
        Replace the features that are there; refused while their folder holds files that Krill did not write.
    """
    from krill.cli.chosen_engine import chosen_engine
    from krill.cli.progress import watch
    from krill.cli.screen import over_budget, print_json, print_notices
    from krill.engines.worker_share import worker_part
    from krill.qa.cache import open_job, run_job
    from krill.qa.features import Shape

    place = chosen_engine(engine)
    limit, threads = worker_part(place, options.memory or "auto", options.threads or "auto")
    shape = Shape(max_seq_length, doc_stride, max_segments, missing_answers)
    try:
        with watch(shown, limit=limit) as progress:
            job = open_job(
                source, split, tokenizer, shape, max_examples, memory=limit, threads=threads, engine=place
            )
            prepared = run_job(
                job,
                output=output,
                memory=limit,
                threads=threads,
                engine=place,
                overwrite=overwrite,
                progress=progress,
            )
    except KeyboardInterrupt:
        raise Interrupted(
            "interrupted: the units that were finished are kept", hint="run the same command to continue"
        ) from None
    budget = prepared.manifest["budget"]
    if prepared.status == "done" and budget["measured_peak"] > budget["limit"]:
        print_notices([over_budget(budget)])
    if shown.json:
        print_json(_result(prepared))
    elif not shown.quiet:
        _print_summary(prepared)


def _result(prepared: Prepared) -> dict[str, Any]:
    return {"output": str(prepared.folder), "status": prepared.status, **prepared.manifest}


def _print_summary(prepared: Prepared) -> None:
    from krill.budget import format_size
    from krill.cli.screen import console_of, print_rows, told_duration, told_memory

    manifest = prepared.manifest
    rate = f", {manifest['examples'] / manifest['seconds']:,.0f} questions/s" if manifest["seconds"] else ""
    rows = [
        ("questions", f"{manifest['examples']:,}"),
        ("contexts", f"{manifest['paragraphs']:,}"),
        ("features", f"{manifest['features']:,}, {format_size(manifest['bytes'])}"),
        *((reason.replace("_", " "), f"{count:,}") for reason, count in manifest["counts"].items()),
        ("time", f"{told_duration(manifest['seconds'])}{rate}"),
        ("memory", told_memory(manifest["budget"])),
        ("output", str(prepared.folder)),
    ]
    console = console_of()
    console.print()
    if prepared.status == "finished":
        console.print(f"nothing to do: {prepared.folder} is finished, made from the same questions\n")
    print_rows(console, rows)
