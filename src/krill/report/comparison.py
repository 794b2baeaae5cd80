"""Runs beside each other: figures, stages, reasons, and the keys of their configs that differ.

In: runs. Out: one section. Held in memory: its rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from krill.report.charts import line_chart
from krill.report.common import BYTES, SECONDS, cut, flat, timeline_samples
from krill.report.figures import Figures
from krill.report.funnel import described
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
# The first place in a list that a key goes through, and what an entry of a list is known by.
_ENTRY: Final = re.compile(r"(.*?\[\d+\])\.")
_NAMES: Final = ("name", "path")
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
        ["command", *(Cell(run.command) for run in runs)],
        ["state", *(Cell(run.state) for run in runs)],
        ["seconds", *(seconds(run.figures.number("seconds", wanted=False)) for run in runs)],
    ]
    for label, (part, name) in _COUNTS.items():
        rows += _row(label, [count(_inner(run, part).count(name, wanted=False)) for run in runs])
    for label, name in _MEMORY.items():
        rows += _row(label, [size(_inner(run, "budget").count(name, wanted=False)) for run in runs])
    for name, label in _TOP.items():
        rows += _row(label, [number(run.figures.number(name, wanted=False)) for run in runs])
    section.parts.append(Table("Figures of the runs", *_with_change(columns, rows)))
    section.parts += _configs(runs, names)
    section.parts += _by_name(runs, columns, "Documents dropped, by reason", "dropped")
    section.parts += _stages(runs, columns)
    section.parts += _memory_over_time(runs, names)
    return section


def _with_change(
    columns: Sequence[str], rows: Sequence[Sequence[Value]]
) -> tuple[Sequence[str], Sequence[Sequence[Value]]]:
    """Of two runs, what the second has more or less than the first, in percent of it."""
    if len(columns) != 3:
        return columns, rows
    return (*columns, "change"), [[*row, _change(*row[1:])] for row in rows]


def _change(before: Value, after: Value) -> Cell:
    values = [None if isinstance(value, str) else value.value for value in (before, after)]
    if values[0] is None or values[1] is None:
        return Cell("")
    if values[0] == values[1]:
        return Cell("0%", 0.0)
    part = (values[1] - values[0]) / values[0] if values[0] else None
    return Cell("new") if part is None else Cell(f"{part:+,.{0 if abs(part) >= 10 else 1}%}", part)


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
    return [line_chart("Memory of the runs over time", lines, SECONDS, BYTES)] if len(lines) > 1 else []


def _by_name(runs: Sequence[ReportedRun], columns: Sequence[str], caption: str, name: str) -> list[Part]:
    found = [
        dict(run.figures.inner("documents", wanted=False).inner(name, wanted=False).counts()) for run in runs
    ]
    keys = list(dict.fromkeys(key for one in found for key in one))
    if sum(map(bool, found)) < 2:
        return []
    rows: list[list[Value]] = [
        [described(key), *(count(one.get(key, 0) if one else None) for one in found)] for key in keys
    ]
    return [Table(caption, *_with_change(("reason", *columns[1:]), rows))]


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
    if sum(map(bool, found)) < 2:
        return []
    nothing = (None, None)
    times: list[list[Value]] = [[key, *(seconds(one.get(key, nothing)[0]) for one in found)] for key in keys]
    peaks: list[list[Value]] = [[key, *(size(one.get(key, nothing)[1]) for one in found)] for key in keys]
    head = ("stage", *columns[1:])
    return [
        Table("Seconds by stage", *_with_change(head, times)),
        Table("Peak memory by stage", *_with_change(head, peaks)),
    ]


def _configs(runs: Sequence[ReportedRun], names: Sequence[str]) -> list[Part]:
    """What shaped the outputs differently, of runs of the same command."""
    if len({run.command for run in runs}) > 1:
        return []
    found = _without_missing_entries([dict(flat(run.config.values)) for run in runs])
    keys = list(dict.fromkeys(key for one in found for key in one))
    differing = [key for key in keys if len({one.get(key) for one in found}) > 1]
    if not differing:
        return [Note("Their configs are the same in all that shapes the output.")]
    rows = [[key, *(cut(one.get(key, "-")) for one in found)] for key in differing]
    return [Table("Keys of the config that differ", ("key", *names), rows)]


def _without_missing_entries(configs: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """An entry of a list that not every run has, such as a filter, as one line with its name or path."""
    entries = [{found[1] for key in config if (found := _ENTRY.match(key))} for config in configs]
    everywhere = set.intersection(*entries)
    shorter = []
    for config in configs:
        kept: dict[str, str] = {}
        for key, value in config.items():
            found = _ENTRY.match(key)
            if found is None or found[1] in everywhere:
                kept[key] = value
            else:
                named = (config.get(f"{found[1]}.{name}") for name in _NAMES)
                kept[found[1]] = next((name for name in named if name is not None), "-")
        shorter.append(kept)
    return shorter
