"""Rows of tables that are stored in chunks of any size: record batches or row groups.

In: where the chunks are. Out: the rows asked for, their tokens read from their positions straight into the
result. Held in memory: eight bytes for each chunk, and the offsets and `seq_lengths` of chunks used last, at
most `cache_bytes` of them; never the tokens. No file stays open, so that what a cache drops takes no space.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from krill import _native
from krill.corpus.buffers import offsets_of
from krill.dataset.rows import RowBatch
from krill.errors import InputError
from krill.loading.foreign.row_files import NumbersFile, RowFiles, reading

Counts = npt.NDArray[np.int64]

MOST_IDS = 2**31
# A file of a cache that several processes fill may be dropped between fetching and opening it.
_TRIES = 5
_HINT = (
    "copy the file again; if it comes through a cache, raise `cache_size`: it holds too little for a batch"
)


def pick_lists(values: npt.NDArray[Any], starts: Counts, counts: Counts) -> npt.NDArray[Any]:
    """The lists that begin at `starts`, one after the other."""
    ends = offsets_of(counts)
    # Each value's index: its list's beginning, and how far it is into that list.
    indices = np.arange(ends[-1]) + np.repeat(starts - ends[:-1], counts)
    return np.take(values, indices)


def row_batch(
    name: str,
    rows: npt.NDArray[np.int64],
    tokens: npt.NDArray[Any],
    lengths: Counts,
    seq_lengths: npt.NDArray[np.int32] | None,
    seq_counts: Counts,
) -> RowBatch:
    """Rows of `lengths` with their pieces; a row that has none stated is one piece, unless it is empty.

    `rows` are their numbers, for messages.
    """
    _check_ids(name, rows, tokens, lengths)
    unstated = seq_counts == 0
    one_piece = unstated & (lengths > 0)
    if seq_lengths is None or unstated.all():
        pieces, counts = lengths[one_piece].astype(np.int32), one_piece.astype(np.int64)
    else:
        _check_sums(name, rows, lengths, seq_lengths, seq_counts)
        counts = seq_counts + one_piece
        pieces = np.empty(int(counts.sum()), np.int32)
        stated = np.repeat(~unstated, counts)
        pieces[stated] = seq_lengths
        pieces[~stated] = lengths[one_piece]
    return RowBatch(tokens, offsets_of(lengths), pieces, offsets_of(counts).astype(np.int32))


def _check_ids(name: str, rows: npt.NDArray[np.int64], tokens: npt.NDArray[Any], lengths: Counts) -> None:
    """Batches may be int32, where larger ids would come out as others."""
    if tokens.dtype.itemsize <= 2 or len(tokens) == 0 or 0 <= tokens.min() <= tokens.max() < MOST_IDS:
        return
    at = int(np.argmax((tokens < 0) | (tokens >= MOST_IDS)))
    row = int(rows[np.searchsorted(offsets_of(lengths), at, side="right") - 1])
    raise InputError(
        f"row {row} of `{name}` has the id `{tokens[at]}`", hint=f"ids are from 0 to below {MOST_IDS:,}"
    )


def _check_sums(
    name: str,
    rows: npt.NDArray[np.int64],
    lengths: Counts,
    seq_lengths: npt.NDArray[np.int32],
    seq_counts: Counts,
) -> None:
    """Where lengths of pieces are stated they are positive and add up to the row's."""
    totals = offsets_of(seq_lengths)
    ends = offsets_of(seq_counts)
    sums = totals[ends[1:]] - totals[ends[:-1]]
    wrong = np.flatnonzero((seq_counts > 0) & (sums != lengths))
    if len(wrong):
        row, total, length = (int(each[wrong[0]]) for each in (rows, sums, lengths))
        raise InputError(
            f"`seq_lengths` of row {row} in `{name}` add up to {total}, but the row has {length} tokens",
            hint="remove the column `seq_lengths` if each row is one document",
        )
    if len(seq_lengths) and seq_lengths.min() < 1:
        at = int(np.argmax(seq_lengths < 1))
        row = int(rows[np.searchsorted(ends, at, side="right") - 1])
        raise InputError(
            f"`seq_lengths` of row {row} in `{name}` has the length {int(seq_lengths[at])}",
            hint="write the dataset with lengths of at least 1, or without the column `seq_lengths`",
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


class ChunkStore(ABC):
    """Where chunks are kept: picklable, safe to use from several threads.

    `chunk_files` is the number of the file that each chunk is in, `chunk_rows` how many rows it has,
    `block_rows` how many are stored together, as in `RowSource`, and `nbytes` what the store holds in memory.
    """

    def __init__(
        self, files: RowFiles, dtype: np.dtype[Any], chunk_files: Counts, chunk_rows: Counts, nbytes: int
    ) -> None:
        self.dtype = dtype
        self.chunk_files = chunk_files
        self.chunk_rows = chunk_rows
        self.block_rows = int(chunk_rows.max())
        self.nbytes = nbytes
        self.files = files

    @abstractmethod
    def digest(self) -> hashlib.blake2b:
        """A hash of where every row lies."""

    def path(self, file: int) -> Path:
        """The file on this machine; it is made if it is not there, and may be dropped later."""
        return self.files.path(file)

    def shown(self, file: int) -> str:
        """The name of the file that a user knows."""
        return self.files.names[file]

    @abstractmethod
    def index(self, chunk: int, file: NumbersFile) -> ChunkIndex:
        """What is known of a chunk's rows."""


class _IndexCache:
    """Indexes used last, at most `capacity` bytes of them. They load outside of the lock: two threads may
    load the same one, and either is right."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._bytes = 0
        self._lock = Lock()
        self._indexes: OrderedDict[int, ChunkIndex] = OrderedDict()

    def get(self, chunk: int, load: Callable[[int], ChunkIndex]) -> ChunkIndex:
        with self._lock:
            if chunk in self._indexes:
                self._indexes.move_to_end(chunk)
                return self._indexes[chunk]
        index = load(chunk)
        with self._lock:
            if chunk not in self._indexes:
                self._indexes[chunk] = index
                self._bytes += index.nbytes
                while self._bytes > self._capacity:
                    self._bytes -= self._indexes.popitem(last=False)[1].nbytes
        return index


class ChunkedRows:
    """A `RowSource` over a store of chunks. Before rows are read, `set_lengths` says how long they are."""

    width = 0
    fixed = False

    def __init__(
        self, name: str, store: ChunkStore, *, tokens: int, cache_bytes: int, decoding_bytes: int = 0
    ) -> None:
        self.name = name
        self.tokens = tokens
        self.dtype = store.dtype
        self.block_rows = store.block_rows
        self._starts = offsets_of(store.chunk_rows)
        self.rows = int(self._starts[-1])
        self.held_bytes = decoding_bytes + cache_bytes + store.nbytes + self._starts.nbytes
        self._store = store
        self._cache_bytes = cache_bytes
        self._renew()

    def set_lengths(self, shortest: int, longest: int) -> Self:
        """Of the shortest and the longest row."""
        if longest == 0:
            raise InputError(f"all rows of `{self.name}` are empty", hint="give a dataset that has tokens")
        self.width, self.fixed = longest, shortest == longest
        return self

    @cached_property
    def fingerprint(self) -> str:
        """Of where every row lies, and of the first and the last row."""
        digest = self._store.digest()
        digest.update(self.read(np.array([0, self.rows - 1])).tokens.tobytes())
        return digest.hexdigest()

    def read(self, rows: npt.NDArray[np.int64]) -> RowBatch:
        if os.getpid() != self._process:
            # A lock that was held when the process forked is never released in the child: it gets new ones.
            self._renew()
        files, positions, lengths, seq_counts = np.zeros((4, len(rows)), np.int64)
        chunks = np.searchsorted(self._starts, rows, side="right") - 1
        order = np.argsort(chunks, kind="stable")
        pieces = []
        for first, end in pairwise(_breaks(chunks[order])):
            picked = order[first:end]
            chunk = int(chunks[picked[0]])
            index = self.index(chunk)
            inside = rows[picked] - self._starts[chunk]
            begin = index.token_offsets[inside]
            lengths[picked] = index.token_offsets[inside + 1] - begin
            positions[picked] = index.tokens_at + begin * self.dtype.itemsize
            files[picked] = int(self._store.chunk_files[chunk])
            if index.seq_lengths is not None and index.seq_offsets is not None:
                starts = index.seq_offsets[inside]
                counts = index.seq_offsets[inside + 1] - starts
                seq_counts[picked] = counts
                pieces.append(pick_lists(index.seq_lengths, starts, counts))
        tokens = self._tokens(files, positions, lengths)
        seq_lengths = _in_order(pieces, seq_counts, order)
        return row_batch(self.name, rows, tokens, lengths, seq_lengths, seq_counts)

    def index(self, chunk: int) -> ChunkIndex:
        """A chunk's index, remembered."""
        return self._indexes.get(chunk, self._read_index)

    def close(self) -> None:
        """Drop the indexes; they are read again when needed."""
        self._renew()

    def _read_index(self, chunk: int) -> ChunkIndex:
        number = int(self._store.chunk_files[chunk])
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

    def _tokens(self, files: Counts, positions: Counts, lengths: Counts) -> npt.NDArray[Any]:
        """The tokens of all rows in the order asked for; neighbours on disk are read together."""
        sizes = lengths * self.dtype.itemsize
        tokens = np.empty(int(lengths.sum()), self.dtype)
        used, which = np.unique(files, return_inverse=True)
        for attempt in range(_TRIES):
            paths = [self._store.path(int(number)) for number in used]
            reader = _native.PieceReader([os.fsencode(path) for path in paths])
            try:
                reader.read(which.astype(np.uint32), positions, sizes, tokens.view(np.uint8))
                break
            except _native.UnreadableFile as error:
                number, reason = error.args
                if attempt + 1 == _TRIES or paths[number].exists():
                    shown = self._store.shown(int(used[number]))
                    raise InputError(f"can't read `{shown}`: {reason}", hint=_HINT) from None
        return tokens

    def _renew(self) -> None:
        self._process = os.getpid()
        self._indexes = _IndexCache(self._cache_bytes)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_indexes"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._renew()


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
    starts[order] = offsets_of(counts[order])[:-1]
    return pick_lists(np.concatenate(pieces), starts, counts)
