"""The page of a run of another kind: export, question answering, and what this version does not know.

In: a run. Out: its sections: all its counts, the files that it wrote, memory, time, config. Held in memory:
their rows.
"""

from __future__ import annotations

from typing import Final

from krill.report.common import overview_section, resource_sections
from krill.report.figures import Figures
from krill.report.parts import PageSection, Part, Table, bar, count, number_text, size
from krill.report.runs import ReportedRun

_KNOWN: Final = ("format", "seconds")
_MOST_FILES: Final = 200
# Where runs have counts, and what they are of.
_TABLES: Final = {
    "documents": "Documents",
    "tokens": "Tokens",
    "counts": "Questions and answers that needed care",
    "figures": "Figures",
    "scores": "Scores",
}
_MEANINGS: Final = {
    "answers_moved": "answers not at `answer_start`: the nearest place was taken",
    "answers_not_in_context": "answers that are not in their context",
    "spans_not_exact": "answers that begin or end inside a token",
    "empty_contexts": "contexts without text",
    "questions_too_long": "questions that leave no room for their context: dropped",
    "duplicate_ids": "questions whose id was there before: dropped",
}


def other_sections(run: ReportedRun) -> list[PageSection]:
    figures = [
        (name.replace("_", " "), number_text(value))
        for name, value in run.figures.values.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and name not in _KNOWN
    ]
    exported = run.config.text("to", wanted=False)
    figures += [] if exported is None else [("written as", exported)]
    overview = overview_section(run, figures)
    for name, caption in _TABLES.items():
        counts = list(run.figures.inner(name, wanted=False).plain_counts())
        most = max((value for _, value in counts), default=0)
        if counts:
            rows = [(_described(label), count(value), bar(value, most)) for label, value in counts]
            overview.parts.append(Table(caption, ("what", "how many", "as a bar"), rows))
    overview.parts += _files(run)
    sections = [overview, *resource_sections(run)]
    return [section for section in sections if section.parts]


def _described(name: str) -> str:
    return _MEANINGS.get(name, name.replace("_", " ")).replace("`", "")


def _first(file: Figures, *names: str) -> int | None:
    """The first of these figures that a file has."""
    counts = (file.count(name, wanted=False) for name in names)
    return next((found for found in counts if found is not None), None)


def _files(run: ReportedRun) -> list[Part]:
    """What was written."""
    files = run.figures.inners("files", wanted=False)
    sizes = [file.count("bytes", wanted=False) for file in files]
    most = max((written or 0 for written in sizes), default=0)
    rows = [
        (
            file.text("file", wanted=False) or "?",
            file.text("split", wanted=False) or "-",
            count(_first(file, "rows", "lines", "documents")),
            count(file.count("tokens", wanted=False)),
            size(written),
            bar(written, most),
        )
        for file, written in zip(files, sizes, strict=True)
    ][:_MOST_FILES]
    left = f"{len(files) - _MOST_FILES:,} more are left out." if len(files) > _MOST_FILES else ""
    columns = ("file", "split", "rows or lines", "tokens", "bytes", "as a bar")
    return [Table("Files that were written", columns, rows, note=left)] if rows else []
