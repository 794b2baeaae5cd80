"""The commit log, one small JSON record per finished unit of a stage, and how the files of a run are reached.

A unit's artifacts are written first, each under a temporary name, synced and renamed; then its record, the
same way. A unit is done if and only if its record is there, so a run may be killed at any moment. Records
are files rather than lines of one journal, because units of one stage may be finished by several processes
or machines, and because object stores can't append: in one of those (`mirror.py`) the same order holds, of
objects. Held in memory: one number per finished unit.

A run's files have paths on this machine. Mostly that is all there is to it: `LOCAL`. Where the run is in an
object store, the paths are those of a mirror, which uploads what is committed and fetches what is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import orjson

from krill.errors import StorageError
from krill.storage.atomic import AtomicFile, storage_errors, write_bytes
from krill.storage.input_file import MOST_MANIFEST, read_json

RECORD_SUFFIX: Final = ".json"


class Units(Protocol):
    def __contains__(self, unit: object, /) -> bool: ...

    def __iter__(self) -> Iterator[int]: ...

    def __len__(self) -> int: ...

    def add(self, unit: int, /) -> None: ...


class Files(Protocol):
    """The files of a run, named by their paths on this machine."""

    def units(self, folder: Path) -> Units:
        """The units whose records are in `folder`, which is made if need be."""

    def fetch(self, paths: Iterable[Path]) -> None:
        """Have these files on this machine; those that exist nowhere are left to the reader to miss."""

    def sizes(self, paths: Iterable[Path]) -> list[int]:
        """The bytes of files, which need not be fetched for that."""

    def publish(self, paths: Iterable[Path]) -> None:
        """Let the other machines see these files, which are whole."""

    def write(self, path: Path, data: bytes) -> None:
        """Write a small file that is there as a whole or not at all, for all machines."""

    def remove(self, folder: Path) -> None:
        """Remove the files of a folder."""

    def evict(self) -> None:
        """Nobody reads now: remove copies on this machine that can be fetched again."""


class LocalFiles:
    """Files of this machine, or of a file system that all machines see."""

    def units(self, folder: Path) -> Units:
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            return {unit for path in folder.iterdir() if (unit := recorded_unit(path.name)) is not None}

    def fetch(self, paths: Iterable[Path]) -> None: ...

    def sizes(self, paths: Iterable[Path]) -> list[int]:
        return [path.stat().st_size for path in paths]

    def publish(self, paths: Iterable[Path]) -> None: ...

    def write(self, path: Path, data: bytes) -> None:
        write_bytes(path, data)

    def remove(self, folder: Path) -> None:
        with storage_errors(folder):
            for path in folder.iterdir():
                path.unlink()

    def evict(self) -> None: ...


LOCAL: Final = LocalFiles()


@dataclass(frozen=True, slots=True)
class RunPaths:
    """Where a run's files are, those between its stages and the dataset so far, and how to reach them."""

    stages: Path
    dataset: Path
    files: Files = LOCAL


def record_name(unit: int) -> str:
    return f"{unit:020d}{RECORD_SUFFIX}"


def recorded_unit(name: str) -> int | None:
    """The unit whose record has this name; None for any other file."""
    stem = name.removesuffix(RECORD_SUFFIX)
    return int(stem) if stem != name and stem.isdigit() else None


# Records that are asked for at once, where they have to be fetched.
_RECORDS = 256


class CommitLog:
    """The finished units of one stage, in `folder`; `files` says how the run's files are reached."""

    def __init__(self, folder: Path, files: Files = LOCAL) -> None:
        self.folder = folder
        self._files = files
        self._done = files.units(folder)

    def __contains__(self, unit: int) -> bool:
        return unit in self._done

    def __len__(self) -> int:
        return len(self._done)

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Finished units and their records, in input order, read one at a time."""
        units = self.units()
        for first in range(0, len(units), _RECORDS):
            some = units[first : first + _RECORDS]
            self._files.fetch(map(self._record_path, some))
            for unit in some:
                yield unit, self.record(unit)

    def units(self) -> list[int]:
        return sorted(self._done)

    def record(self, unit: int) -> dict[str, Any]:
        path = self._record_path(unit)
        self._files.fetch([path])
        try:
            record = read_json(path, MOST_MANIFEST)
        except (OSError, ValueError) as error:
            raise StorageError(
                f"the record `{path}` can't be read: {error}", hint="start anew with --overwrite"
            ) from None
        if not isinstance(record, dict):
            raise damaged(path, "is not a record")
        return record

    def place(self, unit: int, name: str) -> Path:
        """Where the unit's artifact `name` is to be."""
        return self.folder / f"{unit:020d}.{name}"

    def path(self, unit: int, name: str) -> Path:
        """The unit's artifact `name`, to be read."""
        path = self.place(unit, name)
        self._files.fetch([path])
        return path

    def begin(self, unit: int, *names: str) -> UnitFiles:
        return UnitFiles(self, unit, names)

    def commit(self, unit: int, record: dict[str, Any], made: Iterable[Path] = ()) -> None:
        """The unit is done: what was made for it, here or in another folder of the run, is in place."""
        self._files.publish(made)
        self._files.write(self._record_path(unit), orjson.dumps(record, option=orjson.OPT_SORT_KEYS))
        self._done.add(unit)

    def clear(self) -> None:
        self._files.remove(self.folder)
        self._done = self._files.units(self.folder)

    def _record_path(self, unit: int) -> Path:
        return self.folder / record_name(unit)


@contextmanager
def reading_artifact(path: Path) -> Iterator[None]:
    """Turn an OSError of the body, which reads what an earlier stage has committed, into a StorageError."""
    try:
        yield
    except OSError as error:
        raise damaged(path, f"can't be read: {error.strerror or error}") from error


def damaged(path: Path, fact: str) -> StorageError:
    """An artifact is not as it was committed: somebody else has changed it."""
    return StorageError(f"`{path}`, kept by an earlier stage, {fact}", hint="start anew with --overwrite")


class UnitFiles:
    """The artifacts of one unit while they are written; they appear with the commit, or not at all."""

    def __init__(self, log: CommitLog, unit: int, names: tuple[str, ...]) -> None:
        self._log = log
        self._unit = unit
        self._files = {name: AtomicFile(log.place(unit, name)) for name in names}

    def write(self, name: str, data: Any) -> int:
        """Append to an artifact; returns where the data begins."""
        file = self._files[name]
        start = file.tell()
        file.write(data)
        return start

    def commit(self, record: dict[str, Any]) -> int:
        """Put the artifacts in place, then the record; returns the artifacts' bytes."""
        for file in self._files.values():
            file.commit()
        self._log.commit(self._unit, record, [file.path for file in self._files.values()])
        return sum(file.tell() for file in self._files.values())

    def abort(self) -> None:
        for file in self._files.values():
            file.abort()
