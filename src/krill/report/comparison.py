"""Runs beside each other: figures, stages, reasons, and the keys of their configs that differ.

In: runs. Out: one section. Held in memory: its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from krill.report.charts import line_chart
from krill.report.common import BYTES, SECONDS, cut, flat, timeline_samples
from krill.report.figures import Figures
from krill.report.parts import Cell, Line, Note, PageSection, Part, Table, Value, count, number, seconds, size
from krill.report.runs import ReportedRun

# Figures that runs are compared by: what it is called, where it is, how it is read and shown.
_COUNTS: Final = {
    "documents read": ("documents", "read"),
    "documents kept": ("documents", "kept"),
    "tokens": ("tokens", "kept"),
    "rows": ("dataset", "rows"),
    "clusters of duplicates": ("duplicates", "clusters"),
    "duplicates": ("duplicates", "duplicates"),
}
_MEMORY: Final = {"budget": "limit", "predicted peak": "predicted_peak", "measured peak": "measured_peak"}
_TOP: Final = {
    "vocab_size": "vocabulary",
    "bytes_per_token": "bytes per token",
    "parameters": "parameters",
    "steps": "steps",
    "final_loss": "last loss",
    "bits_per_byte": "bits per byte",
}


def comparison_section(runs: Sequence[ReportedRun], names: Sequence[str]) -> PageSection:
    section = PageSection("compared", "Figures")
    columns = ("figure", *names)
    rows: list[list[Value]] = [
        ["command", *(run.command for run in runs)],
        ["state", *(run.state for run in runs)],
        ["seconds", *(seconds(run.figures.number("seconds", wanted=False)) for run in runs)],
    ]
    for label, (part, name) in _COUNTS.items():
        rows += _row(label, [count(_inner(run, part).count(name, wanted=False)) for run in runs])
    for label, name in _MEMORY.items():
        rows += _row(label, [size(_inner(run, "budget").count(name, wanted=False)) for run in runs])
    for name, label in _TOP.items():
        rows += _row(label, [number(run.figures.number(name, wanted=False)) for run in runs])
    section.parts.append(Table("Figures of the runs", columns, rows))
    section.parts += _memory_over_time(runs, names)
    section.parts += _by_name(runs, columns, "Documents dropped, by reason", "dropped")
    section.parts += _stages(runs, columns)
    section.parts.append(_configs(runs, names))
    return section


def _inner(run: ReportedRun, name: str) -> Figures:
    return run.figures.inner(name, wanted=False)


def _row(label: str, cells: Sequence[Cell]) -> list[list[Value]]:
    """Nothing where no run has the figure."""
    return [[label, *cells]] if any(cell.value is not None for cell in cells) else []


def _memory_over_time(runs: Sequence[ReportedRun], names: Sequence[str]) -> list[Part]:
    lines = []
    for place, (run, name) in enumerate(zip(runs, names, strict=True)):
        samples = [(at, held) for at, held, _ in timeline_samples(run.timeline)]
        lines += [Line(name, samples, place + 1)] if samples else []
    return [line_chart("Memory of the runs over time", lines, SECONDS, BYTES)] if lines else []


def _by_name(runs: Sequence[ReportedRun], columns: Sequence[str], caption: str, name: str) -> list[Part]:
    from krill.pipeline.summary import describe_reason

    found = [
        dict(run.figures.inner("documents", wanted=False).inner(name, wanted=False).counts()) for run in runs
    ]
    keys = list(dict.fromkeys(key for one in found for key in one))
    rows: list[list[Value]] = [
        [describe_reason(key), *(count(one.get(key, 0)) for one in found)] for key in keys
    ]
    return [Table(caption, ("reason", *columns[1:]), rows)] if rows else []


def _stages(runs: Sequence[ReportedRun], columns: Sequence[str]) -> list[Part]:
    found = [
        {
            stage.text("name") or "?": (
                stage.number("seconds", wanted=False),
                stage.count("peak", wanted=False),
            )
            for stage in run.figures.inners("stages", wanted=False)
        }
        for run in runs
    ]
    keys = list(dict.fromkeys(key for one in found for key in one))
    if not keys:
        return []
    nothing = (None, None)
    times: list[list[Value]] = [[key, *(seconds(one.get(key, nothing)[0]) for one in found)] for key in keys]
    peaks: list[list[Value]] = [[key, *(size(one.get(key, nothing)[1]) for one in found)] for key in keys]
    head = ("stage", *columns[1:])
    return [Table("Seconds by stage", head, times), Table("Peak memory by stage", head, peaks)]


def _configs(runs: Sequence[ReportedRun], names: Sequence[str]) -> Part:
    found = [dict(flat(run.config.values)) for run in runs]
    keys = list(dict.fromkeys(key for one in found for key in one))
    differing = [key for key in keys if len({one.get(key) for one in found}) > 1]
    if not differing:
        return Note("Their configs are the same in all that shapes the output.")
    rows = [[key, *(cut(one.get(key, "-")) for one in found)] for key in differing]
    return Table("Keys of the config that differ", ("key", *names), rows)
