"""Rows of a dataset that Krill wrote.

Comes in: a folder. Goes out: rows by number, each batch in one native call. Opening reads the manifest and
looks at the size of each shard, so that a missing or torn one is known before training begins and not hours
into it. Held in memory: eight bytes for each record batch (a mebibyte of tokens), the shards' paths, and
the indexes of recently used record batches and some memory for batches to come, `cache_bytes` in all. A
dataset of at most `mapped_bytes` is mapped, and the pages that were read count as memory, though the system
takes them back when it needs to; of a larger one, no tokens are held.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from krill import _native
from krill.dataset.dataset_files import fingerprint
from krill.dataset.layout import Layout
from krill.dataset.manifest import DatasetPart, Manifest, SourceRows
from krill.dataset.reader import part_of
from krill.dataset.row_batch import RowBatch
from krill.dataset.shard import ShardInfo
from krill.errors import InputError
from krill.storage.checksums import DAMAGED_HINT, check_file

OnMissing = Literal["fail", "skip"]

_SKIP_HINT = f'{DAMAGED_HINT}; `on_missing="skip"` leaves its rows out'
# The share of the cache that is memory of batches that ended, for the next ones: a batch of 32 rows of 2,048
# takes an eighth of a megabyte.
_POOL_SHARE = 4
# The most that a worker gets of the cache: a few kilobytes for each of the record batches of a window, which
# are some hundreds. Without this, many workers would hold many times what was planned for one process.
_WORKER_CACHE = 4_000_000
# Of the table, for each shard: its path twice (here and in the native part) and a few numbers.
_BYTES_PER_SHARD = 1000


@dataclass(frozen=True)
class ShardTable:
    """What the native reader needs of a manifest, small enough to be sent to other processes."""

    paths: tuple[str, ...]
    checksums: tuple[str, ...]
    sizes: npt.NDArray[np.int64]
    row_starts: npt.NDArray[np.int64]
    batch_offsets: npt.NDArray[np.int64]
    layout: Layout

    @classmethod
    def of(cls, folder: Path, part: DatasetPart) -> ShardTable:
        shards = part.shards
        return cls(
            tuple(f"{folder}{os.sep}{shard.file}" for shard in shards),
            tuple(shard.sha256 for shard in shards),
            np.array([shard.bytes for shard in shards], np.int64),
            np.array([0, *accumulate(shard.rows for shard in shards)], np.int64),
            np.concatenate([np.empty(0, np.int64), *(np.array(s.batches, np.int64) for s in shards)]),
            part.layout,
        )

    @property
    def nbytes(self) -> int:
        """Here and in the native part, which has its own."""
        return 2 * self.batch_offsets.nbytes + _BYTES_PER_SHARD * len(self.paths)

    def open(self, cache_bytes: int, mapped: bool = False) -> _native.ShardRows:
        return _native.ShardRows(
            [os.fsencode(path) for path in self.paths],
            self.sizes,
            self.row_starts,
            self.batch_offsets,
            self.layout.rows_per_batch,
            self.layout.sequence_len,
            self.layout.dtype.itemsize,
            self.layout.fixed,
            cache_bytes - cache_bytes // _POOL_SHARE,
            mapped,
            _native.BlockPool(cache_bytes // _POOL_SHARE),
        )


class KrillRows:
    """A `RowSource` over a folder of Krill's. `skipped_rows` counts what `on_missing="skip"` left out."""

    def __init__(
        self,
        path: str | Path,
        *,
        split: str = "train",
        cache_bytes: int = 8_000_000,
        mapped_bytes: int = 0,
        verify: bool = False,
        on_missing: OnMissing = "fail",
    ) -> None:
        folder = Path(path)
        part = part_of(folder, Manifest.load(folder), split)
        present = _present_shards(part.folder(folder), part.shards, on_missing)
        self.name = str(path)
        self.skipped_rows = part.rows - sum(shard.rows for shard in present)
        self.sources = _sources_of_present(part, present)
        part = replace(part, shards=tuple(present), sources=self.sources)
        self.tokens = part.tokens
        self.fingerprint = fingerprint(part.layout, part.shards)
        self._table = ShardTable.of(part.folder(folder), part)
        self._cache_bytes = cache_bytes
        self._verify = verify
        self._mapped = int(self._table.sizes.sum()) <= mapped_bytes
        self._home: int | None = os.getpid()
        self._opened: tuple[int, _native.ShardRows] | None = None
        self._begin()

    @property
    def rows(self) -> int:
        return int(self._table.row_starts[-1])

    @property
    def width(self) -> int:
        return self._table.layout.sequence_len

    @property
    def fixed(self) -> bool:
        return self._table.layout.fixed

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._table.layout.dtype

    @property
    def block_rows(self) -> int:
        return self._table.layout.rows_per_batch

    @property
    def held_bytes(self) -> int:
        mapped = int(self._table.sizes.sum()) if self._mapped else 0
        return self._table.nbytes + self._cache_bytes + mapped

    def read(self, rows: npt.NDArray[np.int64]) -> RowBatch:
        """Rows in the order asked for."""
        if self._verify and len(self._verified) < len(self._table.paths):
            self._verify_shards_of(rows)
        try:
            tokens, offsets, seq_lengths, seq_offsets = self._reader().gather(rows)
        except _native.UnreadableFile as error:
            shard, reason = error.args
            raise InputError(f"`{self._table.paths[shard]}` {reason}", hint=DAMAGED_HINT) from None
        return RowBatch(tokens.view(self._table.layout.dtype), offsets, seq_lengths, seq_offsets)

    def close(self) -> None:
        """Let go of files and cache; they are opened again when rows are asked for."""
        self._opened = None

    def __getstate__(self) -> dict[str, Any]:
        kept = (
            "name",
            "skipped_rows",
            "sources",
            "tokens",
            "fingerprint",
            "_table",
            "_cache_bytes",
            "_verify",
        )
        return {name: self.__dict__[name] for name in kept} | {"_mapped": False, "_home": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def _begin(self) -> None:
        self._opened = None
        self._verified: set[int] = set()
        self._verifying = Lock()

    def _reader(self) -> _native.ShardRows:
        """This process's own: after a fork, what the parent opened may be locked for ever.

        Only the process that opened the dataset maps it and has the whole cache: workers make batches side
        by side, and are not to hold the dataset, or seem to, as often as there are of them.
        """
        opened, here = self._opened, os.getpid()
        if opened is None or opened[0] != here:
            if self._home == here:
                reader = self._table.open(self._cache_bytes, mapped=self._mapped)
            else:
                reader = self._table.open(min(self._cache_bytes, _WORKER_CACHE))
            opened = self._opened = (here, reader)
        return opened[1]

    def _verify_shards_of(self, rows: npt.NDArray[np.int64]) -> None:
        """Each shard once, when the first of its rows is read."""
        shards = np.unique(np.searchsorted(self._table.row_starts, rows, side="right") - 1)
        with self._verifying:
            for shard in shards.tolist():
                if shard not in self._verified:
                    check_file(self._table.paths[shard], self._table.checksums[shard])
                    self._verified.add(shard)


def _present_shards(folder: Path, shards: tuple[ShardInfo, ...], on_missing: OnMissing) -> list[ShardInfo]:
    """The shards that are there, whole by their size; without `skip`, a missing one is an error."""
    sizes = _sizes_in(folder)
    present = [shard for shard in shards if sizes.get(shard.file) == shard.bytes]
    if on_missing == "fail" and len(present) < len(shards):
        shard = next(shard for shard in shards if sizes.get(shard.file) != shard.bytes)
        size = sizes.get(shard.file)
        if size is None:
            problem = "is missing, but the manifest names it"
        else:
            state = "truncated" if size < shard.bytes else "too long"
            problem = f"is {state}: it has {size} bytes, and the manifest says {shard.bytes}"
        raise InputError(f"`{folder / shard.file}` {problem}", hint=_SKIP_HINT)
    return present


def _sizes_in(folder: Path) -> dict[str, int]:
    """The bytes of each file, from one look at the folder."""
    sizes = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # a link to nothing
                    sizes[entry.name] = entry.stat().st_size
    except FileNotFoundError:  # the folder of a split
        return {}
    except OSError as error:
        raise InputError(
            f"cannot read `{folder}`: {error.strerror}", hint="check the folder's permissions"
        ) from error
    return sizes


def _sources_of_present(part: DatasetPart, present: list[ShardInfo]) -> tuple[SourceRows, ...]:
    """The rows of weighted sources after shards were left out. No shard has rows of two sources."""
    if len(present) == len(part.shards):
        return part.sources
    here = {shard.file for shard in present}
    sources, first = [], 0
    for source in part.sources:
        end = source.first + source.rows
        row, rows = 0, 0
        for shard in part.shards:
            if source.first <= row < end and shard.file in here:
                rows += shard.rows
            row += shard.rows
        tokens = source.tokens * rows // max(1, source.rows)
        sources.append(replace(source, first=first, rows=rows, tokens=tokens))
        first += rows
    return tuple(sources)
