"""The persistent index: what earlier finished runs kept, so that others drop it.

In: the hashes or bands of a run's documents and who of them was kept. Out: files of such numbers, one
*generation* for each finished run. Held in memory: one block of them.

The folder has `krill-index.json` (version and kind), and for each run that finished `IDENTITY.generation`:
the raw numbers of what it kept. A generation is written in two steps, since it must not count before the
run's own output is in place. `prepare` leaves it, whole and synced, as `IDENTITY.pending`; `commit` renames
it. A run that dies before `prepare` is through leaves a temporary name that everybody ignores and the next
`prepare` removes; one that dies before `commit` is helped by `adopt`. Only names that end in `.generation`
are ever seen by others.

A run's own generation is never held against it: the same config gives the same output again.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from krill.dedup.minhash import HASH_VERSION, MinHash
from krill.dedup.streams import HASH_BYTES, bytes_of, number_blocks, records_in
from krill.errors import ConfigError, StorageError
from krill.flow.atomic import atomic_writer, fsync_dir, storage_errors, sweep_temporaries, write_json
from krill.flow.commits import damaged, reading_artifact

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

VERSION = 1
DESCRIPTION = "krill-index.json"
_GENERATION = ".generation"
_PENDING = ".pending"
_BLOCK_RECORDS = 16_384
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


@dataclass(frozen=True, slots=True)
class Generation:
    """What one finished run kept."""

    name: str
    path: Path
    records: int


@dataclass(frozen=True, slots=True)
class Pending:
    """A generation that is written and doesn't count yet."""

    path: Path

    def commit(self) -> None:
        """Let it count from now on."""
        with storage_errors(self.path):
            self.path.replace(self.path.with_suffix(_GENERATION))
        fsync_dir(self.path.parent)


class DedupIndex:
    """The index in `folder`, which is made with its first generation."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def pin(self, kind: str, identity: str) -> list[Generation]:
        """What other runs have kept so far, in the order of their names. Refuses a folder of another kind."""
        record_bytes = _record_bytes(kind)
        if not self._check(kind):
            return []
        with storage_errors(self.folder):
            paths = sorted(self.folder.glob("*" + _GENERATION))
        return [_generation(path, record_bytes) for path in paths if path.stem != identity]

    def pinned(self, names: Sequence[str]) -> list[Generation]:
        """The generations that a run has pinned before, found again."""
        found = []
        for name in names:
            path = self.folder / name
            if Path(name).name != name or not path.is_file():
                raise StorageError(
                    f"`{path}`, which this run was begun with, is gone from the index of duplicates",
                    hint="put it back, or start anew with --overwrite",
                )
            found.append(_generation(path, _record_bytes(str((self._description() or {}).get("kind")))))
        return found

    def prepare(self, kind: str, identity: str, files: Sequence[Path], keep_files: Sequence[Path]) -> Pending:
        """Write what was kept, whole and synced, without letting it count. `files` hold the hashes or bands
        of each unit, `keep_files` its keep bits."""
        record_bytes = _record_bytes(kind)
        path = self._path(identity, _PENDING)
        with self._locked():
            sweep_temporaries(self.folder)
            if not self._check(kind):
                write_json(self.folder / DESCRIPTION, {"version": VERSION, "kind": kind})
            with atomic_writer(path) as out:
                for file, keep_file in zip(files, keep_files, strict=True):
                    for kept in _kept_blocks(file, keep_file, record_bytes):
                        out.write(bytes_of(kept))
        return Pending(path)

    def publish(self, kind: str, identity: str, files: Sequence[Path], keep_files: Sequence[Path]) -> None:
        """`prepare` and `commit` at once."""
        self.prepare(kind, identity, files, keep_files).commit()

    def adopt(self, identity: str) -> bool:
        """Commit what a run, finished since, had prepared when it died; returns whether there was
        anything."""
        path = self._path(identity, _PENDING)
        if not path.is_file():
            return False
        Pending(path).commit()
        return True

    def _path(self, identity: str, suffix: str) -> Path:
        if not _IDENTITY.fullmatch(identity):
            raise ValueError(f"not an identity: {identity!r}")
        return self.folder / (identity + suffix)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One process writes at a time, so that what lies around half-written is nobody's."""
        with storage_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._check_foreign()
            lock = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _check(self, kind: str) -> bool:
        """Whether there is an index of this kind; refuses one of another kind or version, and other
        folders."""
        if not self.folder.exists():
            return False
        self._check_foreign()
        found = self._description()
        if found is None:
            return False
        if found.get("version") != VERSION:
            raise StorageError(
                f"the index of duplicates `{self.folder}` has version `{found.get('version')}`,"
                f" this Krill reads version `{VERSION}`",
                hint="set `preprocess.dedup_cache_dir` to another folder, or use the Krill that made it",
            )
        if found.get("kind") != kind:
            if not self._holds_anything():
                return False  # all that is left of a run that died before it had anything to add
            raise ConfigError(
                f"`preprocess.dedup_cache_dir` `{self.folder}` holds an index of the kind"
                f" `{found.get('kind')}`, and this config makes `{kind}`",
                hint="set `preprocess.dedup_cache_dir` to another folder, or `preprocess.dedup` as it was",
            )
        return True

    def _holds_anything(self) -> bool:
        return any(path.suffix in (_GENERATION, _PENDING) for path in self.folder.iterdir())

    def _description(self) -> dict[str, Any] | None:
        path = self.folder / DESCRIPTION
        try:
            found = orjson.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise StorageError(
                f"`{path}` can't be read: {error}",
                hint="set `preprocess.dedup_cache_dir` to another folder",
            ) from None
        return found if isinstance(found, dict) else {}

    def _check_foreign(self) -> None:
        """Refuse a folder that has no description and is not empty but for what we may have left
        ourselves."""
        if not self.folder.is_dir():
            raise StorageError(
                f"`preprocess.dedup_cache_dir` `{self.folder}` is not a folder", hint="choose another one"
            )
        if (self.folder / DESCRIPTION).exists():
            return
        for entry in self.folder.iterdir():
            marker = _marker_in(entry)
            if marker is not None:
                raise StorageError(
                    f"`{self.folder}` is a cache of MD5 marker files (such as `{marker}`) of the original"
                    " tool, whose hashes are not Krill's: nothing in it was touched",
                    hint="set `preprocess.dedup_cache_dir` to another folder, and name the earlier documents"
                    " under `preprocess.dedup.against`",
                )
            if not entry.name.startswith("."):
                raise StorageError(
                    f"`{self.folder}` holds `{entry.name}` and is no index of duplicates: nothing in it was"
                    " touched",
                    hint="set `preprocess.dedup_cache_dir` to another folder",
                )


def _marker_in(entry: Path) -> str | None:
    """A marker of the original tool: an empty file named by a hash, in a folder named by its first digits."""
    inside = entry.iterdir() if entry.is_dir() and _MARKER_FOLDER.fullmatch(entry.name) else [entry]
    return next((file.name for file in inside if _MARKER.fullmatch(file.stem)), None)


def _record_bytes(kind: str) -> int:
    found = _KIND.fullmatch(kind)
    if found is None:
        raise ValueError(f"not a kind of index: {kind!r}")
    return HASH_BYTES if found["bands"] is None else 8 * int(found["bands"])


def _generation(path: Path, record_bytes: int) -> Generation:
    return Generation(path.name, path, records_in(path, record_bytes))


def _kept_blocks(file: Path, keep_file: Path, record_bytes: int) -> Iterator[NDArray[np.uint64]]:
    """The rows of a unit that are kept, block by block."""
    import numpy as np

    count = records_in(file, record_bytes)
    with reading_artifact(keep_file):
        bits = np.fromfile(keep_file, np.uint8)
    if len(bits) != -(-count // 8):
        raise damaged(keep_file, f"has `{len(bits)}` bytes for `{count}` documents")
    width = record_bytes // 8
    first = 0
    for numbers in number_blocks([file], _BLOCK_RECORDS * width):
        rows = numbers.reshape(-1, width)
        part = bits[first // 8 : -(-(first + len(rows)) // 8)]
        yield rows[np.unpackbits(part, count=len(rows), bitorder="little").view(bool)]
        first += len(rows)
