"""Block lists: documents in which a pattern is found are dropped.

In: cleaned documents. Out: those in which none of the patterns (RE2's syntax) is found. Held in memory: the
patterns (`blocklist_bytes`), and while a batch is searched what RE2 takes, 8 MB at most
(`BLOCKLIST_THREAD_BYTES`). The reference is Python's `re`, which agrees on what both understand.

A pattern without a character that means something to RE2 is a word like any other. Those are searched for
natively, all at once, however many there are; RE2 searches for the rest.

Counted: `blocklisted` is rows dropped.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from krill import _native
from krill.config import filters
from krill.config.messages import shown
from krill.corpus.arrays import as_numpy
from krill.corpus.buffers import text_buffers, text_column_of
from krill.corpus.documents import Documents
from krill.errors import ConfigError, InputError
from krill.storage.input_file import open_regular
from krill.text.step import drop

REASONS: Final[Mapping[str, str]] = {"blocklisted": "a pattern of a block list was found"}

BLOCKLIST_BYTES: Final = 10_000_000
"""Arrow's compute functions and RE2, loaded by the first search; 9.1 MB were measured."""
BLOCKLIST_THREAD_BYTES: Final = 8 * 2**20
"""RE2's own limit for one search. A thousand words took a tenth of it."""
READING_BYTES: Final = 2_000_000
"""What reading a list leaves behind, however short: 1.6 MB were measured beside 300,000 patterns."""
LITERAL_BYTES: Final = 12
"""What a literal pattern takes besides its bytes: its place, and its part of a bitmap."""
EXPRESSION_BYTES: Final = 90
"""The same for a pattern of RE2: its parentheses, and its part of a string in Python."""
READ_BYTES: Final = 1 << 18
# RE2 takes about 350,000 characters; a longer line is a file of something else.
LONGEST_PATTERN: Final = 1_000_000
# Longer ones are rare, and RE2 has its own limits for them.
LONGEST_LITERAL: Final = 4096
_LITERAL: Final = re.compile(r"[^\\^$.|?*+()\[\]{}\0\ud800-\udfff]+")
# Literal patterns go to the native set in pieces of so many characters.
_ADDED_AT_ONCE: Final = 1 << 16

# A search for many patterns takes as long as one for one, until RE2's memory is full and it falls back to a
# way that is fifty times slower. Measured on 400 patterns with 1 to 16 KB of them in each search: words lose
# nothing at 4 KB, repetitions (`.*`, `[a-z]{3,8}`) are best at 1 KB.
_MOST_CHARACTERS: Final = 4096
_MOST_CHARACTERS_REPEATED: Final = 1024
_REPETITION: Final = re.compile(r"[*+{]")
_QUOTATION: Final = r"\Q"  # may go on to the end of what it stands in

# What is found in nothing and in a control character is found in every document.
_PROBES: Final = ("", "\x01")


@dataclass(frozen=True, slots=True)
class BlockListFilter:
    """Drops documents in which a pattern of `section` is found. Reads and tries them when it is made."""

    section: filters.BlockList
    searches: tuple[str, ...] = field(init=False, repr=False)
    _literals: _native.LiteralSet = field(init=False, repr=False, compare=False)
    _digest: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        sizes = sizes_of(self.section)
        if not sizes.literals and not sizes.expressions:
            raise ConfigError(
                "the filter `blocklist` has no pattern",
                hint="list some under filters: blocklist: patterns, or name a file of them, one a line",
            )
        made = _PatternCompiler(self.section, sizes)
        searches = tuple(_combined(made.expressions(), self.section.ignore_case))
        object.__setattr__(self, "searches", searches)
        object.__setattr__(self, "_literals", made.literals())
        object.__setattr__(self, "_digest", made.digest.hexdigest())

    @property
    def reasons(self) -> Sequence[str]:
        return tuple(REASONS)

    def apply(self, documents: Documents) -> Documents:
        return drop(documents, self.found_in(documents.batch.column("text")), self.reasons)

    def found_in(self, text: pa.Array) -> NDArray[np.uint8]:
        """For each text of a `large_string` column 1 if a pattern is found in it."""
        found = self._literals.search(*text_buffers(text))
        for search in self.searches:
            found |= as_numpy(_search(text, search, self.section.ignore_case).cast(pa.uint8()), "uint8")
        return found

    def fingerprint(self) -> str:
        """Changes when a pattern does, in the config or in the file."""
        return self._digest


def blocklist_bytes(section: filters.BlockList) -> int:
    """What the patterns of a section take, known before they are loaded."""
    sizes = sizes_of(section)
    literal = sizes.literal_bytes + LITERAL_BYTES * sizes.literals
    library = BLOCKLIST_BYTES if sizes.expressions else 0
    return (
        READING_BYTES + library + literal + 2 * sizes.expression_bytes + EXPRESSION_BYTES * sizes.expressions
    )


def searching_bytes(section: filters.BlockList, max_document_bytes: int) -> int:
    """What a thread takes besides while it searches: RE2's memory, a document in small letters."""
    sizes = sizes_of(section)
    folded = max_document_bytes if sizes.literals and section.ignore_case else 0
    return max(folded, BLOCKLIST_THREAD_BYTES if sizes.expressions else 0)


class _PatternCompiler:
    """One pass over the patterns, from which both kinds of searches are made."""

    def __init__(self, section: filters.BlockList, sizes: PatternSizes) -> None:
        self._section = section
        self._set = _native.LiteralSet(sizes.literals, sizes.literal_bytes, section.ignore_case)
        self._waiting: list[str] = []
        self._characters = 0
        self.digest = blake2b(digest_size=16)

    def expressions(self) -> Iterator[str]:
        """Those that RE2 searches for, each tried; the others are put aside."""
        for pattern in patterns_of(self._section):
            self.digest.update(pattern.text.encode("utf-8", "surrogatepass") + b"\n")
            if is_literal(pattern.text, self._section.ignore_case):
                self._put_aside(pattern.text)
            else:
                _try(pattern, ignore_case=self._section.ignore_case)
                yield pattern.text

    def literals(self) -> _native.LiteralSet:
        """The others, after the last expression."""
        self._set.add("\0".join(self._waiting).encode())
        self._set.finish()
        _native.trim()  # what reading took
        return self._set

    def _put_aside(self, text: str) -> None:
        self._waiting.append(text)
        self._characters += len(text)
        if self._characters > _ADDED_AT_ONCE:
            self._set.add("\0".join(self._waiting).encode())
            self._waiting, self._characters = [], 0


def _try(pattern: Pattern, *, ignore_case: bool) -> None:
    try:
        found = _search(text_column_of(_PROBES), pattern.text, ignore_case)
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


def _search(text: pa.Array, pattern: str, ignore_case: bool) -> Any:
    """For each text whether the pattern is found in it; the GIL is free meanwhile."""
    import pyarrow.compute as pc

    return pc.match_substring_regex(text, pattern, ignore_case=ignore_case)


def _combined(patterns: Iterable[str], ignore_case: bool) -> Iterator[str]:
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
        _search(text_column_of(_PROBES), together, ignore_case)
    except pa.ArrowInvalid:  # each alone is fine
        half = len(patterns) // 2
        yield from _alternatives(patterns[:half], ignore_case)
        yield from _alternatives(patterns[half:], ignore_case)
    else:
        yield together


class Pattern(NamedTuple):
    text: str
    place: str


@dataclass(frozen=True, slots=True)
class PatternSizes:
    """How many patterns are literal and their bytes, and the same of those that RE2 searches for."""

    literals: int
    literal_bytes: int
    expressions: int
    expression_bytes: int


def is_literal(text: str, ignore_case: bool) -> bool:
    """Whether the pattern is found where its own characters are. Beyond ASCII only RE2 knows what else a
    letter is where case doesn't matter."""
    if len(text) > LONGEST_LITERAL or (ignore_case and not text.isascii()):
        return False
    return _LITERAL.fullmatch(text) is not None


def patterns_of(section: filters.BlockList) -> Iterator[Pattern]:
    for text in section.patterns:
        yield Pattern(text, "filters: blocklist: patterns")
    if section.file is None:
        return
    for number, line in enumerate(_lines(Path(section.file)), 1):
        if line.strip() and not line.startswith("#"):
            yield Pattern(line, f"{section.file}, line {number}")


def sizes_of(section: filters.BlockList) -> PatternSizes:
    """What there is to hold, from a pass over the file; remembered until the file changes."""
    state = None
    if section.file is not None and Path(section.file).is_file():
        found = Path(section.file).stat()
        state = (found.st_size, found.st_mtime_ns)
    return _sizes(section.patterns, section.file, section.ignore_case, state)


@lru_cache(maxsize=8)
def _sizes(patterns: tuple[str, ...], file: str | None, ignore_case: bool, state: object) -> PatternSizes:
    section = filters.BlockList(patterns=patterns, file=file, ignore_case=ignore_case)
    literals = literal_bytes = expressions = expression_bytes = 0
    for text, _ in patterns_of(section):
        if is_literal(text, ignore_case):
            literals += 1
            literal_bytes += len(text) if text.isascii() else len(text.encode())
        else:
            expressions += 1
            # Of a string with one character beyond U+FFFF, each takes four.
            expression_bytes += len(text) * (1 if text.isascii() else 4)
    return PatternSizes(literals, literal_bytes, expressions, expression_bytes)


def _lines(path: Path) -> Iterator[str]:
    """The lines of a text file, which may end as on any system."""
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8-sig")(), translate=True)
    rest, number, read = "", 1, 0
    try:
        with open_regular(path) as file:
            while True:
                block = file.read(READ_BYTES)
                read += len(block)
                *lines, rest = (rest + decoder.decode(block, final=not block)).split("\n")
                yield from lines
                number += len(lines)
                if not block:
                    break
                if len(rest) > LONGEST_PATTERN:
                    raise ConfigError(
                        f"the pattern `{shown(rest)}` has more than {LONGEST_PATTERN:,} characters"
                        f" ({path}, line {number})",
                        hint="filters: blocklist: file names a text file with one pattern a line",
                    )
    except OSError as fault:
        raise InputError(
            f"the block list `{path}` can't be read: {fault.strerror}",
            hint="filters: blocklist: file names a text file with one pattern a line",
        ) from fault
    except UnicodeDecodeError as fault:
        place = read - len(fault.object) + fault.start
        raise InputError(
            f"the block list `{path}` is not UTF-8 at byte {place}", hint="save it as UTF-8"
        ) from fault
    yield rest
