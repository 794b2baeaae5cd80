"""`krill qa prepare`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from krill.budget import format_size
from krill.cli.formats import Row, format_duration, format_memory
from krill.cli.options import BudgetOptions, EngineOptions, OutputOptions, Overwrite
from krill.errors import Interrupted


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
    overwrite: Overwrite = False,
    engine: EngineOptions = EngineOptions(),  # noqa: B008  a frozen value, never changed
    budget: BudgetOptions = BudgetOptions(),  # noqa: B008
    display: OutputOptions = OutputOptions(),  # noqa: B008
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
    """
    from krill.cli.progress import watch
    from krill.cli.screen import print_result
    from krill.engines import Resources, worker_part
    from krill.qa.cache import open_job, run_job
    from krill.qa.features import Shape

    engine_config = engine.resolve()
    limit, threads = worker_part(engine_config, *budget.resolve())
    shape = Shape(max_seq_length, doc_stride, max_segments, missing_answers)
    try:
        with watch(display, limit) as progress:
            resources = Resources(limit, threads)
            job = open_job(
                source, split, tokenizer, shape, max_examples, resources=resources, engine=engine_config
            )
            prepared = run_job(job, output, overwrite=overwrite, progress=progress)
    except KeyboardInterrupt:
        raise Interrupted(
            "interrupted: the units that were finished are kept", hint="run the same command to continue"
        ) from None
    facts = prepared.to_json()
    print_result(facts, display, lambda: _rows(facts), made="from the same questions")


def _rows(facts: Mapping[str, Any]) -> list[Row]:
    rate = f", {facts['examples'] / facts['seconds']:,.0f} questions/s" if facts["seconds"] else ""
    return [
        ("questions", f"{facts['examples']:,}"),
        ("contexts", f"{facts['paragraphs']:,}"),
        ("features", f"{facts['features']:,}, {format_size(facts['bytes'])}"),
        *((reason.replace("_", " "), f"{count:,}") for reason, count in facts["counts"].items()),
        ("time", f"{format_duration(facts['seconds'])}{rate}"),
        ("memory", format_memory(facts["budget"])),
        ("output", facts["output"]),
    ]
