"""JSON objects of unknown origin, read strictly.

In: a decoded JSON value. Out: typed values, or an InputError that names the file and the field. Held in
memory: nothing beyond the value itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NoReturn

from krill.errors import InputError

LARGEST_COUNT = 2**63 - 1
DAMAGED = "the file was damaged or edited; write the folder again with `krill preprocess --overwrite`"


class Fields:
    """One JSON object; each read checks a type, and what was never read stays available as `rest()`."""

    def __init__(self, value: object, *, source: str, where: str = "", hint: str = DAMAGED) -> None:
        self.source = source
        self._hint = hint
        self.where = where
        if not isinstance(value, dict):
            self._fail("", "an object", value)
        self._values: dict[str, Any] = value
        self._read: set[str] = set()

    def refuse(self, name: str, problem: str) -> NoReturn:
        """Raise for a value whose type is right but whose meaning is not."""
        raise InputError(f"`{self.source}`: `{self._path(name)}` {problem}", hint=self._hint)

    def text(self, name: str) -> str:
        value = self._get(name)
        return value if isinstance(value, str) else self._fail(name, "a string", value)

    def flag(self, name: str) -> bool:
        value = self._get(name)
        return value if isinstance(value, bool) else self._fail(name, "true or false", value)

    def count(self, name: str, *, least: int = 0, most: int = LARGEST_COUNT) -> int:
        return self._count(name, self._get(name), least, most)

    def counts(self, name: str) -> tuple[int, ...]:
        values = self.values(name)
        # All at once where nothing is wrong: a terabyte has a million offsets, and opening it is not to take
        # a second.
        if (
            set(map(type, values)) <= {int}
            and min(values, default=0) >= 0
            and max(values, default=0) <= LARGEST_COUNT
        ):
            return tuple(values)
        listed = enumerate(values)
        return tuple(self._count(f"{name}[{index}]", value, 0, LARGEST_COUNT) for index, value in listed)

    def number(self, name: str) -> float:
        value = self._get(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < math.inf:
            self._fail(name, "a non-negative number", value)
        return float(value)

    def values(self, name: str) -> list[Any]:
        value = self._get(name)
        return value if isinstance(value, list) else self._fail(name, "a list", value)

    def mapping(self, name: str) -> dict[str, Any]:
        value = self._get(name)
        return value if isinstance(value, dict) else self._fail(name, "an object", value)

    def mappings(self, name: str) -> list[dict[str, Any]]:
        for index, value in enumerate(self.values(name)):
            if not isinstance(value, dict):
                self._fail(f"{name}[{index}]", "an object", value)
        return self.values(name)

    def tally(self, name: str) -> dict[str, Any]:
        """Non-negative integers by name, at most one level deep: `{"kept": 3, "dropped": {"short": 1}}`."""
        mapping = self.mapping(name)
        for key, value in mapping.items():
            if isinstance(value, dict):
                for reason, number in value.items():
                    self._count(f"{name}.{key}.{reason}", number, 0, LARGEST_COUNT)
            else:
                self._count(f"{name}.{key}", value, 0, LARGEST_COUNT)
        return mapping

    def inner(self, name: str) -> Fields:
        return Fields(self._get(name), source=self.source, where=self._path(name), hint=self._hint)

    def inners(self, name: str) -> list[Fields]:
        return [
            Fields(value, source=self.source, where=self._path(f"{name}[{index}]"), hint=self._hint)
            for index, value in enumerate(self.values(name))
        ]

    def has(self, name: str) -> bool:
        return name in self._values

    def is_null(self, name: str) -> bool:
        return self._get(name) is None

    def rest(self) -> dict[str, Any]:
        """Fields that were not read: kept, so that a newer version's survive a load and save."""
        return {name: value for name, value in self._values.items() if name not in self._read}

    def _get(self, name: str) -> Any:
        if name not in self._values:
            self.refuse(name, "is missing")
        self._read.add(name)
        return self._values[name]

    def _count(self, name: str, value: object, least: int, most: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            self._fail(name, "an integer", value)
        if not least <= value <= most:
            self.refuse(name, f"must be between {least} and {most}, not `{value}`")
        return value

    def _path(self, name: str) -> str:
        return ".".join(part for part in (self.where, name) if part) or "the file"

    def _fail(self, name: str, expected: str, value: object) -> NoReturn:
        shown = repr(value)
        if isinstance(value, Mapping | list) or len(shown) > 80:
            shown = type(value).__name__
        self.refuse(name, f"must be {expected}, not `{shown}`")
