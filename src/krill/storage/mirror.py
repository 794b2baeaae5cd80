"""A run in an object store, seen through a folder of this machine.

In: files that were written whole in the folder; names of files that other machines have made. Out: objects
under the same names; the files, fetched when somebody wants to read them. What is committed in one is
committed in the other: artifacts are uploaded first, their record last, so a unit is done if and only if the
object of its record is there. Two machines that commit the same unit upload the same bytes.

On this machine's disk: what a stage or a task reads and writes and, between them, up to `kept_bytes`. Held in
memory: one number for each finished unit of a stage that was listed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from krill.errors import StorageError
from krill.storage.atomic import TEMPORARY_SUFFIX, make_folder, storage_errors
from krill.storage.commits import RECORD_SUFFIX, Units, record_name, recorded_unit
from krill.storage.object_store import ObjectStore

KEPT_BYTES: Final = 2 * 10**9
"""What stays on this machine's disk between stages and tasks, as it may be read again."""
_SCRATCH: Final = "krill-scratch-"
_LOCK: Final = "lock"
# A listing names a thousand objects at once: from so many single questions on it is cheaper.
_QUESTIONS: Final = 16


class Mirror:
    """`Files` of an object store: `root` on this machine stands for all of `store`."""

    def __init__(self, root: Path, store: ObjectStore, kept_bytes: int = KEPT_BYTES) -> None:
        self.root = root
        self.store = store
        self._kept_bytes = kept_bytes

    def units(self, folder: Path) -> Units:
        make_folder(folder)
        return _StoredUnits(self, folder)

    def fetch(self, paths: Iterable[Path]) -> None:
        """Small records come many at once, everything else one after the other."""
        missing = [path for path in paths if not path.exists() and path.is_relative_to(self.root)]
        records = {self._name(path): path for path in missing if recorded_unit(path.name) is not None}
        for path in missing:
            make_folder(path.parent)
            if self._name(path) not in records:
                self.store.download(self._name(path), path)
        if records:
            for name, data in self.store.read_all(records).items():
                _keep(records[name], data)

    def sizes(self, paths: Iterable[Path]) -> list[int]:
        paths = list(paths)
        stored: dict[Path, int] = {}
        for folder in {path.parent for path in paths if not path.exists() and path.is_relative_to(self.root)}:
            found = self.store.sizes(self._name(folder))
            stored |= {self.root / name: size for name, size in found.items()}
        return [stored[path] if path in stored else self._size_here(path) for path in paths]

    def publish(self, paths: Iterable[Path]) -> None:
        for path in paths:
            self.store.upload(path, self._name(path))

    def write(self, path: Path, data: bytes) -> None:
        """The object is what counts, the file saves fetching it."""
        self.store.write(self._name(path), data)
        make_folder(path.parent)
        _keep(path, data)

    def remove(self, folder: Path) -> None:
        """Without its record, nobody reads what is left of a unit."""
        self.store.remove(self._name(folder), first=RECORD_SUFFIX)
        with storage_errors(folder):
            for path in folder.glob("*"):
                path.unlink()

    def evict(self) -> None:
        """Above `kept_bytes`, the files that were written or fetched first go first. Records
        stay: they are small, and every stage reads them."""
        files = [path for path in self.root.rglob("*") if path.is_file() and path.suffix != RECORD_SUFFIX]
        states = sorted(((path.stat(), path) for path in files), key=lambda item: item[0].st_mtime_ns)
        held = sum(state.st_size for state, _ in states)
        for state, path in states:
            if held <= self._kept_bytes:
                break
            path.unlink()
            held -= state.st_size

    def has(self, path: Path) -> bool:
        """Whether a file is there, on this machine or in the store."""
        return path.exists() or self.store.size(self._name(path)) is not None

    def recorded(self, folder: Path) -> Iterator[int]:
        for name in self.store.sizes(self._name(folder)):
            unit = recorded_unit(name.rpartition("/")[2])
            if unit is not None:
                yield unit

    def _size_here(self, path: Path) -> int:
        try:
            return path.stat().st_size
        except OSError:
            inside = path.is_relative_to(self.root)
            place = self.store.url_of(self._name(path)) if inside else str(path)
            raise StorageError(
                f"`{place}`, kept by an earlier stage, is gone", hint="start anew with --overwrite"
            ) from None

    def _name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()


def _keep(path: Path, data: bytes) -> None:
    """Write a file that others of this process find whole or not at all; it need not outlive a power cut."""
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}{TEMPORARY_SUFFIX}")
    with storage_errors(path):
        temporary.write_bytes(data)
        temporary.replace(path)


class _StoredUnits:
    """The finished units of a stage: asked for by name, until there were enough questions to list them."""

    def __init__(self, mirror: Mirror, folder: Path) -> None:
        self._mirror = mirror
        self._folder = folder
        self._known: set[int] = set()
        self._questions = 0
        self._listed = False

    def __contains__(self, unit: object) -> bool:
        assert isinstance(unit, int)
        if unit in self._known:
            return True
        if not self._listed and self._questions < _QUESTIONS:
            self._questions += 1
            if not self._mirror.has(self._folder / record_name(unit)):
                return False
            self._known.add(unit)
            return True
        return unit in self._all()

    def __iter__(self) -> Iterator[int]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def add(self, unit: int) -> None:
        self._known.add(unit)

    def _all(self) -> set[int]:
        if not self._listed:
            self._known.update(self._mirror.recorded(self._folder))
            self._listed = True
        return self._known


class Scratch:
    """A new folder in `parent`, or in the system's folder for temporary files, for what can be fetched again.

    It is removed when the process lets it go. One that was killed can't do that: so each folder has a lock
    that its process holds, and whoever makes one removes those whose lock is free.
    """

    def __init__(self, parent: Path | None = None) -> None:
        parent = Path(tempfile.gettempdir()) if parent is None else parent
        with storage_errors(parent):
            parent.mkdir(parents=True, exist_ok=True)
            _remove_abandoned(parent)
            self.folder = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=parent))
            # Made under another name: what another process finds locked or not, it must find whole.
            self._lock = os.open(self.folder / f".{_LOCK}", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            (self.folder / f".{_LOCK}").rename(self.folder / _LOCK)

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):
            os.close(self._lock)


def _remove_abandoned(parent: Path) -> None:
    for lock in parent.glob(f"{_SCRATCH}*/{_LOCK}"):
        with suppress(OSError):  # another user's, or gone meanwhile
            descriptor = os.open(lock, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
            finally:
                os.close(descriptor)
