"""Rows of a dataset of Krill's that is elsewhere.

Comes in: a URL and the manifest that is there. Goes out: a `RowSource`. A shard is fetched into the cache
when the first of its rows is asked for, its size and checksum held against the manifest; from then on rows
are read as those of a dataset on this machine. What lies together is a shard, so that shuffling needs few of
them at a time: the order is another one than that of a copy on this machine, and so is the fingerprint.
Held in memory: what `ours.py` says.
"""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from krill import _native
from krill.dataset.dataset_files import fingerprint
from krill.dataset.fields import Fields
from krill.dataset.manifest import MANIFEST_NAME, Manifest
from krill.dataset.reader import part_of
from krill.dataset.row_batch import RowBatch
from krill.errors import InputError
from krill.loading.foreign.remote import RemoteFiles, Shard
from krill.loading.foreign.shard_cache import ShardCache
from krill.loading.ours import ShardTable

# A file of a cache that several processes fill may be dropped between fetching and opening it.
_TRIES = 5


class RemoteKrillRows:
    """A `RowSource` over a URL."""

    def __init__(
        self, url: str, manifest: bytes, cache: ShardCache, *, split: str = "train", cache_bytes: int
    ) -> None:
        part = part_of(url, _parsed(url, manifest), split)
        folder = "/".join([url.rstrip("/"), *([part.split] if part.split else [])])
        shards = [
            Shard(f"{folder}/{each.file}", each.bytes, each.sha256, checked=True) for each in part.shards
        ]
        self.name = url
        self.tokens = part.tokens
        self.sources = part.sources
        self.fingerprint = f"{fingerprint(part.layout, part.shards)}-by-shard"
        self.rows = part.rows
        self.width = part.layout.sequence_len
        self.fixed = part.layout.fixed
        self.dtype: np.dtype[Any] = part.layout.dtype
        self.block_rows = max(shard.rows for shard in part.shards)
        self._files = RemoteFiles(shards, cache)
        self._cache = cache
        self._cache_bytes = cache_bytes
        paths = tuple(str(cache.folder / shard.key) for shard in shards)
        self._table = replace(ShardTable.of(Path(), part), paths=paths)
        self._opened: tuple[tuple[int, int], _native.ShardRows] | None = None

    @property
    def held_bytes(self) -> int:
        return self._table.nbytes + self._cache_bytes

    def read(self, rows: npt.NDArray[np.int64]) -> RowBatch:
        shards = np.unique(np.searchsorted(self._table.row_starts, rows, side="right") - 1).tolist()
        for attempt in count(1):
            for shard in shards:
                self._files.path(shard)
            try:
                tokens, offsets, seq_lengths, seq_offsets = self._reader().gather(rows)
                break
            except _native.UnreadableFile as error:
                shard, reason = error.args
                if Path(self._table.paths[shard]).exists():
                    raise InputError(
                        f"`{self._table.paths[shard]}`, fetched from `{self._files.names[shard]}`, {reason}",
                        hint="remove the file; it will be fetched again",
                    ) from None
                if attempt == _TRIES:
                    raise self._cache.cannot_hold(len(shards), self.name) from None
        return RowBatch(tokens.view(self.dtype), offsets, seq_lengths, seq_offsets)

    def close(self) -> None:
        """Let go of files; they are opened again when rows are asked for."""
        self._opened = None

    def _reader(self) -> _native.ShardRows:
        """This process's own, made anew when the cache has dropped something: an open file keeps its room."""
        version = (os.getpid(), self._cache.last_drop())
        opened = self._opened
        if opened is None or opened[0] != version:
            opened = self._opened = (version, self._table.open(self._cache_bytes, mapped=False))
        return opened[1]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": None}


def _parsed(url: str, manifest: bytes) -> Manifest:
    source = f"{url.rstrip('/')}/{MANIFEST_NAME}"
    try:
        return Manifest.from_fields(Fields(orjson.loads(manifest), source=source))
    except orjson.JSONDecodeError as error:
        raise InputError(
            f"`{source}` is not valid JSON: {error}", hint="copy the dataset to the server again"
        ) from None
