"""The token files of many units, read as one stream from any place, or piece by piece.

A unit has two raw little-endian files: ids in the dataset's token type, and the documents' lengths as uint32,
none of them zero. Held in memory: 24 bytes for each unit, and what is being read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from krill import _native
from krill.corpus.buffers import offsets_of
from krill.storage.commits import damaged, reading_artifact

# Lengths are read this many documents at a time.
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class TokenFiles:
    """The files of all units in order: `path(unit, name)` finds the files `tokens` and `lengths`."""

    path: Callable[[int, str], Path]
    units: NDArray[np.uint64]
    tokens: NDArray[np.int64]
    documents: NDArray[np.int64]

    @property
    def total(self) -> int:
        return int(self.tokens.sum())

    def file(self, at: int, name: str) -> Path:
        return self.path(int(self.units[at]), name)

    def read_lengths(self, at: int, first: int, lengths: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Fill `lengths` with those of the documents of unit `at` from `first` on."""
        _fill(self.file(at, "lengths"), first, lengths)
        return lengths

    def tokens_before(self, at: int, document: int) -> int:
        lengths = np.empty(min(_CHUNK, document), np.uint32)
        tokens = 0
        for first in range(0, document, _CHUNK):
            chunk = self.read_lengths(at, first, lengths[: document - first])
            tokens += int(chunk.sum(dtype=np.int64))
        return tokens


class TokenStream:
    """Reads forward from token `start`; each `read` returns ids and where documents end among them."""

    def __init__(self, files: TokenFiles, dtype: str, start: int = 0) -> None:
        self._files = files
        self._dtype = np.dtype(dtype)
        self._firsts = offsets_of(files.tokens)
        self._at = start
        first = self._unit_at(start) if start < files.total else len(files.units)
        self._ends = _DocumentEnds(files, first, int(self._firsts[first]))
        self._ends.until(start)  # those before are not wanted

    def read(self, count: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The next `count` ids, and the offsets in (0, count] at which documents end."""
        ids = np.empty(count, self._dtype)
        filled = 0
        while filled < count:
            unit = self._unit_at(self._at + filled)
            inside = self._at + filled - int(self._firsts[unit])
            take = min(count - filled, int(self._files.tokens[unit]) - inside)
            _fill(self._files.file(unit, "tokens"), inside, ids[filled : filled + take])
            filled += take
        ends = self._ends.until(self._at + count) - self._at
        self._at += count
        return ids, ends

    def _unit_at(self, token: int) -> int:
        return int(self._firsts.searchsorted(token, side="right")) - 1


class _DocumentEnds:
    """Ends of documents in the whole stream, ascending, a chunk of lengths at a time."""

    def __init__(self, files: TokenFiles, first_unit: int, first_token: int) -> None:
        self._files = files
        self._unit = first_unit
        self._document = 0
        self._last_end = first_token
        self._ends: NDArray[np.int64] = np.empty(0, np.int64)

    def until(self, token: int) -> NDArray[np.int64]:
        """The ends up to and including `token`, taken out."""
        taken = []
        while len(self._ends) or (self._last_end < token and self._load()):
            cut = int(self._ends.searchsorted(token, side="right"))
            taken.append(self._ends[:cut])
            self._ends = self._ends[cut:]
            if len(self._ends):
                break
        return np.concatenate(taken) if taken else np.empty(0, np.int64)

    def _load(self) -> bool:
        """The next chunk of lengths; False at the end of the stream."""
        documents = self._files.documents
        while self._unit < len(documents) and self._document == int(documents[self._unit]):
            self._unit += 1
            self._document = 0
        if self._unit == len(documents):
            return False
        count = min(_CHUNK, int(documents[self._unit]) - self._document)
        lengths = self._files.read_lengths(self._unit, self._document, np.empty(count, np.uint32))
        self._document += count
        self._ends = self._last_end + np.cumsum(lengths, dtype=np.int64)
        self._last_end = int(self._ends[-1])
        return True


def _fill(path: Path, first: int, values: NDArray[Any]) -> None:
    """Read an array out of a raw file, from its value number `first` on."""
    with reading_artifact(path), path.open("rb", buffering=0) as file:
        file.seek(first * values.itemsize)
        if file.readinto(values.data.cast("B")) != values.nbytes:
            raise damaged(path, "is shorter than its record says")


class PieceFiles:
    """Files of which pieces are read in any order, by one thread."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._reader = _native.PieceReader([os.fsencode(path) for path in paths])

    def read(
        self, files: NDArray[np.int64], first: NDArray[np.int64], counts: NDArray[np.int64], dtype: Any
    ) -> NDArray[Any]:
        """`counts` values from number `first` on of each of `files`, one after the other."""
        values = np.empty(int(counts.sum()), dtype)
        width = values.itemsize
        try:
            self._reader.read(files.astype(np.uint32), first * width, counts * width, values.view(np.uint8))
        except _native.UnreadableFile as error:
            file, reason = error.args
            raise damaged(self._paths[file], f"can't be read: {reason}") from None
        return values
