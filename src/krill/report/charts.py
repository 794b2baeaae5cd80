"""Charts: lines over time or steps, as SVG that takes its colours from the page.

In: lines of points, levels, and spans of time with names. Out: SVG for a page, with the table of its points.
Held in memory: one figure, and Matplotlib.

Drawn by Matplotlib. Measured for twelve charts of 512 points, with imports: Matplotlib 1.8 s, 73 MB of memory
(of which NumPy, which Krill has anyway, 17 MB) and 243 kB; Vega-Lite by vl-convert 1.7 s, 117 MB, 252 kB, by
a library of 84 MB with a JavaScript engine in it. A page has one to six charts, and may hold 200 MB in all.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup

from krill.errors import MissingExtra, escape
from krill.report.parts import Cell, Chart, Line, Table, Value, number, rate, seconds, size

CHART: Final = "chart-number"
"""What names inside a drawing begin with, for the page to replace: no two charts may share one."""
LINES: Final = 6
"""Colours that the stylesheet has for lines."""
_MOST_POINTS: Final = 400
# Colours that stand for those of the page, which differ by day and night: each becomes a variable of CSS.
_NAMES: Final = ("ink", "soft", "rule", "band", "level", "paper")
_INK, _SOFT, _RULE, _BAND, _LEVEL, _PAPER = (f"#01010{place}" for place in range(1, 7))
_LINE: Final = [f"#0102{place:02x}" for place in range(LINES + 1)]
_VARIABLES: Final = {
    **dict(zip((_INK, _SOFT, _RULE, _BAND, _LEVEL, _PAPER), _NAMES, strict=True)),
    **{colour: f"line{place}" for place, colour in enumerate(_LINE)},
}
_STYLE: Final[dict[Any, Any]] = {
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "svg.fonttype": "none",
    "svg.hashsalt": "krill",
    "text.parse_math": False,
    "font.size": 9.5,
    "axes.edgecolor": _RULE,
    "axes.labelcolor": _SOFT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": _RULE,
    "grid.linewidth": 0.5,
    "xtick.color": _SOFT,
    "ytick.color": _SOFT,
    "text.color": _INK,
}
_WIDTH, _HEIGHT = 5.0, 2.6
# A budget so many times above what was used would leave the curve at the bottom.
_FAR_ABOVE: Final = 4


@dataclass(frozen=True, slots=True)
class ReferenceLine:
    """A value that lines are compared with, such as a budget."""

    label: str
    value: float


@dataclass(frozen=True, slots=True)
class Span:
    """A stage on the axis of time."""

    name: str
    begun: float
    ended: float


@dataclass(frozen=True, slots=True)
class Axis:
    """What the numbers of an axis are: plain ones, or `bytes`, `seconds`, a `rate` of bytes. The scale begins
    at zero, unless it is that of something `relative`, as a loss."""

    label: str
    unit: str = ""
    relative: bool = False

    def cell(self, value: float | None) -> Cell:
        return {"bytes": size, "seconds": seconds, "rate": rate}.get(self.unit, number)(value)


def line_chart(
    title: str,
    lines: Sequence[Line],
    x: Axis,
    y: Axis,
    *,
    levels: Sequence[ReferenceLine] = (),
    spans: Sequence[Span] = (),
) -> Chart:
    """A chart of lines."""
    thinned = [Line(line.label, thin(line.points, _MOST_POINTS // len(lines)), line.colour) for line in lines]
    drawn, above = _levels_in_sight(thinned, levels)
    svg = _drawn(thinned, x, y, drawn, spans, [level.label for level in above])
    beyond = "".join(f" {level.label} is above the chart." for level in above)
    columns = [x.label, *(line.label for line in thinned)]
    table = Table(title, columns, _rows(thinned, x, y))
    legend = [(line.colour, line.label) for line in thinned]
    return Chart(title, _described(title, thinned, y) + beyond, svg, legend, table)


def thin(points: Sequence[tuple[float, float | None]], most: int) -> list[tuple[float, float | None]]:
    """At most so many points and one, evenly, the last among them."""
    step = -(-len(points) // most) or 1
    return [*points[:-1:step], *points[-1:]]


def _levels_in_sight(
    lines: Sequence[Line], levels: Sequence[ReferenceLine]
) -> tuple[list[ReferenceLine], list[ReferenceLine]]:
    most = max((value for line in lines for _, value in line.points if value is not None), default=0.0)
    drawn = [level for level in levels if level.value <= _FAR_ABOVE * most]
    return drawn, [level for level in levels if level not in drawn]


def _rows(lines: Sequence[Line], x: Axis, y: Axis) -> list[list[Value]]:
    places = sorted({place for line in lines for place, _ in line.points})
    columns = [dict(line.points) for line in lines]
    return [[x.cell(place), *(y.cell(column.get(place)) for column in columns)] for place in places]


def _described(title: str, lines: Sequence[Line], y: Axis) -> str:
    """The chart in a sentence, for those who do not see it."""
    facts = []
    for line in lines:
        values = [value for _, value in line.points if value is not None]
        if values:
            shown = [y.cell(value).text for value in (min(values), max(values))]
            facts.append(f"{line.label} between {shown[0]} and {shown[1]}")
    return f"{title}: {'; '.join(facts)}." if facts else f"{title}: nothing was measured."


def _drawn(
    lines: Sequence[Line],
    x: Axis,
    y: Axis,
    levels: Sequence[ReferenceLine],
    spans: Sequence[Span],
    above: Sequence[str],
) -> Markup:
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("a report", "report") from error
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of letters that its fonts lack: the browser's have them
        figure = Figure((_WIDTH, _HEIGHT), layout="constrained")
        axes = figure.add_subplot()
        for place, span in enumerate(spans):
            _draw_span(axes, span, place)
        for line in lines:
            values = [float("nan") if value is None else value for _, value in line.points]
            alone: dict[str, Any] = {"marker": "o", "markersize": 3.5} if len(values) < 3 else {}
            axes.plot(
                [place for place, _ in line.points], values, color=_LINE[line.colour], linewidth=1.6, **alone
            )
        for level in levels:
            axes.axhline(level.value, color=_LEVEL, linewidth=1.2, linestyle=(0, (5, 3)))
            _label(axes, level.label, (1, level.value), ("axes fraction", "data"), _LEVEL, ha="right")
        _scale(axes, x, y, levels, room=1.12 + 0.14 * bool(above))
        if above:
            shown = ", ".join(f"\u2191 {label}" for label in above)
            _label(axes, shown, (0, 1), "axes fraction", _LEVEL, ha="left", va="top", offset=(6, -4))
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    return _for_page(written.getvalue())


def _draw_span(axes: Any, span: Span, place: int) -> None:
    if place % 2 == 0:
        axes.axvspan(span.begun, span.ended, color=_BAND, linewidth=0)
    middle = ((span.begun + span.ended) / 2, 1)
    _label(axes, span.name[:16], middle, ("data", "axes fraction"), _SOFT, ha="center", fontsize=8)


def _label(
    axes: Any,
    text: str,
    place: tuple[float, float],
    coordinates: Any,
    colour: str,
    *,
    va: str = "bottom",
    offset: tuple[float, float] = (0, 3),
    **style: Any,
) -> None:
    axes.annotate(
        escape(text),
        place,
        offset,
        xycoords=coordinates,
        textcoords="offset points",
        va=va,
        color=colour,
        bbox={"facecolor": _PAPER, "edgecolor": "none", "alpha": 0.75, "pad": 0.8},
        **style,
    )


def _scale(axes: Any, x: Axis, y: Axis, levels: Sequence[ReferenceLine], room: float) -> None:
    """Ticks, and above the highest level so many times its height."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.set_xlabel(x.label)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=x.unit == ""))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.margins(x=0.01, y=0.08)
    axes.tick_params(length=0)
    if not y.relative:
        axes.set_ylim(bottom=min(0.0, axes.dataLim.y0))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: y.cell(value).text))
    top = max((level.value for level in levels), default=0.0)
    axes.set_ylim(top=max(axes.get_ylim()[1] * max(1.0, room - 0.12), top * room))


def _for_page(svg: str) -> Markup:
    """The drawing alone, with the page's colours and letters; the page numbers what is named in it."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<svg [^>]*?(viewBox=\"[^\"]*\")[^>]*>", r'<svg \1 aria-hidden="true">', svg, count=1)
    svg = re.sub(r" id=\"([^\"]*)\"", rf' id="{CHART}-\1"', svg)
    svg = re.sub(r"(url\(#|href=\"#)", rf"\g<1>{CHART}-", svg)
    svg = svg.replace("xlink:href", "href")
    svg = re.sub(r"font: ([\d.]+)px[^;\"]*", r"font-size: \1px", svg)
    svg = re.sub(r"#01010[1-6]|#0102[0-9a-f]{2}", lambda found: f"var(--{_VARIABLES[found[0]]})", svg)
    return Markup(svg)  # Matplotlib has escaped what is text in it
