"""The page of `krill train` and `krill qa train`: what `metrics.jsonl` says, of one run or of several.

In: a run. Out: sections with the curves of loss, validation, learning rate, gradient norm, speed and memory.
Held in memory: the lines of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson

from krill.budget import format_size
from krill.report.charts import Axis, ReferenceLine, line_chart
from krill.report.common import named_figures, overview_section, resource_sections
from krill.report.figures import Figures
from krill.report.parts import Chart, Line, Note, PageSection, Part, Table, number
from krill.report.runs import MOST_READ, ReportedRun

METRICS: Final = "metrics.jsonl"
_STEPS: Final = Axis("step")
# What is drawn, by its name in the file: the title, the unit.
_CURVES: Final = {
    "learning_rate": ("Learning rate", ""),
    "grad_norm": ("Gradient norm", ""),
    "tokens_per_second": ("Tokens a second", ""),
    "memory": ("Memory", "bytes"),
}
_FACTS: Final = ("parameters", "steps", "tokens", "tokens_per_second", "final_loss", "bits_per_byte")

Points = list[tuple[float, float | None]]


def training_sections(run: ReportedRun) -> list[PageSection]:
    overview = overview_section(run, named_figures(run, _FACTS))
    overview.parts += curve_parts([(run.name, run, read_metrics(run))], alone=True)
    sections = [overview, _model(run), *resource_sections(run)]
    return [section for section in sections if section.parts]


def trainings_section(runs: Sequence[tuple[str, ReportedRun]]) -> PageSection:
    """The same curves of several runs over each other."""
    read = [(name, run, read_metrics(run)) for name, run in runs]
    return PageSection("trainings", "Trainings over each other", curve_parts(read, alone=False))


def read_metrics(run: ReportedRun) -> list[Figures]:
    """The lines of `metrics.jsonl`; a damaged one, as the last of a run at work, is left out."""
    found = []
    for line in (run.files.read(METRICS, MOST_READ) or b"").splitlines():
        try:
            value: Any = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        found.append(Figures(value))
    return found


def curve_parts(read: Sequence[tuple[str, ReportedRun, list[Figures]]], *, alone: bool) -> list[Part]:
    if not any(lines for *_, lines in read):
        return [Note(f"There are no curves: `{METRICS}` is missing or empty.")]
    charts: list[Part] = []
    losses = []
    for place, (name, _, lines) in enumerate(read):
        for kind, label in (("train", "training"), ("validation", "validation")):
            points = points_of(lines, kind, "loss")
            colour = 2 * place + (kind == "validation") + 1 if alone else place + 1
            if points and (alone or kind == "train"):
                losses.append(Line(label if alone else name, points, colour))
    charts += [line_chart("Loss", losses, _STEPS, Axis("loss", relative=True))] if losses else []
    if not alone:
        charts += _overlaid(read, "validation", "loss", "Validation loss", "")
    for what, (title, unit) in _CURVES.items():
        limit = read[0][1].figures.inner("budget", wanted=False).count("limit", wanted=False)
        levels = [ReferenceLine(f"budget {format_size(limit)}", limit)] if alone and unit and limit else []
        charts += _overlaid(read, "train", what, title, unit, levels)
    return charts


def _overlaid(
    read: Sequence[tuple[str, ReportedRun, list[Figures]]],
    kind: str,
    what: str,
    title: str,
    unit: str,
    levels: Sequence[ReferenceLine] = (),
) -> list[Chart]:
    lines = [
        Line(name, points, place + 1)
        for place, (name, _, figures) in enumerate(read)
        if (points := points_of(figures, kind, what))
    ]
    axis = Axis(title.lower(), unit, relative=what == "loss")
    return [line_chart(title, lines, _STEPS, axis, levels=levels)] if lines else []


def points_of(lines: Sequence[Figures], kind: str, what: str) -> Points:
    points: Points = []
    for line in lines:
        if line.text("kind", wanted=False) == kind:
            step, value = line.count("step", wanted=False), line.number(what, wanted=False)
            if step is not None and value is not None:
                points.append((float(step), value))
    return points


def _model(run: ReportedRun) -> PageSection:
    section = PageSection("model", "Model")
    for name, caption in (("model", "Shape"), ("parameters_by_part", "Parameters by part")):
        values = run.figures.inner(name, wanted=False)
        rows = [(key, number(values.number(key))) for key in values.values]
        section.parts += [Table(caption, ("name", "value"), rows)] if rows else []
    return section
