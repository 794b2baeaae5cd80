"""The folder of a persistent index: what it holds, of which kind, in which form, and who writes now.

`krill-index.json` says the version, the kind of numbers, and for a database which one. A folder of something
else is refused before anything in it is touched. One process writes at a time.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

from krill.dedup.minhash import HASH_VERSION, MinHash
from krill.dedup.streams import HASH_BYTES
from krill.errors import ConfigError, StorageError
from krill.storage.atomic import storage_errors, write_json
from krill.storage.input_file import read_json

Storage = Literal["files", "sqlite", "duckdb"]

DESCRIPTION: Final = "krill-index.json"
DATABASES: Final[dict[str, str]] = {"sqlite": "index.sqlite", "duckdb": "index.duckdb"}
_LOCK: Final = ".lock"
# Databases came later: who knows of files alone must not take one for an empty index.
_VERSIONS: Final[dict[Storage, int]] = {"files": 1, "sqlite": 2, "duckdb": 2}
_KIND = re.compile(
    r"(?:hashes-(?:document|paragraph|line)|minhash-ngram\d+-bands(?P<bands>\d+)-rows\d+)-v\d+"
)
_IDENTITY = re.compile(r"[0-9A-Za-z_-]{1,128}")
_MARKER = re.compile(r"[0-9a-f]{32}")
_MARKER_FOLDER = re.compile(r"[0-9a-f]{2}")


def hash_kind(level: str) -> str:
    """The kind of an index of 128-bit hashes: exact and Bloom dedup share it."""
    return f"hashes-{level}-v1"


def minhash_kind(minhash: MinHash) -> str:
    """The kind of an index of bands."""
    return f"minhash-ngram{minhash.ngram}-bands{minhash.bands}-rows{minhash.rows}-v{HASH_VERSION}"


def record_bytes(kind: str) -> int:
    """The bytes of what is kept of a document."""
    found = _KIND.fullmatch(kind)
    if found is None:
        raise ValueError(f"not a kind of index: {kind!r}")
    return HASH_BYTES if found["bands"] is None else 8 * int(found["bands"])


def check_identity(identity: str) -> str:
    """A run's identity, which becomes a name."""
    if not _IDENTITY.fullmatch(identity):
        raise ValueError(f"not an identity: {identity!r}")
    return identity


def storage_of(folder: str | Path) -> Storage | None:
    """The form of the index that a folder holds; None if it holds none."""
    path = Path(folder) / DESCRIPTION
    if not path.is_file():
        return None
    found = IndexFolder(folder, "files").description() or {}
    storage = found.get("storage", "files")
    return next((known for known in _VERSIONS if known == storage), "files")


@contextmanager
def _held(lock: int, operation: int) -> Iterator[None]:
    try:
        fcntl.flock(lock, operation)
        yield
    finally:
        os.close(lock)


class IndexFolder:
    """A folder that holds an index in the form `storage`, or will."""

    def __init__(self, path: str | Path, storage: Storage) -> None:
        self.path = Path(path)
        self._storage = storage

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One process writes at a time, so that what lies around half-written is nobody's."""
        with storage_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._check_foreign()
            lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        with _held(lock, fcntl.LOCK_EX):
            yield

    @contextmanager
    def read_locked(self) -> Iterator[None]:
        """Nobody writes meanwhile; in a folder that can't be written, nobody does anyway."""
        try:
            lock = os.open(self.path / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            yield
            return
        with _held(lock, fcntl.LOCK_SH):
            yield

    def check(self, kind: str) -> bool:
        """Whether there is an index of this kind; refuses one of another kind, form or version, and other
        folders."""
        if not self.path.exists():
            return False
        self._check_foreign()
        found = self.description()
        if found is None:
            return False
        storage = found.get("storage", "files")
        version = next((_VERSIONS[known] for known in _VERSIONS if known == storage), None)
        if version is None or found.get("version") != version:
            raise StorageError(
                f"the index of duplicates `{self.path}` has version `{found.get('version')}`,"
                f" this Krill reads version `{version or max(_VERSIONS.values())}`",
                hint="set `preprocess.dedup_cache_dir` to another folder, or use the Krill that made it",
            )
        if found.get("kind") == kind and storage == self._storage:
            return True
        if not self._holds_anything():
            return False  # all that is left of a run that died before it had anything to add
        if found.get("kind") == kind:
            raise ConfigError(
                f"`preprocess.dedup_cache_dir` `{self.path}` holds an index in the form `{storage}`, and"
                f" `preprocess.dedup.index` is `{self._storage}`",
                hint=f"set `preprocess.dedup_cache_dir` to another folder, or `preprocess.dedup.index` to"
                f" `{storage}`",
            )
        raise ConfigError(
            f"`preprocess.dedup_cache_dir` `{self.path}` holds an index of the kind"
            f" `{found.get('kind')}`, and this config makes `{kind}`",
            hint="set `preprocess.dedup_cache_dir` to another folder, or `preprocess.dedup` as it was",
        )

    def describe(self, kind: str) -> None:
        """Say what the folder holds from now on."""
        described: dict[str, Any] = {"version": _VERSIONS[self._storage], "kind": kind}
        if self._storage != "files":
            described["storage"] = self._storage
        write_json(self.path / DESCRIPTION, described)

    def description(self) -> dict[str, Any] | None:
        """What the folder says of itself."""
        path = self.path / DESCRIPTION
        try:
            found = read_json(path)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise StorageError(
                f"`{path}` can't be read: {error}",
                hint="set `preprocess.dedup_cache_dir` to another folder",
            ) from None
        return found if isinstance(found, dict) else {}

    def _holds_anything(self) -> bool:
        return any(entry.name != DESCRIPTION and entry.name[0] != "." for entry in self.path.iterdir())

    def _check_foreign(self) -> None:
        """Refuse a folder that has no description and is not empty but for what we may have left
        ourselves."""
        if not self.path.is_dir():
            raise StorageError(
                f"`preprocess.dedup_cache_dir` `{self.path}` is not a folder", hint="choose another one"
            )
        if (self.path / DESCRIPTION).exists():
            return
        for entry in self.path.iterdir():
            marker = _marker_in(entry)
            if marker is not None:
                raise StorageError(
                    f"`{self.path}` is a cache of MD5 marker files (such as `{marker}`) of the original"
                    " tool, whose hashes are not Krill's: nothing in it was touched",
                    hint="set `preprocess.dedup_cache_dir` to another folder, and name the earlier documents"
                    " under `preprocess.dedup.against`",
                )
            if not entry.name.startswith("."):
                raise StorageError(
                    f"`{self.path}` holds `{entry.name}` and is no index of duplicates: nothing in it was"
                    " touched",
                    hint="set `preprocess.dedup_cache_dir` to another folder",
                )


def _marker_in(entry: Path) -> str | None:
    """A marker of the original tool: an empty file named by a hash, in a folder named by its first digits."""
    inside = entry.iterdir() if entry.is_dir() and _MARKER_FOLDER.fullmatch(entry.name) else [entry]
    return next((file.name for file in inside if _MARKER.fullmatch(file.stem)), None)
