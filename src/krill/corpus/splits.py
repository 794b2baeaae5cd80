"""Splits: which files belong to one, and which records a slice of it asks for.

The notation and its arithmetic are those of Hugging Face datasets: `train`, `train[:10%]`,
`train[1000:2000]`, `train[-10%:]`, percentages rounded to the closest record.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from krill.errors import ConfigError

_NOTATION = re.compile(
    r"(?P<name>[\w.-]+)"
    r"(?:\[(?:(?P<start>-?[\d_]+)(?P<start_percent>%)?)?:(?:(?P<stop>-?[\d_]+)(?P<stop_percent>%)?)?\])?"
)

_LONGEST_SHOWN = 80

_KEYWORDS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing", "eval", "evaluation"),
}
_SPLIT_OF = {keyword: split for split, keywords in _KEYWORDS.items() for keyword in keywords}


@dataclass(frozen=True, slots=True)
class SplitSlice:
    """A split's name and the slice of its records that is wanted; None = from its beginning, to its end."""

    name: str
    start: int | None = None
    stop: int | None = None
    percent: bool = False

    @property
    def sliced(self) -> bool:
        return self.start is not None or self.stop is not None

    @property
    def needs_total(self) -> bool:
        """Whether the slice depends on the number of records."""
        return self.sliced and (self.percent or (self.start or 0) < 0 or self.stop is None or self.stop < 0)

    def bounds(self, total: int) -> tuple[int, int]:
        """First record and end of the slice, out of `total` records."""
        start, stop = self.start, self.stop
        if self.percent:
            start = None if start is None else round(start * total / 100)
            stop = None if stop is None else round(stop * total / 100)
        first, end = (
            min(max(total + bound, 0) if bound < 0 else bound, total)
            for bound in (start or 0, total if stop is None else stop)
        )
        return first, max(first, end)


def parse_split(notation: str) -> SplitSlice:
    match = _NOTATION.fullmatch(notation.strip())
    try:
        if match is None:
            raise ValueError(notation)
        # Python's own rules for what stands between digits, and how many there may be.
        bounds = [None if match[key] is None else int(match[key]) for key in ("start", "stop")]
    except ValueError:
        raise ConfigError(
            f"can't read the split `{_shortened(notation)}`",
            hint="write `train`, `train[:10%]`, `train[1000:2000]` or `train[-10%:]`",
        ) from None
    percent = bool(match["start_percent"] or match["stop_percent"])
    if percent and any(abs(bound) > 100 for bound in bounds if bound is not None):
        raise ConfigError(f"the split `{_shortened(notation)}` goes beyond 100 %")
    return SplitSlice(match["name"], bounds[0], bounds[1], percent)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def split_of_file(path: str) -> str | None:
    """The split that a file's name, or else that of a folder above it, names; None if none does."""
    for name in reversed(path.split("/")):
        for word in re.split(r"[^A-Za-z]+", name):
            if word.lower() in _SPLIT_OF:
                return _SPLIT_OF[word.lower()]
    return None


def canonical(name: str) -> str:
    """A split's usual name: `validation` for `dev`."""
    return _SPLIT_OF.get(name.lower(), name)


def splits_of(paths: Iterable[str]) -> dict[str, list[str]]:
    """Files by split, if the name of every one says one; else all of them are `train`.

    Hugging Face would silently leave out files that don't, and take a source tree's `test` folder for
    a split.
    """
    by_split: dict[str, list[str]] = {}
    listed = list(paths)
    for path in listed:
        split = split_of_file(path)
        if split is None:
            return {"train": listed}
        by_split.setdefault(split, []).append(path)
    return by_split
