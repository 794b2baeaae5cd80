"""The persistent index: what earlier finished runs kept, so that others drop it.

In: the hashes or bands of a run's documents and which of them were kept. Out: files of such numbers, one
*generation* for each finished run. Held in memory: one block of them.

The folder has `krill-index.json` (version and kind), and for each run that finished `IDENTITY.generation`:
the raw numbers of what it kept. A generation is written in two steps, since it must not count before the
run's own output is in place. `prepare` leaves it, whole and synced, as `IDENTITY.pending`; `commit` renames
it. A run that dies before `prepare` is through leaves a temporary name that everybody ignores and the next
`prepare` removes; one that dies before `commit` is helped by `adopt`. Only names that end in `.generation`
are ever seen by others.

A run never sees its own generation: the same config gives the same output again. A folder of
something else is refused before anything in it is touched. One process writes at a time.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from krill.dedup.minhash import HASH_VERSION, MinHash
from krill.dedup.streams import HASH_BYTES, bytes_of, number_blocks, records_in
from krill.errors import ConfigError, StorageError
from krill.storage.atomic import atomic_writer, fsync_dir, storage_errors, sweep_temporaries, write_json
from krill.storage.commits import damaged, reading_artifact
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
_GENERATION = ".generation"
_PENDING = ".pending"
_BLOCK_RECORDS = 16_384


def hash_kind(level: str) -> str:
    """The kind of an index of 128-bit hashes: exact and Bloom dedup share it."""
    return f"hashes-{level}-v1"


def minhash_kind(minhash: MinHash) -> str:
    return f"minhash-ngram{minhash.ngram}-bands{minhash.bands}-rows{minhash.rows}-v{HASH_VERSION}"


def record_bytes(kind: str) -> int:
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
        """One process writes at a time, so that what is half-written belongs to none that is alive."""
        with storage_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._check_foreign()
            lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        with _held(lock, fcntl.LOCK_EX):
            yield

    @contextmanager
    def read_locked(self) -> Iterator[None]:
        """No process writes meanwhile; in a folder that can't be written, none does anyway."""
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
        described: dict[str, Any] = {"version": _VERSIONS[self._storage], "kind": kind}
        if self._storage != "files":
            described["storage"] = self._storage
        write_json(self.path / DESCRIPTION, described)

    def description(self) -> dict[str, Any] | None:
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
                    f"`{self.path}` holds `{entry.name}` and is not an index of duplicates: nothing in it was"
                    " touched",
                    hint="set `preprocess.dedup_cache_dir` to another folder",
                )


def _marker_in(entry: Path) -> str | None:
    """A marker of the original tool: an empty file named by a hash, in a folder named by its first digits."""
    inside = entry.iterdir() if entry.is_dir() and _MARKER_FOLDER.fullmatch(entry.name) else [entry]
    return next((file.name for file in inside if _MARKER.fullmatch(file.stem)), None)


@dataclass(frozen=True, slots=True)
class IndexGeneration:
    name: str
    path: Path
    records: int


@dataclass(frozen=True, slots=True)
class Pending:
    """What a run kept, written to an index and not yet visible to other runs."""

    adopt: Callable[[str], bool]
    identity: str

    def commit(self) -> None:
        self.adopt(self.identity)


class DedupIndex:
    """The index in `folder`, which is made with its first generation."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._folder = IndexFolder(folder, "files")

    def pin(self, kind: str, identity: str) -> list[IndexGeneration]:
        """What other runs have kept so far, in the order of their names. Refuses a folder of another kind."""
        size = record_bytes(kind)
        if not self._folder.check(kind):
            return []
        with storage_errors(self.folder):
            paths = sorted(self.folder.glob("*" + _GENERATION))
        return [_generation(path, size) for path in paths if path.stem != identity]

    def pinned(self, names: Sequence[str]) -> list[IndexGeneration]:
        found = []
        for name in names:
            path = self.folder / name
            if Path(name).name != name or not path.is_file():
                raise StorageError(
                    f"`{path}`, which this run was begun with, is gone from the index of duplicates",
                    hint="put it back, or start anew with --overwrite",
                )
            kind = (self._folder.description() or {}).get("kind")
            found.append(_generation(path, record_bytes(str(kind))))
        return found

    def prepare(self, kind: str, identity: str, files: Sequence[Path], keep_files: Sequence[Path]) -> Pending:
        """Write what was kept, whole and synced, not yet visible to other runs. `files` hold the hashes or
        bands of each unit, `keep_files` its keep bits."""
        size = record_bytes(kind)
        path = self._path(identity, _PENDING)
        with self._folder.locked():
            sweep_temporaries(self.folder)
            if not self._folder.check(kind):
                self._folder.describe(kind)
            with atomic_writer(path) as out:
                for file, keep_file in zip(files, keep_files, strict=True):
                    for kept in kept_blocks(file, keep_file, size):
                        out.write(bytes_of(kept))
        return Pending(self.adopt, identity)

    def adopt(self, identity: str) -> bool:
        """Make what a run has prepared visible, also after it died; returns whether there was anything."""
        path = self._path(identity, _PENDING)
        if not path.is_file():
            return False
        with storage_errors(path):
            path.replace(path.with_suffix(_GENERATION))
        fsync_dir(path.parent)
        return True

    def _path(self, identity: str, suffix: str) -> Path:
        return self.folder / (check_identity(identity) + suffix)


def _generation(path: Path, size: int) -> IndexGeneration:
    return IndexGeneration(path.name, path, records_in(path, size))


def kept_blocks(file: Path, keep_file: Path, size: int) -> Iterator[NDArray[np.uint64]]:
    count = records_in(file, size)
    with reading_artifact(keep_file):
        bits = np.fromfile(keep_file, np.uint8)
    if len(bits) != -(-count // 8):
        raise damaged(keep_file, f"has `{len(bits)}` bytes for `{count}` documents")
    width = size // 8
    first = 0
    for numbers in number_blocks([file], _BLOCK_RECORDS * width):
        rows = numbers.reshape(-1, width)
        part = bits[first // 8 : -(-(first + len(rows)) // 8)]
        yield rows[np.unpackbits(part, count=len(rows), bitorder="little").view(bool)]
        first += len(rows)
