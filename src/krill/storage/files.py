"""Where the files of a run are, for those who write and read them by their paths.

A run's files have paths on this machine. Mostly that is all there is to it: `LOCAL`. Where the run is in an
object store, the paths are those of a mirror (`mirror.py`), which uploads what is committed and fetches what
is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from krill.storage.atomic import storage_errors, write_bytes

RECORD_SUFFIX: Final = ".json"


class Units(Protocol):
    """The finished units of a stage."""

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


def unit_name(unit: int, name: str) -> str:
    return f"{unit:020d}.{name}"


def record_name(unit: int) -> str:
    return f"{unit:020d}{RECORD_SUFFIX}"


def recorded_unit(name: str) -> int | None:
    """The unit whose record has this name; None for any other file."""
    stem = name.removesuffix(RECORD_SUFFIX)
    return int(stem) if stem != name and stem.isdigit() else None
