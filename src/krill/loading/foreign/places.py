"""A folder, file or glob, on this machine or elsewhere: what is there, and its files.

Comes in: a path or URL. Goes out: small files as bytes, names of data files, and `RowFiles` of them. Held in
memory: the names.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from krill.errors import InputError
from krill.loading.foreign.remote import RemoteFiles, Shard, list_files, names_files, read_small
from krill.loading.foreign.row_files import LocalFiles, RowFiles, reading
from krill.loading.foreign.shard_cache import ShardCache
from krill.storage.input_file import MOST_MANIFEST, read_input


class Place(Protocol):
    """Where a dataset may be."""

    name: str

    def read(self, name: str) -> bytes | None:
        """All of a small file of this folder; None if it is not there."""

    def inside(self, name: str) -> Place:
        """A folder of this folder."""

    def within(self, names: Sequence[str]) -> list[str]:
        """Paths or URLs of files of this folder."""

    def find(self, suffixes: tuple[str, ...]) -> list[str]:
        """Sorted paths or URLs of what is meant: the file itself, what matches, or what is in the folder."""

    def files(self, paths: Sequence[str]) -> RowFiles:
        """These files, in this order."""


class LocalPlace:
    """A path of this machine."""

    def __init__(self, path: str) -> None:
        self.name = path
        self._path = Path(path).expanduser()
        if not (self._path.exists() or glob.has_magic(path)):
            raise InputError(
                f"no such file or folder: `{path}`", hint="give a dataset's folder, Parquet files, or a URL"
            )

    def read(self, name: str) -> bytes | None:
        path = self._path / name
        if not self._path.is_dir() or not path.exists():
            return None
        with reading(str(path)):
            return read_input(path, MOST_MANIFEST)

    def inside(self, name: str) -> LocalPlace:
        return LocalPlace(str(self._path / name))

    def within(self, names: Sequence[str]) -> list[str]:
        return [str(self._path / name) for name in names]

    def find(self, suffixes: tuple[str, ...]) -> list[str]:
        if self._path.is_dir():
            paths = [str(path) for path in self._path.rglob("[!.]*")]
        else:
            paths = glob.glob(str(self._path), recursive=True)  # noqa: PTH207  it may be absolute
        return sorted(path for path in paths if path.lower().endswith(suffixes))

    def files(self, paths: Sequence[str]) -> RowFiles:
        return LocalFiles(paths)


class RemotePlace:
    """A URL. Whole files come through the cache."""

    def __init__(self, url: str, cache: ShardCache) -> None:
        self.name = url
        self._cache = cache

    def read(self, name: str) -> bytes | None:
        return None if names_files(self.name) else read_small(f"{self._folder}/{name}")

    def inside(self, name: str) -> RemotePlace:
        return RemotePlace(f"{self._folder}/{name}", self._cache)

    def within(self, names: Sequence[str]) -> list[str]:
        return [f"{self._folder}/{name}" for name in names]

    def find(self, suffixes: tuple[str, ...]) -> list[str]:
        return list_files(self.name, suffixes)

    def files(self, paths: Sequence[str]) -> RowFiles:
        return RemoteFiles([Shard.look_up(url) for url in paths], self._cache)

    @property
    def _folder(self) -> str:
        return self.name.rstrip("/")
