"""Repair: text that was decoded wrongly is mended as ftfy does it, by ftfy.

In: cleaned documents. Out: the same with `ftfy.fix_text` applied. Held in memory: ftfy's tables, and of the
document in work some copies as Python has them (`ftfy_need`).

Python works on a document only where it may be changed. ftfy leaves a text alone that has no character which
one of its fixers replaces, none of which its heuristic for mojibake speaks, and (if it normalises) none that
normalising may touch. A native scan finds documents with such a character: `changing_points` has them, from
ftfy's own tables. The proof is `tests/parity/test_parity_ftfy.py`.

Noted: `text_repaired` is documents that were changed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import version
from threading import Lock
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from krill import _native
from krill.budget import Kind, Need
from krill.config import filters
from krill.corpus.buffers import text_buffers, text_column_of
from krill.corpus.documents import Documents
from krill.corpus.long_records import NO_LONG_RECORDS, LongRecords
from krill.errors import MissingExtra
from krill.text.point_sets import POINTS, point_set
from krill.text.step import with_texts

# The module, its tables and its expressions, compiled; then for each byte of the document in work: its text,
# lines and result as strings of up to four bytes a character.
LOADED_BYTES: Final = 12_000_000
HELD_PER_BYTE: Final = 16
EXPECTED_BYTES: Final = 2_000_000

_ONE_AT_A_TIME: Final = Lock()
_RANGE: Final = re.compile("([^\x00-\x7f])-([^\x00-\x7f])")
_HANGUL: Final = (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))


def ftfy_need(max_document_bytes: int, long: LongRecords = NO_LONG_RECORDS) -> Need:
    """If documents are known to be `long`, one is mended while others go; of a single one fewer copies."""
    longest = HELD_PER_BYTE * max_document_bytes
    expected = LOADED_BYTES + max(
        EXPECTED_BYTES, HELD_PER_BYTE * long.longest // (2 if long.together == 1 else 1)
    )
    return Need("ftfy", LOADED_BYTES + longest, Kind.WATCHED, expected=expected)


@dataclass(frozen=True, slots=True)
class FtfyRepair:
    """Mends documents with the options of `section`, which are ftfy's."""

    section: filters.Ftfy
    _fix: Any = field(init=False, repr=False, compare=False)
    _config: Any = field(init=False, repr=False, compare=False)
    _points: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            ftfy: Any = import_module("ftfy")
        except ImportError:
            raise MissingExtra("the filter `ftfy`", "web") from None
        options = self.section.model_dump(exclude={"name"})
        object.__setattr__(self, "_fix", ftfy.fix_text)
        object.__setattr__(self, "_config", ftfy.TextFixerConfig(explain=False, **options))
        object.__setattr__(self, "_points", point_set(changing_points(self.section)))

    def apply(self, documents: Documents) -> Documents:
        text = documents.batch.column("text")
        rows = np.flatnonzero(_native.has_points(*text_buffers(text), self._points))
        if not len(rows):
            return documents
        mended: dict[int, str] = {}
        with _ONE_AT_A_TIME:
            for row in rows.tolist():
                before = text[row].as_py()
                after = self._fix(before, self._config)
                if after != before:
                    mended[row] = after
        if not mended:
            return documents
        return with_texts(documents, _replaced(text, mended), "text_repaired", len(mended))

    def fingerprint(self) -> str:
        return f"ftfy {version('ftfy')}"


def _replaced(text: pa.Array, mended: dict[int, str]) -> pa.Array:
    """The column with other texts in some rows; what lies between them is not touched one by one."""
    pieces, done = [], 0
    for row, after in mended.items():
        pieces += [text.slice(done, row - done), text_column_of([after.encode("utf-8", "ignore").decode()])]
        done = row + 1
    return pa.concat_arrays([*pieces, text.slice(done)])


def changing_points(section: filters.Ftfy) -> set[int]:
    """Code points without which ftfy changes nothing."""
    found = set(map(ord, "\x1b&")) | set(range(0x80, 0xA0)) | {0xA0, 0xAD}
    if section.unescape_html is False:
        found.discard(ord("&"))
    found.update(_mojibake())
    chardata: Any = import_module("ftfy.chardata")
    if section.fix_latin_ligatures:
        found.update(chardata.LIGATURES)
    if section.fix_character_width:
        found.update(chardata.WIDTH_MAP)
    if section.uncurl_quotes:
        found.update((0x02BC, *range(0x2018, 0x2020)))
    if section.fix_line_breaks:
        found.update((0x0D, 0x2028, 0x2029))
    if section.remove_control_chars:
        found.update(chardata.CONTROL_CHARS)
    if section.normalization is not None:
        found.update(_normalised(section.normalization))
    return found


def _mojibake() -> Iterator[int]:
    """Whatever ftfy's heuristic speaks of beyond ASCII, each character of which a match has one."""
    pattern = import_module("ftfy.badness").BADNESS_RE.pattern
    yield from (ord(character) for character in pattern if not character.isascii())
    for first, last in _RANGE.findall(pattern):
        yield from range(ord(first), ord(last) + 1)


def _normalised(form: Literal["NFC", "NFD", "NFKC", "NFKD"]) -> Iterator[int]:
    """What a normal form replaces, moves, or joins to what stands before it."""
    yield from _HANGUL
    for point in range(POINTS):
        character = chr(point)
        if unicodedata.combining(character) or unicodedata.normalize(form, character) != character:
            yield point
        parts = unicodedata.decomposition(character).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            yield int(parts[1], 16)
