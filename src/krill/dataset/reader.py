"""Rows by number.

Comes in: a folder. Goes out: NumPy arrays that the caller owns. Opening reads the manifest and nothing else;
a row is found by arithmetic (shard by bisection, batch by division, offset from the manifest) and its tokens
are read straight into the result. Held in memory: the manifest, up to 64 open files, and the offsets and
`seq_lengths` of recently used record batches, at most `cache_bytes` of them; never the tokens.
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

from krill.dataset.batch_index import BatchIndex, read_batch_index
from krill.dataset.manifest import DatasetPart, Manifest
from krill.dataset.recently_used import RecentlyUsed
from krill.dataset.row_batch import RowBatch
from krill.dataset.shard_file import ShardFile
from krill.dataset.verified import VerifiedBatches
from krill.errors import InputError

_MOST_OPEN_FILES = 64


class Dataset:
    """A prepared dataset: `len(dataset)`, `dataset[-1]`, `dataset[10:20]`, `dataset[[5, 1, 5]]`.

    One row is `{"input_ids": array, "seq_lengths": array}`; several rows are
    `{"input_ids": array[rows, sequence_len], "seq_lengths": [array, ...]}`, where `input_ids` is a list of
    arrays too if rows vary in length (`layout.fixed` says). Safe to use from several threads.
    """

    def __init__(self, path: str | Path, *, split: str = "train", cache_bytes: int = 8_000_000) -> None:
        self.path = Path(path)
        self.manifest = Manifest.load(self.path)
        self.part = part_of(self.path, self.manifest, split)
        self.layout = self.part.layout
        self.shards = self.part.shards
        self._starts = [0, *accumulate(shard.rows for shard in self.shards)]
        self._files = RecentlyUsed[ShardFile](_MOST_OPEN_FILES, weigh=lambda file: 1)
        self._indexes = RecentlyUsed[BatchIndex](cache_bytes, weigh=lambda index: index.nbytes)

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, key: SupportsIndex | slice | Sequence[int] | npt.NDArray[Any]) -> dict[str, Any]:
        if isinstance(key, slice):
            return self._read(np.arange(*key.indices(len(self)), dtype=np.int64))
        if isinstance(key, Sequence | np.ndarray):
            return self._read(self._checked(row_numbers(key)))
        return self._read_one(operator.index(key))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[row] for row in range(len(self)))

    def batches(self, start: int = 0) -> Iterator[RowBatch]:
        """All rows from `start` on, a record batch at a time; the caller owns the arrays."""
        if start < 0:
            raise self._outside(start)
        row = start
        while row < len(self):
            shard = bisect_right(self._starts, row) - 1
            batch, first = divmod(row - self._starts[shard], self.layout.rows_per_batch)
            yield self._read_batch(shard, batch, first)
            row = min(self._starts[shard] + (batch + 1) * self.layout.rows_per_batch, self._starts[shard + 1])

    def verified_batches(self) -> Iterator[RowBatch]:
        """All rows, a record batch at a time; an InputError after the last one of a shard whose checksum is
        not what the manifest says."""
        for shard in self.shards:
            file = VerifiedBatches(self.part.folder(self.path), shard)
            for batch in range(len(shard.batches)):
                file.hold(batch)
                index = read_batch_index(file, self.layout, batch)
                count = int(index.token_offsets[-1] - index.token_offsets[0])
                at = index.tokens_at + int(index.token_offsets[0]) * self.layout.dtype.itemsize
                tokens = file.tokens(self.layout.dtype, at, count)
                yield _row_batch(tokens, index, 0)
            file.finish()

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
        folder = self.part.folder(self.path)
        return self._files.get(shard, partial(ShardFile, folder, self.shards[shard]))

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
        shard, index, inside = self._place(row)
        tokens = self._read_tokens(shard, index, inside, inside + 1)
        return {"input_ids": tokens, "seq_lengths": index.row(inside)}

    def _outside(self, row: int) -> IndexError:
        return IndexError(f"row {row} is out of range: `{self.path}` has {len(self)} rows")

    def _read(self, rows: npt.NDArray[np.int64]) -> dict[str, Any]:
        fixed = self.layout.fixed
        wide = np.empty((len(rows) if fixed else 0, self.layout.sequence_len), dtype=self.layout.dtype)
        lists: list[npt.NDArray[Any]] = []
        seq_lengths: list[npt.NDArray[np.int32]] = []
        for first, end in _consecutive(rows):
            while first < end:
                shard, index, row = self._place(first)
                last = row + min(end - first, index.rows - row)
                if fixed:
                    done = len(seq_lengths)
                    self._read_tokens(shard, index, row, last, wide[done : done + last - row].reshape(-1))
                else:
                    tokens = self._read_tokens(shard, index, row, last)
                    borders = index.token_offsets[row + 1 : last] - index.token_offsets[row]
                    lists.extend(part.copy() for part in np.split(tokens, borders))
                seq_lengths.extend(index.row(number) for number in range(row, last))
                first += last - row
        return {"input_ids": wide if fixed else lists, "seq_lengths": seq_lengths}

    def _place(self, row: int) -> tuple[int, BatchIndex, int]:
        """The shard of a row, the index of its record batch, and its number there."""
        shard = bisect_right(self._starts, row) - 1
        batch, inside = divmod(row - self._starts[shard], self.layout.rows_per_batch)
        return shard, self.batch_index(shard, batch), inside

    def _read_batch(self, shard: int, batch: int, first: int) -> RowBatch:
        """A record batch from its row `first` on. Its index is used once, so it is not remembered."""
        index = read_batch_index(self._file(shard), self.layout, batch)
        return _row_batch(self._read_tokens(shard, index, first, index.rows), index, first)

    def _read_tokens(
        self, shard: int, index: BatchIndex, first: int, end: int, target: npt.NDArray[Any] | None = None
    ) -> npt.NDArray[Any]:
        """The tokens of rows of one record batch, flat; into `target` if it is given."""
        start, stop = (int(index.token_offsets[row]) for row in (first, end))
        tokens = np.empty(stop - start, dtype=self.layout.dtype) if target is None else target
        self._file(shard).read_into(tokens, index.tokens_at + start * self.layout.dtype.itemsize)
        return tokens


def _row_batch(tokens: npt.NDArray[Any], index: BatchIndex, first: int) -> RowBatch:
    """The rows of a record batch from its row `first` on."""
    offsets = index.token_offsets[first:] - index.token_offsets[first]
    seq_offsets = index.offsets[first:]
    return RowBatch(
        tokens,
        offsets,
        index.seq_lengths[seq_offsets[0] : seq_offsets[-1]],
        seq_offsets - seq_offsets[0],
    )


def part_of(path: str | Path, manifest: Manifest, split: str) -> DatasetPart:
    """The rows of a split; what was not split is all `train`."""
    if manifest.dataset is None:
        raise InputError(
            f"`{path}` holds documents but no token rows",
            hint="prepare it with `output: tokens` or `output: both`",
        )
    parts = {part.split or "train": part for part in manifest.parts}
    if split not in parts:
        hint = "set `preprocess.split.validation` to write one" if split == "validation" else None
        names = ", ".join(f"`{name}`" for name in parts)
        raise InputError(f"`{path}` has no split `{split}`: it has {names}", hint=hint)
    return parts[split]


def row_numbers(key: Sequence[int] | npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """A list or array of rows as one of int64; TypeError for anything but integers."""
    rows = np.asarray(key)
    if rows.size == 0:
        return np.empty(0, dtype=np.int64)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise TypeError(f"rows are chosen by integers, slices or lists of integers, not by {rows.dtype}")
    return rows.astype(np.int64, copy=False)


def _consecutive(rows: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Half-open ranges of row numbers that follow each other, in the order asked for."""
    if len(rows) == 0:
        return
    breaks = np.flatnonzero(np.diff(rows) != 1) + 1
    for start, end in zip([0, *breaks.tolist()], [*breaks.tolist(), len(rows)], strict=True):
        first = int(rows[start])
        yield first, first + end - start
