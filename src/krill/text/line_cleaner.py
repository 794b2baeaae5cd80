"""Line cleaner: lines of symbols alone, and lines of a list, are removed from documents.

In: cleaned documents. Out: the same without such lines; whitespace around a line doesn't count, and blank
lines stay. Held in memory: the texts once more, and the list as 64-bit hashes (`lines_bytes`). The reference
is `tests/oracles/clean.py`.

Noted: `lines_removed` is documents that lost some.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from typing import Final

import numpy as np

from krill import _native
from krill.config import filters
from krill.corpus.buffers import text_buffers, text_column
from krill.corpus.documents import Documents
from krill.text.point_sets import POINTS, point_set
from krill.text.step import with_texts
from krill.text.url_filter import entry_blocks, list_size

# Hashes; the text of a list while it is read, as bytes and as strings; the set of letters being made.
_ENTRY_BYTES: Final = 9
_TEXT_COPIES: Final = 8
_READING_BYTES: Final = 5_000_000


@dataclass(frozen=True, slots=True)
class LineCleaner:
    """Removes lines as `section` says. Reads the list when it is made."""

    section: filters.Lines
    _listed: _native.LineList = field(init=False, repr=False, compare=False)
    _needed: bytes | None = field(init=False, repr=False)
    _digest: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        text = b"".join(entry_blocks(self.section.remove)).decode()
        lines = "\n".join(line.strip() for line in text.split("\n")).encode()
        needed = _letters_and_digits() if self.section.symbol_only else None
        object.__setattr__(self, "_listed", _native.LineList(lines))
        object.__setattr__(self, "_needed", needed)
        object.__setattr__(self, "_digest", blake2b(lines, digest_size=16).hexdigest() if lines else "")

    def apply(self, documents: Documents) -> Documents:
        offsets, data = text_buffers(documents.batch.column("text"))
        starts, texts, removed = self._listed.remove_from(offsets, data, self._needed)
        changed = int(np.count_nonzero(removed))
        if not changed:
            return documents
        return with_texts(documents, text_column(starts, texts), "lines_removed", changed)

    def fingerprint(self) -> str:
        """Changes with the list; empty without one."""
        return self._digest


@cache
def _letters_and_digits() -> bytes:
    return point_set(point for point in range(POINTS) if chr(point).isalnum())


def lines_bytes(section: filters.Lines) -> int:
    """What the list takes while it is read, known before that."""
    size = list_size(section.remove)
    return _READING_BYTES + _TEXT_COPIES * size.nbytes + _ENTRY_BYTES * size.entries
