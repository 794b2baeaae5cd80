"""Remote datasets: any URL that fsspec knows.

In: URLs. Out: small files whole (`state.json`, a manifest), parts of files where the server gives them, and
whole shards through the cache on this machine's disk, fetched when first needed. What a URL gives must not
change while it is in use; a shard whose size or checksum is not what was promised is refused. Held in memory:
one chunk of 1 MiB while fetching, besides what the protocol's library holds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt
import orjson

from krill import _native
from krill.corpus.remote import RemoteFile, file_system, with_retries
from krill.dataset.fields import Fields
from krill.dataset.manifest import MANIFEST_NAME, Manifest
from krill.dataset.reader import ShardReader, part_of
from krill.dataset.rows import RowBatch
from krill.errors import InputError
from krill.loading.foreign.row_files import reading
from krill.loading.foreign.shard_cache import ShardCache
from krill.storage.atomic import AtomicFile
from krill.storage.input_file import open_regular

_CHUNK_BYTES = 1 << 20
_RANGE_BYTES = 1 << 16
_FILES = (".parquet", ".arrow", ".arrows", ".ipc", ".feather")
# A file of a cache that several processes fill may be dropped between fetching and opening it.
_TRIES = 5


def read_small(url: str) -> bytes | None:
    """All of a small file; None if there is none."""
    filesystem, path = _filesystem(url)

    def content() -> bytes | None:
        try:
            return bytes(filesystem.cat_file(path))
        except FileNotFoundError:
            return None

    return with_retries(url, content)


def names_files(url: str) -> bool:
    """Whether a URL is a file's or a glob, and not a folder's."""
    return _is_glob(url) or PurePosixPath(url).suffix.lower() in _FILES


def list_files(url: str, suffixes: tuple[str, ...]) -> list[str]:
    """URLs of the files that a URL means: itself, those that match it as a glob, or those in its folder."""
    if names_files(url) and not _is_glob(url):
        return [url]
    filesystem, path = _filesystem(url)
    found = with_retries(url, lambda: filesystem.glob(path) if _is_glob(url) else filesystem.find(path))
    names = sorted(name for name in found if name.lower().endswith(suffixes))
    return [str(filesystem.unstrip_protocol(name)) for name in names]


def _is_glob(url: str) -> bool:
    return any(mark in url for mark in "*?[")


def _filesystem(url: str) -> tuple[Any, str]:
    with reading(url):
        return file_system(url)


@dataclass(frozen=True)
class RemoteShard:
    """A remote file. `mark` identifies this version of it: the SHA-256 where a manifest states it (then
    `checked`), else whatever the server says."""

    url: str
    size: int
    mark: str
    checked: bool = False

    @classmethod
    def describe(cls, url: str) -> RemoteShard:
        filesystem, path = _filesystem(url)
        info = with_retries(url, lambda: filesystem.info(path))
        described = sorted((str(key), str(value)) for key, value in info.items())
        return cls(url, int(info.get("size") or 0), str(described))

    @property
    def key(self) -> str:
        """Its path in the cache, another one for another URL or version."""
        folder, _, name = self.url.rpartition("/")
        plain = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in name)
        version = hashlib.sha256(f"{self.url} {self.size} {self.mark}".encode()).hexdigest()
        origin = hashlib.sha256(folder.encode()).hexdigest()
        return f"{origin[:16]}/shard-{version[:16]}-{plain[-80:]}"


class RemoteRowFiles:
    """`RowFiles` that are fetched. Picklable."""

    fetched = True

    def __init__(self, shards: Sequence[RemoteShard], cache: ShardCache) -> None:
        self.names = [shard.url for shard in shards]
        self._shards = shards
        self._cache = cache

    def size(self, number: int) -> int:
        """As the server says; what says nothing is fetched to find out."""
        stated = self._shards[number].size
        if stated:
            return stated
        with reading(self.names[number]):
            return self.path(number).stat().st_size

    def mark(self, number: int) -> str:
        return self._shards[number].key

    def open_ranges(self, number: int) -> BinaryIO:
        """By ranges, or in the whole file if the server gives none."""
        url, size = self.names[number], self._shards[number].size
        if size:
            filesystem, path = _filesystem(url)
            with reading(url):
                opened = filesystem.open(path, "rb", block_size=_RANGE_BYTES)
                try:
                    opened.seek(size - 1)
                    if len(opened.read(1)) == 1:
                        return cast(BinaryIO, opened)
                except ValueError:  # how fsspec says that it can't read from there
                    opened.close()
        with reading(url):
            return open_regular(self.path(number))

    def path(self, number: int) -> Path:
        shard = self._shards[number]
        return self._cache.path(shard.key, lambda file: _fetch(shard, file), size=shard.size)


def _fetch(shard: RemoteShard, file: AtomicFile) -> None:
    """Copy a shard into the cache, a chunk at a time; anything short of the whole is an error."""
    digest = hashlib.sha256()
    with RemoteFile(shard.url, in_order=True) as source:
        while chunk := source.read(_CHUNK_BYTES):
            digest.update(chunk)
            file.write(chunk)
    if shard.size and file.tell() != shard.size:
        raise InputError(
            f"`{shard.url}` was not fetched whole: {file.tell():,} of {shard.size:,} bytes came",
            hint="try again",
        )
    if shard.checked and digest.hexdigest() != shard.mark:
        raise InputError(
            f"`{shard.url}` is not the file that the manifest names: its SHA-256 is `{digest.hexdigest()}`",
            hint="copy the dataset to the server again",
        )


class RemoteKrillRows(ShardReader):
    """The rows of a Krill dataset at a URL.

    A shard is fetched into the cache when the first of its rows is asked for, its size and checksum held
    against the manifest. A block is a shard, so that shuffling needs few of them at a time: the order is
    another one than that of a copy on this machine, and so is the fingerprint.
    """

    def __init__(
        self, url: str, manifest: bytes, cache: ShardCache, *, split: str = "train", cache_bytes: int
    ) -> None:
        part = part_of(url, _parsed(url, manifest), split)
        folder = "/".join([url.rstrip("/"), *([part.split] if part.split else [])])
        shards = [
            RemoteShard(f"{folder}/{shard.file}", shard.bytes, shard.sha256, checked=True)
            for shard in part.shards
        ]
        paths = [str(cache.folder / shard.key) for shard in shards]
        super().__init__(url, part, paths, cache_bytes=cache_bytes)
        self.fingerprint = f"{self.fingerprint}-by-shard"
        self.block_rows = max(shard.rows for shard in part.shards)
        self._files = RemoteRowFiles(shards, cache)
        self._cache = cache
        self._last_drop = 0

    def read(self, rows: npt.NDArray[np.int64], *, with_tokens: bool = True) -> RowBatch:
        shards = self.shards_of(rows)
        for attempt in count(1):
            for shard in shards:
                self._files.path(shard)
            if (dropped := self._cache.last_drop()) != self._last_drop:
                self._last_drop = dropped
                self.close()  # an open file would keep its room on the disk
            try:
                return self.gather(rows, with_tokens=with_tokens)
            except _native.UnreadableFile as error:
                shard, reason = error.args
                path = self.paths[shard]
                if Path(path).exists():
                    raise InputError(
                        f"`{path}`, fetched from `{self._files.names[shard]}`, {reason}",
                        hint="remove the file; it will be fetched again",
                    ) from None
                if attempt == _TRIES:
                    raise self._cache.cannot_hold(len(shards), self.name) from None
        raise AssertionError("the last attempt returns or raises")


def _parsed(url: str, manifest: bytes) -> Manifest:
    source = f"{url.rstrip('/')}/{MANIFEST_NAME}"
    try:
        return Manifest.from_fields(Fields(orjson.loads(manifest), source=source))
    except orjson.JSONDecodeError as error:
        raise InputError(
            f"`{source}` is not valid JSON: {error}", hint="copy the dataset to the server again"
        ) from None
