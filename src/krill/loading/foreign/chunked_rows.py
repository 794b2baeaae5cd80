"""Rows of tables that lie in chunks of any size: record batches or row groups.

Comes in: where the chunks are. Goes out: the rows asked for, their tokens read from their positions straight
into the result. Held in memory: eight bytes for each chunk, and the offsets and `seq_lengths` of chunks used
last, at most `cache_bytes` of them; never the tokens. No file stays open, so that what a cache drops is gone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from krill import _native
from krill.dataset.recently_used import RecentlyUsed
from krill.dataset.row_batch import RowBatch
from krill.errors import InputError
from krill.loading.foreign.ragged import Counts, ends_of, pick_lists, row_batch
from krill.loading.foreign.row_files import NumbersFile, reading

# A file of a cache that several processes fill may be dropped between fetching and opening it.
_TRIES = 5
_HINT = (
    "copy the file again; if it comes through a cache, raise `cache_size`: it holds too little for a batch"
)


@dataclass(frozen=True, slots=True, eq=False)
class ChunkIndex:
    """Row `i` of a chunk has the tokens `token_offsets[i]` to `token_offsets[i + 1]`, counted from the byte
    `tokens_at` of the file. Its pieces are in `seq_lengths` likewise, which is None if none are stated."""

    tokens_at: int
    token_offsets: npt.NDArray[np.int64]
    seq_offsets: npt.NDArray[np.int64] | None = None
    seq_lengths: npt.NDArray[np.int32] | None = None

    @property
    def nbytes(self) -> int:
        arrays = (self.token_offsets, self.seq_offsets, self.seq_lengths)
        return sum(array.nbytes for array in arrays if array is not None)


class ChunkStore(Protocol):
    """Where chunks are kept: picklable, safe to use from several threads."""

    def file_of(self, chunk: int) -> int:
        """The number of the file that a chunk is in."""

    def path(self, file: int) -> Path:
        """The file on this machine; it is made if it is not there, and may be dropped later."""

    def shown(self, file: int) -> str:
        """The name of the file that a user knows."""

    def index(self, chunk: int, file: NumbersFile) -> ChunkIndex:
        """What is known of a chunk's rows."""


class ChunkedRows:
    """Reads rows by number. `chunk_rows` says how many rows each chunk has."""

    def __init__(
        self, name: str, store: ChunkStore, chunk_rows: Counts, dtype: np.dtype[Any], cache_bytes: int
    ) -> None:
        self.name = name
        self.starts = ends_of(chunk_rows)
        self._store = store
        self._dtype = dtype
        self._cache_bytes = cache_bytes
        self._renew()

    @property
    def rows(self) -> int:
        return int(self.starts[-1])

    def read(self, rows: npt.NDArray[np.int64]) -> RowBatch:
        if os.getpid() != self._process:
            # A lock that was held when the process forked is never released in the child: it gets new ones.
            self._renew()
        found = _Found.none(len(rows))
        chunks = np.searchsorted(self.starts, rows, side="right") - 1
        order = np.argsort(chunks, kind="stable")
        pieces = []
        for first, end in pairwise(_breaks(chunks[order])):
            picked = order[first:end]
            chunk = int(chunks[picked[0]])
            index = self.index(chunk)
            inside = rows[picked] - self.starts[chunk]
            begin = index.token_offsets[inside]
            found.lengths[picked] = index.token_offsets[inside + 1] - begin
            found.positions[picked] = index.tokens_at + begin * self._dtype.itemsize
            found.files[picked] = self._store.file_of(chunk)
            if index.seq_lengths is not None and index.seq_offsets is not None:
                starts = index.seq_offsets[inside]
                counts = index.seq_offsets[inside + 1] - starts
                found.seq_counts[picked] = counts
                pieces.append(pick_lists(index.seq_lengths, starts, counts))
        tokens = self._tokens(found)
        seq_lengths = _in_order(pieces, found.seq_counts, order)
        return row_batch(self.name, rows, tokens, found.lengths, seq_lengths, found.seq_counts)

    def index(self, chunk: int) -> ChunkIndex:
        """A chunk's index, remembered."""
        return self._indexes.get(chunk, lambda: self._read_index(chunk))

    def close(self) -> None:
        """Forget the indexes; they are read again when needed."""
        self._renew()

    def _read_index(self, chunk: int) -> ChunkIndex:
        number = self._store.file_of(chunk)
        with self._open(number) as file:
            return self._store.index(chunk, file)

    def _open(self, number: int) -> NumbersFile:
        for _ in range(_TRIES - 1):
            try:
                return NumbersFile(self._store.path(number), self._store.shown(number))
            except FileNotFoundError:
                continue
        with reading(self._store.shown(number)):
            return NumbersFile(self._store.path(number), self._store.shown(number))

    def _tokens(self, found: _Found) -> npt.NDArray[Any]:
        """The tokens of all rows in the order asked for; what lies together is read together."""
        sizes = found.lengths * self._dtype.itemsize
        tokens = np.empty(int(found.lengths.sum()), self._dtype)
        used, which = np.unique(found.files, return_inverse=True)
        for attempt in range(_TRIES):
            paths = [self._store.path(int(number)) for number in used]
            reader = _native.PieceReader([os.fsencode(path) for path in paths])
            try:
                reader.read(which.astype(np.uint32), found.positions, sizes, tokens.view(np.uint8))
                break
            except _native.UnreadableFile as error:
                number, reason = error.args
                if attempt + 1 == _TRIES or paths[number].exists():
                    shown = self._store.shown(int(used[number]))
                    raise InputError(f"can't read `{shown}`: {reason}", hint=_HINT) from None
        return tokens

    def _renew(self) -> None:
        self._process = os.getpid()
        self._indexes = RecentlyUsed[ChunkIndex](self._cache_bytes, weigh=lambda index: index.nbytes)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_indexes"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._renew()


@dataclass(frozen=True, slots=True)
class _Found:
    """Where the rows asked for are."""

    files: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]
    lengths: Counts
    seq_counts: Counts

    @classmethod
    def none(cls, rows: int) -> _Found:
        return cls(*(np.zeros(rows, np.int64) for _ in range(4)))


def _breaks(values: npt.NDArray[np.int64]) -> list[int]:
    """Where sorted values change, with both ends."""
    if len(values) == 0:
        return [0]
    return [0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), len(values)]


def _in_order(
    pieces: list[npt.NDArray[np.int32]], counts: Counts, order: npt.NDArray[np.int64]
) -> npt.NDArray[np.int32] | None:
    """Lists that were picked in `order`, in the order of the rows; None if there are none at all."""
    if not pieces:
        return None
    starts = np.empty(len(counts), np.int64)
    starts[order] = ends_of(counts[order])[:-1]
    return pick_lists(np.concatenate(pieces), starts, counts)
