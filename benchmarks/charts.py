"""Charts of what benchmarks measured: bars, one panel for each measure.

In: `docs/measured/NAME.json`. Out: NAME.svg beside it. `python benchmarks/charts.py` draws all of them; a
benchmark that was run draws its own. A figure is written as in the table, and a bar is as long as its figure:
axes begin at zero and none is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from results import MEASURED, Results, Row, measured
from svg import LINE, rectangle, svg, text

WIDTH = 600
_LEFT, _BAR, _LONGEST = 20, 258, 240
_THICK, _STEP = 16, 24


@dataclass(frozen=True)
class Chart:
    """Which rows of a benchmark are drawn, and how they are named."""

    title: str
    panels: Sequence[tuple[str, str]]
    """Keys of what was measured, each with the panel's heading."""
    label: str
    """The key of what a bar is named by."""
    group: str | None = None
    """The key of what bars stand together for."""
    among: Callable[[Row], bool] = lambda row: True
    ours: Callable[[Row], bool] | None = None

    def is_ours(self, row: Row) -> bool:
        return self.ours(row) if self.ours else "krill" in str(row[self.label]).lower()


SECONDS, PEAK = ("seconds", "Seconds (less is better)"), ("peak", "Peak memory (less is better)")


def _rate(unit: str) -> tuple[str, str]:
    return "rate", f"{unit} (more is better)"


CHARTS = {
    "clean_text": Chart("Read, clean, deduplicate, write 500 MB: one core", [SECONDS, PEAK], "program"),
    "preprocess": Chart("krill preprocess and other pipelines: one core", [SECONDS, PEAK], "program", "job"),
    "seed_scale": Chart(
        "Short documents, cleaned, deduplicated, tokenised, packed", [PEAK, SECONDS], "program", "documents"
    ),
    "train_tokenizer": Chart(
        "Training a tokenizer of 32,000 tokens on 480 MB: one thread",
        [SECONDS, PEAK],
        "trainer",
        among=lambda row: row["text"] == "480 MB" and row["threads"] == 1,
    ),
    "encode": Chart("Encoding text with 32,000 tokens", [_rate("MB/s"), PEAK], "encoder", "threads"),
    "encode_families": Chart(
        "Encoding with the tokenizers of model families: one thread",
        [_rate("MB/s")],
        "encoder",
        "tokenizer",
        among=lambda row: row["threads"] == 1,
    ),
    "loading": Chart(
        "Tokens for training, from the page cache: one core",
        [_rate("Millions of tokens a second")],
        "program",
        "job",
    ),
    "train": Chart(
        "Training 1.4 million parameters: two threads", [_rate("Tokens a second"), PEAK], "program"
    ),
    "qa": Chart(
        "Features for question answering: one core",
        [_rate("Questions for each second of CPU time"), PEAK],
        "program",
        "tokenizer",
    ),
    "datatrove_steps": Chart(
        "Steps inside a datatrove pipeline: one core", [_rate("MB/s")], "program", "job"
    ),
}


def draw(results: Results) -> str:
    """The chart of a benchmark."""
    chart = CHARTS[results.name]
    rows = [row for row in results.rows if chart.among(row)]
    parts, y = [text(_LEFT, 34, chart.title, bold=True, anchor="start", size=16)], 34.0
    for key, heading in chart.panels:
        y += 36
        parts.append(text(_LEFT, y, heading, anchor="start", bold=True))
        y += 4
        drawn, y = _panel(results, chart, [row for row in rows if key in row], key, y)
        parts += drawn
    return svg(WIDTH, y + 20, _described(results, chart, rows), parts, size=14)


def _panel(
    results: Results, chart: Chart, rows: Sequence[Row], key: str, y: float
) -> tuple[list[str], float]:
    """Bars of one measure, in groups; and where they end."""
    parts = []
    most = max(_value(row[key]) for row in rows)
    for group, members in groupby(rows, key=lambda row: chart.group and row[chart.group]):
        if chart.group:
            y += LINE + 11
            parts.append(text(_LEFT, y, _group_title(chart, group), anchor="start", kind="soft"))
        for row in members:
            y += _STEP
            length = max(1.5, _LONGEST * _value(row[key]) / most)
            middle = y - 5
            parts += [
                text(_LEFT, y, _plain(_label(row, chart)), anchor="start"),
                rectangle(
                    _BAR, middle - _THICK / 2, length, _THICK, "ours" if chart.is_ours(row) else "peer"
                ),
                text(_BAR + length + 8, y, _figure(results, row, key), anchor="start"),
            ]
    return parts, y


def _value(figure: float | str) -> float:
    """The length of a bar: a text such as `over 660` has its number at the end."""
    return float(figure.split()[-1]) if isinstance(figure, str) else figure


def _figure(results: Results, row: Row, key: str) -> str:
    (column,) = [column for column in results.columns if column.key == key]
    return column.cell(row)


def _label(row: Row, chart: Chart) -> str:
    budget = row.get("budget", "none") if chart.label == "trainer" else "none"
    return str(row[chart.label]) if budget == "none" else f"{row[chart.label]}, {budget}"


def _group_title(chart: Chart, group: object) -> str:
    if isinstance(group, int):
        return f"{group:,} {chart.group}" if group != 1 else f"1 {str(chart.group).rstrip('s')}"
    return str(group)


def _plain(label: str) -> str:
    return label.replace("`", "")


def _described(results: Results, chart: Chart, rows: Sequence[Row]) -> str:
    """The chart in words."""
    facts = []
    for row in rows:
        figures = ", ".join(_figure(results, row, key) for key, _ in chart.panels)
        group = f"{_group_title(chart, row[chart.group])}, " if chart.group else ""
        facts.append(f"{group}{_plain(_label(row, chart))}: {figures}")
    return f"{chart.title}. {'; '.join(facts)}"


def main() -> None:
    """Draw all charts from what was kept."""
    for name in CHARTS:
        (MEASURED / f"{name}.svg").write_text(draw(measured(name)), encoding="utf-8")


if __name__ == "__main__":
    main()
