"""Figures of a manifest that anybody may have written: each is checked when it is read.

In: a decoded JSON value. Out: typed figures, or None; what a reader wanted and did not find as it should be
is noted, so that the page can say it. Held in memory: the value itself, and one line for each such note.

Not `dataset.fields.Fields`, which refuses a file at its first fault: a report shows what is there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

_SHOWN = 40
_MOST_NOTES = 50


class Figures:
    """One JSON object. `notes` are shared by all that is read below it; `wanted=False` notes nothing where
    the figure is missing, as in a run of an older version."""

    def __init__(self, value: object, *, where: str = "", notes: dict[str, None] | None = None) -> None:
        self.values: dict[str, Any] = value if isinstance(value, dict) else {}
        self.where = where
        self.notes: dict[str, None] = {} if notes is None else notes

    def __bool__(self) -> bool:
        return bool(self.values)

    def count(self, name: str, *, wanted: bool = True) -> int | None:
        value = self._get(name, wanted)
        # bool is an int to Python; what is beyond 64 bits no run has counted.
        if type(value) is int and 0 <= value < 2**63:
            return value
        self._wrong(name, "a count", value)
        return None

    def number(self, name: str, *, wanted: bool = True) -> float | None:
        value = self._get(name, wanted)
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300:
            return float(value)  # of NaN, the comparison is false
        self._wrong(name, "a number", value)
        return None

    def text(self, name: str, *, wanted: bool = True) -> str | None:
        value = self._get(name, wanted)
        if isinstance(value, str):
            return value
        self._wrong(name, "a text", value)
        return None

    def inner(self, name: str, *, wanted: bool = True) -> Figures:
        """The object of that name; an empty one where there is none."""
        value = self._get(name, wanted)
        if not isinstance(value, dict):
            self._wrong(name, "an object", value)
        return Figures(value, where=self._path(name), notes=self.notes)

    def inners(self, name: str, *, wanted: bool = True) -> list[Figures]:
        """The objects of a list."""
        listed = self.list(name, wanted=wanted)
        return [
            Figures(value, where=f"{self._path(name)}[{index}]", notes=self.notes)
            for index, value in enumerate(listed)
            if isinstance(value, dict)
        ]

    def list(self, name: str, *, wanted: bool = True) -> list[Any]:
        value = self._get(name, wanted)
        if isinstance(value, list):
            return value
        self._wrong(name, "a list", value)
        return []

    def counts(self) -> Iterator[tuple[str, int]]:
        """All that are counts, in the file's order."""
        for name in self.values:
            value = self.count(name)
            if value is not None:
                yield name, value

    def plain_counts(self) -> Iterator[tuple[str, int]]:
        """Those values that are counts; others are left out, and not noted."""
        for name, value in self.values.items():
            if type(value) is int and 0 <= value < 2**63:
                yield name, value

    def note(self, fact: str) -> None:
        if len(self.notes) < _MOST_NOTES:
            self.notes[fact] = None

    def _get(self, name: str, wanted: bool) -> Any:
        value = self.values.get(name)
        if value is None and wanted:
            self.note(f"`{self._path(name)}` is missing")
        return value

    def _wrong(self, name: str, kind: str, value: object) -> None:
        if value is not None:
            shown = "not finite" if isinstance(value, float) and not math.isfinite(value) else repr(value)
            self.note(f"`{self._path(name)}` is not {kind}: {shown[:_SHOWN]}")

    def _path(self, name: str) -> str:
        return f"{self.where}.{name}" if self.where else name
