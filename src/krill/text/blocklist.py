"""Block lists: documents in which a pattern is found are dropped.

In: cleaned documents. Out: those in which none of the patterns (RE2's syntax) is found. Held in memory: the
patterns, and while a batch is searched what RE2 takes, 8 MB at most (`BLOCKLIST_THREAD_BYTES`). The reference
is Python's `re`, which agrees on what both understand.

Counted: `blocklisted` is rows dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from krill.config import filters
from krill.config.messages import shown
from krill.corpus.arrays import as_numpy
from krill.corpus.buffers import text_column
from krill.corpus.documents import Documents
from krill.errors import ConfigError, InputError
from krill.text.drop import drop

REASONS: Final[Mapping[str, str]] = {"blocklisted": "a pattern of a block list was found"}

BLOCKLIST_BYTES: Final = 10_000_000
"""Arrow's compute functions and RE2, loaded by the first search; 9.1 MB were measured."""
BLOCKLIST_THREAD_BYTES: Final = 8 * 2**20
"""RE2's own limit for one search. A thousand words took a tenth of it."""

# A search for many patterns takes as long as one for one, until RE2's memory is full and it falls back to a
# way that is fifty times slower. Measured on 400 patterns with 1 to 16 KB of them in each search: words lose
# nothing at 4 KB, repetitions (`.*`, `[a-z]{3,8}`) are best at 1 KB.
_MOST_CHARACTERS: Final = 4096
_MOST_CHARACTERS_REPEATED: Final = 1024
_REPETITION: Final = re.compile(r"[*+{]")
_QUOTATION: Final = r"\Q"  # may go on to the end of what it stands in

# What is found in nothing and in a control character is found in every document.
_PROBES: Final = (b"", b"\x01")


class _Pattern(NamedTuple):
    text: str
    place: str


@dataclass(frozen=True, slots=True)
class BlockList:
    """Drops documents in which a pattern of `section` is found. Reads and tries them when it is made."""

    section: filters.BlockList
    searches: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        patterns = list(_patterns(self.section))
        if not patterns:
            raise ConfigError(
                "the filter `blocklist` has no pattern",
                hint="list some under filters: blocklist: patterns, or name a file of them, one a line",
            )
        for pattern in patterns:
            _try(pattern, ignore_case=self.section.ignore_case)
        searches = _combined([pattern.text for pattern in patterns], self.section.ignore_case)
        object.__setattr__(self, "searches", tuple(searches))

    def apply(self, documents: Documents) -> Documents:
        """The documents that survive."""
        text = documents.batch.column("text")
        found = np.zeros(len(text), np.uint8)
        for search in self.searches:
            found |= as_numpy(_search(text, search, self.section.ignore_case).cast(pa.uint8()), "uint8")
        return drop(documents, found, tuple(REASONS))

    def fingerprint(self) -> str:
        """Changes when a pattern does, in the config or in the file."""
        return blake2b("\n".join(self.searches).encode(), digest_size=16).hexdigest()


def _patterns(section: filters.BlockList) -> Iterator[_Pattern]:
    """All patterns, and where each is written."""
    for text in section.patterns:
        yield _Pattern(text, "filters: blocklist: patterns")
    if section.file is None:
        return
    for number, line in enumerate(_lines(Path(section.file)), 1):
        if line.strip() and not line.startswith("#"):
            yield _Pattern(line, f"{section.file}, line {number}")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8-sig").split("\n")
    except OSError as fault:
        raise InputError(
            f"the block list `{path}` can't be read: {fault.strerror}",
            hint="filters: blocklist: file names a text file with one pattern a line",
        ) from fault
    except UnicodeDecodeError as fault:
        raise InputError(
            f"the block list `{path}` is not UTF-8 at byte {fault.start}", hint="save it as UTF-8"
        ) from fault


def _try(pattern: _Pattern, *, ignore_case: bool) -> None:
    try:
        found = _search(_probes(), pattern.text, ignore_case)
    except pa.ArrowInvalid as fault:
        said = str(fault).removeprefix("Invalid regular expression: ")
        raise ConfigError(
            f"the pattern `{shown(pattern.text)}` can't be used: {shown(said)} ({pattern.place})",
            hint="patterns are in RE2's syntax, which has no look-around and no back references",
        ) from fault
    if found.to_pylist() == [True, True]:
        raise ConfigError(
            f"the pattern `{shown(pattern.text)}` is found in every document ({pattern.place})",
            hint="leave it out, or demand at least one character",
        )


def _probes() -> pa.Array:
    offsets = np.cumsum([0, *map(len, _PROBES)], dtype=np.int64)
    return text_column(offsets, np.frombuffer(b"".join(_PROBES), np.uint8))


def _search(text: pa.Array, pattern: str, ignore_case: bool) -> Any:
    """For each text whether the pattern is found in it; the GIL is free meanwhile."""
    import pyarrow.compute as pc

    return pc.match_substring_regex(text, pattern, ignore_case=ignore_case)


def _combined(patterns: Sequence[str], ignore_case: bool) -> Iterator[str]:
    """As few searches as keep their speed, each for one pattern or for several alternatives."""
    kinds: dict[int, list[str]] = {_MOST_CHARACTERS: [], _MOST_CHARACTERS_REPEATED: []}
    for pattern in patterns:
        if _QUOTATION in pattern:
            yield pattern
        else:
            kinds[_MOST_CHARACTERS_REPEATED if _REPETITION.search(pattern) else _MOST_CHARACTERS].append(
                pattern
            )
    for most, alike in kinds.items():
        for group in _groups(alike, most):
            yield from _alternatives(group, ignore_case)


def _groups(patterns: Sequence[str], most: int) -> Iterator[list[str]]:
    """The patterns in groups of so many characters."""
    group: list[str] = []
    size = 0
    for pattern in patterns:
        if group and size + len(pattern) > most:
            yield group
            group, size = [], 0
        group.append(pattern)
        size += len(pattern)
    if group:
        yield group


def _alternatives(patterns: Sequence[str], ignore_case: bool) -> Iterator[str]:
    """One search for all of them, or several where that is too large for RE2."""
    if len(patterns) == 1:
        yield patterns[0]
        return
    together = "|".join(f"(?:{pattern})" for pattern in patterns)
    try:
        _search(_probes(), together, ignore_case)
    except pa.ArrowInvalid:  # each alone is fine
        half = len(patterns) // 2
        yield from _alternatives(patterns[:half], ignore_case)
        yield from _alternatives(patterns[half:], ignore_case)
    else:
        yield together
