"""Rows by number.

Comes in: a folder. Goes out: NumPy arrays that the caller owns. Opening reads the manifest and nothing else;
a row is found by arithmetic (shard by bisection, batch by division, offset from the manifest) and its tokens
are read straight into the result. Held in memory: the manifest, up to 64 open files, and the `seq_lengths` of
recently used record batches, at most `cache_bytes` of them; never the tokens.
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Any, Self, SupportsIndex

import numpy as np
import numpy.typing as npt

from krill.errors import InputError
from krill.shards.batch_index import BatchIndex, read_batch_index
from krill.shards.manifest import Manifest
from krill.shards.recently_used import RecentlyUsed
from krill.shards.shard_file import ShardFile

_MOST_OPEN_FILES = 64


class Dataset:
    """A prepared dataset: `len(dataset)`, `dataset[-1]`, `dataset[10:20]`, `dataset[[5, 1, 5]]`.

    One row is `{"input_ids": array[sequence_len], "seq_lengths": array}`; several rows are
    `{"input_ids": array[rows, sequence_len], "seq_lengths": [array, ...]}`. Safe to use from several threads.
    """

    def __init__(self, path: str | Path, *, cache_bytes: int = 8_000_000) -> None:
        self.path = Path(path)
        self.manifest = Manifest.load(self.path)
        if self.manifest.dataset is None:
            raise InputError(
                f"`{self.path}` holds documents but no token rows",
                hint="prepare it with `output: tokens` or `output: both`",
            )
        self.layout = self.manifest.dataset.layout
        self.shards = self.manifest.dataset.shards
        self._starts = [0, *accumulate(shard.rows for shard in self.shards)]
        self._files = RecentlyUsed[ShardFile](_MOST_OPEN_FILES, weigh=lambda file: 1)
        self._indexes = RecentlyUsed[BatchIndex](cache_bytes, weigh=lambda index: index.nbytes)

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, key: SupportsIndex | slice | Sequence[int] | npt.NDArray[Any]) -> dict[str, Any]:
        if isinstance(key, slice):
            return self._read(np.arange(*key.indices(len(self)), dtype=np.int64))
        if isinstance(key, Sequence | np.ndarray):
            return self._read(self._checked(_row_numbers(key)))
        return self._read_one(operator.index(key))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[row] for row in range(len(self)))

    def batch_index(self, shard: int, batch: int) -> BatchIndex:
        """The `seq_lengths` of one record batch, without its tokens."""
        load = partial(read_batch_index, self._file(shard), self.layout, batch)
        return self._indexes.get((shard, batch), load)

    def close(self) -> None:
        """Let go of files and cache; the dataset can still be used and opens them again."""
        self._files.clear()
        self._indexes.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _file(self, shard: int) -> ShardFile:
        return self._files.get(shard, partial(ShardFile, self.path, self.shards[shard]))

    def _checked(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Row numbers with negative ones counted from the end."""
        outside = (rows < -len(self)) | (rows >= len(self))
        if outside.any():
            raise self._outside(int(rows[outside][0]))
        return np.where(rows < 0, rows + len(self), rows)

    def _read_one(self, row: int) -> dict[str, Any]:
        """What `_read` does, without its arrays: this is what a shuffling loader calls for each row."""
        rows = len(self)
        if not -rows <= row < rows:
            raise self._outside(row)
        row %= rows
        input_ids = np.empty(self.layout.sequence_len, dtype=self.layout.dtype)
        seq_lengths: list[npt.NDArray[np.int32]] = []
        self._read_within_batch(row, row + 1, input_ids[np.newaxis], seq_lengths)
        return {"input_ids": input_ids, "seq_lengths": seq_lengths[0]}

    def _outside(self, row: int) -> IndexError:
        return IndexError(f"row {row} is out of range: `{self.path}` has {len(self)} rows")

    def _read(self, rows: npt.NDArray[np.int64]) -> dict[str, Any]:
        input_ids = np.empty((len(rows), self.layout.sequence_len), dtype=self.layout.dtype)
        seq_lengths: list[npt.NDArray[np.int32]] = []
        done = 0
        for first, end in _consecutive(rows):
            while first < end:
                count = self._read_within_batch(first, end, input_ids[done:], seq_lengths)
                first, done = first + count, done + count
        return {"input_ids": input_ids, "seq_lengths": seq_lengths}

    def _read_within_batch(
        self, first: int, end: int, input_ids: npt.NDArray[Any], seq_lengths: list[npt.NDArray[np.int32]]
    ) -> int:
        """Read rows from `first` up to `end` or the end of the record batch; returns how many."""
        shard = bisect_right(self._starts, first) - 1
        batch, row = divmod(first - self._starts[shard], self.layout.rows_per_batch)
        index = self.batch_index(shard, batch)
        count = min(end - first, index.rows - row)
        self._file(shard).read_into(input_ids[:count], index.tokens_at + row * self.layout.row_bytes)
        seq_lengths.extend(index.row(number) for number in range(row, row + count))
        return count


def _row_numbers(key: Sequence[int] | npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    rows = np.asarray(key)
    if rows.size == 0:
        return np.empty(0, dtype=np.int64)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise TypeError(f"rows are chosen by integers, slices or lists of integers, not by {rows.dtype}")
    return rows.astype(np.int64)


def _consecutive(rows: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Half-open ranges of row numbers that follow each other, in the order asked for."""
    if len(rows) == 0:
        return
    breaks = np.flatnonzero(np.diff(rows) != 1) + 1
    for start, end in zip([0, *breaks.tolist()], [*breaks.tolist(), len(rows)], strict=True):
        first = int(rows[start])
        yield first, first + end - start
