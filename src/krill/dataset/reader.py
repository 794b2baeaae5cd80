"""Rows of a dataset that Krill wrote, through the native reader.

In: a folder, row numbers. Out: rows, each batch in one native call: a row is found by arithmetic (shard by
bisection, batch by division, offset from the manifest), and its tokens are read straight into the result.
Held in memory: eight bytes for each record batch (a mebibyte of tokens), the shards' paths, at most 256 open
files, and the offsets and `seq_lengths` of recently used record batches and some memory for batches to come,
`cache_bytes` in all. Shards of at most `mapped_bytes` together are mapped, and the pages that were read count
as memory, though the system takes them back when it needs to; of more, no tokens are held.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from krill import _native
from krill.dataset.dataset_files import fingerprint
from krill.dataset.manifest import DatasetPart, Manifest
from krill.dataset.rows import ArrayList, RowBatch, RowKey, select_rows
from krill.dataset.shard_file import ShardFile, VerifiedReads
from krill.errors import InputError
from krill.storage.input_file import ClosedOnExit
from krill.storage.outputs import DAMAGED_HINT, check_file

# The share of the cache that is memory of batches that ended, for the next ones: a batch of 32 rows of 2,048
# takes an eighth of a megabyte.
_POOL_SHARE = 4
# The most that a worker gets of the cache: a few kilobytes for each of the record batches of a window, which
# are some hundreds. Without this, many workers would hold many times what was planned for one process.
_WORKER_CACHE = 4_000_000
# For each shard: its path twice (here and in the native part) and a few numbers.
_BYTES_PER_SHARD = 1000


class ShardReader:
    """A `RowSource` over the shards of one split. Of the manifest it keeps what the native reader needs,
    which is small enough to be sent to other processes.

    With `verify`, a shard is held against its checksum when the first of its rows is read.
    """

    def __init__(
        self,
        name: str,
        part: DatasetPart,
        paths: Sequence[str],
        *,
        cache_bytes: int,
        mapped_bytes: int = 0,
        verify: bool = False,
        skipped_rows: int = 0,
    ) -> None:
        shards = part.shards
        self.name = name
        self.layout = part.layout
        self.sources = part.sources
        self.rows = part.rows
        self.tokens = part.tokens
        self.width = part.layout.sequence_len
        self.fixed = part.layout.fixed
        self.dtype = part.layout.dtype
        self.token_bytes = part.layout.token_bytes
        self.block_rows = part.layout.rows_per_batch
        self.fingerprint = fingerprint(part.layout, shards)
        self.skipped_rows = skipped_rows
        self.paths = tuple(paths)
        self.row_starts = np.array([0, *accumulate(shard.rows for shard in shards)], np.int64)
        self.batch_offsets = np.concatenate(
            [np.empty(0, np.int64), *(np.array(shard.batches, np.int64) for shard in shards)]
        )
        self._sizes = np.array([shard.bytes for shard in shards], np.int64)
        self._checksums = tuple(shard.sha256 for shard in shards)
        self._cache_bytes = cache_bytes
        self._mapped = int(self._sizes.sum()) <= mapped_bytes
        self._verify = verify
        self._home: int | None = os.getpid()
        self._begin()

    def _begin(self) -> None:
        self._opened: tuple[int, _native.ShardRows] | None = None
        self._verified: set[int] = set()
        self._verifying = Lock()

    @property
    def held_bytes(self) -> int:
        mapped = int(self._sizes.sum()) if self._mapped else 0
        table = 2 * self.batch_offsets.nbytes + _BYTES_PER_SHARD * len(self.paths)
        return table + self._cache_bytes + mapped

    def read(self, rows: npt.NDArray[np.int64], *, with_tokens: bool = True) -> RowBatch:
        """Rows in the order asked for; without tokens, only their lengths are read."""
        if self._verify and len(self._verified) < len(self.paths):
            self._verify_shards_of(rows)
        try:
            return self.gather(rows, with_tokens=with_tokens)
        except _native.UnreadableFile as error:
            shard, reason = error.args
            raise InputError(f"`{self.paths[shard]}` {reason}", hint=DAMAGED_HINT) from None

    def gather(self, rows: npt.NDArray[np.int64], *, with_tokens: bool = True) -> RowBatch:
        """The same, unverified; `_native.UnreadableFile` with the number of a shard and what is wrong."""
        tokens, labels, offsets, seq_lengths, seq_offsets = self.native().gather(rows, with_tokens)
        own = labels if self.layout.labels else None
        return RowBatch(tokens.view(self.layout.dtype), offsets, seq_lengths, seq_offsets, own)

    def native(self) -> _native.ShardRows:
        """This process's own reader: after a fork, what the parent opened may be locked for ever.

        Only the process that opened the dataset maps it and has the whole cache: workers make batches side by
        side, and are not to hold the dataset, or seem to, as often as there are of them.
        """
        opened, here = self._opened, os.getpid()
        if opened is None or opened[0] != here:
            at_home = self._home == here
            cache_bytes = self._cache_bytes if at_home else min(self._cache_bytes, _WORKER_CACHE)
            reader = _native.ShardRows(
                [os.fsencode(path) for path in self.paths],
                self._sizes,
                self.row_starts,
                self.batch_offsets,
                self.layout.rows_per_batch,
                self.layout.sequence_len,
                self.layout.dtype.itemsize,
                self.layout.fixed,
                self.layout.more_columns,
                cache_bytes - cache_bytes // _POOL_SHARE,
                self._mapped and at_home,
                _native.BlockPool(cache_bytes // _POOL_SHARE),
            )
            opened = self._opened = (here, reader)
        return opened[1]

    def shards_of(self, rows: npt.NDArray[np.int64]) -> list[int]:
        found: list[int] = np.unique(np.searchsorted(self.row_starts, rows, side="right") - 1).tolist()
        return found

    def close(self) -> None:
        """Close files and drop the cache; they are opened again when rows are asked for."""
        self._opened = None

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in self.__dict__.items() if name != "_verifying"}
        return kept | {"_mapped": False, "_home": None, "_opened": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def _verify_shards_of(self, rows: npt.NDArray[np.int64]) -> None:
        with self._verifying:
            for shard in self.shards_of(rows):
                if shard not in self._verified:
                    check_file(self.paths[shard], self._checksums[shard])
                    self._verified.add(shard)


class Dataset(ClosedOnExit):
    """A prepared dataset: `len(dataset)`, `dataset[-1]`, `dataset[10:20]`, `dataset[[5, 1, 5]]`.

    One row is `{"input_ids": array, "seq_lengths": array}`; several rows are `{"input_ids": array[rows,
    sequence_len], "seq_lengths": [array, ...]}`, where `input_ids` is a list of arrays too if rows vary in
    length (`layout.fixed` says). Opening reads the manifest and nothing else. Safe to use from several
    threads.
    """

    def __init__(self, path: str | Path, *, split: str = "train", cache_bytes: int = 8_000_000) -> None:
        self.path = Path(path)
        self.manifest = Manifest.load(self.path)
        self.part = part_of(self.path, self.manifest, split)
        self.layout = self.part.layout
        self.shards = self.part.shards
        self.reader = ShardReader(
            str(self.path), self.part, self.part.paths(self.path), cache_bytes=cache_bytes
        )

    def __len__(self) -> int:
        return self.reader.rows

    def __getitem__(self, key: RowKey) -> dict[str, Any]:
        found = select_rows(self.reader, key)
        return {name: list(value) if isinstance(value, ArrayList) else value for name, value in found.items()}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[row] for row in range(len(self)))

    def batch_ranges(self) -> Iterator[tuple[int, int]]:
        """The first row of each record batch, and where it ends."""
        per_batch = self.layout.rows_per_batch
        for start, end in pairwise(self.reader.row_starts.tolist()):
            for first in range(start, end, per_batch):
                yield first, min(first + per_batch, end)

    def batches(self, start: int = 0) -> Iterator[RowBatch]:
        """All rows from `start` on, a record batch at a time; the caller owns the arrays."""
        if start < 0:
            raise IndexError(f"row {start} is out of range: `{self.path}` has {len(self)} rows")
        for first, end in self.batch_ranges():
            if end > start:
                yield self.reader.read(np.arange(max(first, start), end))

    def verified_batches(self) -> Iterator[RowBatch]:
        """All rows, a record batch at a time; an InputError after the last one of a shard whose checksum is
        not what the manifest says. The bytes of a batch are hashed right before it is read, so that the
        second read finds them in the page cache."""
        ranges = self.batch_ranges()
        for shard in self.shards:
            file = ShardFile(self.part.folder(self.path), shard)
            hashed = VerifiedReads(file)
            for batch, (first, end) in zip(range(len(shard.batches)), ranges, strict=False):
                hashed.hash_until(file.batch_end(batch))
                yield self.reader.read(np.arange(first, end))
            hashed.finish()

    def close(self) -> None:
        """Close files and drop the cache; the dataset can still be used and opens them again."""
        self.reader.close()


def part_of(path: str | Path, manifest: Manifest, split: str, *, hint: str | None = None) -> DatasetPart:
    """The rows of a split; what was not split is all `train`."""
    if manifest.dataset is None:
        raise InputError(
            f"`{path}` holds documents but no token rows",
            hint="prepare it with `output: tokens` or `output: both`",
        )
    parts = {part.split or "train": part for part in manifest.parts}
    if split not in parts:
        if hint is None and split == "validation":
            hint = "set `preprocess.split.validation` to write one"
        names = ", ".join(f"`{name}`" for name in parts)
        raise InputError(f"`{path}` has no split `{split}`: it has {names}", hint=hint)
    return parts[split]
