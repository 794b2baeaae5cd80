"""The patterns of a block list, one after the other, and how many there are.

In: the section of a filter. Out: patterns with the place where each is written. Held in memory: one read of
the file, and the longest line.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from krill.config import filters
from krill.config.messages import shown
from krill.errors import ConfigError, InputError

READ_BYTES: Final = 1 << 18
# RE2 takes about 350,000 characters; a longer line is a file of something else.
LONGEST_PATTERN: Final = 1_000_000
# Longer ones are rare, and RE2 has its own limits for them.
LONGEST_LITERAL: Final = 4096
_LITERAL: Final = re.compile(r"[^\\^$.|?*+()\[\]{}\0\ud800-\udfff]+")


class Pattern(NamedTuple):
    """A pattern, and where it is written."""

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
    """All patterns of a section, in their order."""
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
        with path.open("rb") as file:
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
