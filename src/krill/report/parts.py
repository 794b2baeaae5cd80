"""What a page is made of: plain values that the template shows, one way for each.

In: figures and texts. Out: tables, facts, charts, examples, with numbers as people read them. Held in memory:
what the page shows.

A bar stands in a table, where its number is: no table has to be kept behind such a chart. Lines, which have
too many points for that, are drawn by `charts.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from markupsafe import Markup

from krill.budget import format_size


@dataclass(frozen=True, slots=True)
class Cell:
    """A value as it is shown, and the number that it is sorted by; `bar` is its share of the longest."""

    text: str
    value: float | None = None
    bar: float | None = None


Value = Cell | str


@dataclass(frozen=True, slots=True)
class Table:
    kind: ClassVar[str] = "table"
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    kind: ClassVar[str] = "facts"
    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence; `warns` if something is wrong."""

    kind: ClassVar[str] = "note"
    text: str
    warns: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a chart, in the colour of this number; None is a gap."""

    label: str
    points: Sequence[tuple[float, float | None]]
    colour: int = 1


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines, and the table of their points."""

    kind: ClassVar[str] = "chart"
    title: str
    description: str
    svg: Markup
    legend: Sequence[tuple[int, str]]
    table: Table


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A part of a text; `mark` is a class of the stylesheet, or empty."""

    text: str
    mark: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class HeadedText:
    """A text from the data, in pieces; `key` says what their marks mean."""

    heading: str
    pieces: Sequence[MarkedText]


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts one below the other; behind a summary that is opened, unless `shown`."""

    kind: ClassVar[str] = "texts"
    summary: str
    texts: Sequence[HeadedText]
    shown: bool = False


@dataclass(frozen=True, slots=True)
class Beside:
    """Texts side by side."""

    kind: ClassVar[str] = "beside"
    heading: str
    texts: Sequence[HeadedText]


Part = Table | Facts | Note | Chart | Texts | Beside


@dataclass(slots=True)
class PageSection:
    key: str
    title: str
    parts: list[Part] = field(default_factory=list)


def count(value: int | None) -> Cell:
    return Cell("-") if value is None else Cell(f"{value:,}", value)


def size(value: float | None) -> Cell:
    return Cell("-") if value is None else Cell(format_size(int(value)), value)


def rate(value: float | None) -> Cell:
    return Cell("-") if value is None else Cell(f"{format_size(int(value))}/s", value)


def seconds(value: float | None) -> Cell:
    return Cell("-") if value is None else Cell(duration(value), value)


def number(value: float | None) -> Cell:
    if value is None:
        return Cell("-")
    return Cell(number_text(value), value)


def number_text(value: float) -> str:
    """Whole numbers whole, and others with four digits, without an exponent where they are large."""
    if abs(value) < 1e15 and (value == int(value) or abs(value) >= 1000):
        return f"{round(value):,}"
    return f"{value:.4g}"


def share(value: float, whole: float) -> Cell:
    part = value / whole if whole else 0.0
    return Cell(percent(part), part)


def bar(value: float | None, most: float) -> Cell:
    """A bar without a text of its own: the number stands beside it."""
    return Cell("", value or 0, min(1.0, (value or 0) / most) if most > 0 else 0.0)


def percent(part: float) -> str:
    return f"{part:.1%}" if part == 0 or part >= 0.0005 else "< 0.1%"


def duration(value: float) -> str:
    if value == 0:
        return "0 s"
    if value < 100:
        return f"{value:.1f} s" if value >= 0.1 else f"{value * 1000:.0f} ms"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
