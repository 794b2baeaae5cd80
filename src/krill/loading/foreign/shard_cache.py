"""Files that were fetched or decoded, kept on this machine's disk within a limit.

In: a key and how to make its file. Out: its path, the file being there already or newly made. All processes
of a machine may use one folder: a lock is held while a file is made, so each is made once, and the limit
holds for all of them together. Whole files are dropped, those unused for longest first. Held in memory: the
list of files, while room is made.
"""

from __future__ import annotations

import fcntl
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from krill.budget import format_size
from krill.errors import BudgetError
from krill.storage.atomic import AtomicFile, atomic_writer, storage_errors, sweep_temporaries

_LOCK = "krill-cache.lock"
# Only such files are counted and removed: the folder may have other uses.
_FOLDER = re.compile(r"[0-9a-f]{16}")
_FILE = re.compile(r"(shard|rows)-[0-9a-zA-Z-]+")

Make = Callable[[AtomicFile], None]

# The file's lock keeps out other processes, and this one other threads. A thread may lock again what it has
# locked: decoding a file may have to fetch it.
_threads = threading.RLock()
_locked_here: set[Path] = set()


def _after_fork() -> None:
    """A child does not hold its parent's locks."""
    global _threads
    _threads = threading.RLock()
    _locked_here.clear()


os.register_at_fork(after_in_child=_after_fork)


def default_cache_dir() -> Path:
    """`krill` in the user's cache folder, as the XDG convention has it."""
    stated = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(stated) if Path(stated).is_absolute() else Path.home() / ".cache"
    return base / "krill"


class ShardCache:
    """Picklable; safe to use from several threads and processes."""

    def __init__(self, folder: str | Path, limit: int) -> None:
        self.folder = Path(folder)
        self.limit = limit

    def path(self, key: str, make: Make, *, size: int = 0) -> Path:
        """The file `key` (`folder/name`), now the one used last; `make` writes it if it is not there.

        `size` is what it will take, if that is known. The file may be gone by the time it is opened, if other
        processes need the room: then ask again.
        """
        path = self.folder / key
        assert _FOLDER.fullmatch(path.parent.name) and _FILE.fullmatch(path.name), key
        if _touch(path):
            return path
        with self._locked():
            if _touch(path):  # another process has made it while this one waited
                return path
            with storage_errors(path):
                path.parent.mkdir(exist_ok=True)
            sweep_temporaries(path.parent)  # made under this lock: these are left over from killed processes
            self._make_room(size, path)
            with atomic_writer(path) as file:
                make(file)
            self._make_room(0, path)
        return path

    def last_drop(self) -> int:
        """A number that changes when a file is dropped."""
        try:
            return (self.folder / _LOCK).stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def cannot_hold(self, files: int, name: str) -> BudgetError:
        """For a batch whose files were dropped as soon as they came, again and again."""
        return BudgetError(
            f"the cache `{self.folder}` may hold {format_size(self.limit)}: too little for the {files} shards"
            f" of `{name}` that one batch is in",
            hint="raise `cache_size`, or lower `shuffle_window`",
        )

    def _make_room(self, size: int, newest: Path) -> None:
        """Drop files until `size` more bytes fit; never the newest."""
        if size > self.limit:
            raise self._too_small(size, newest)
        files = self._files()
        total = sum(bytes_ for _, bytes_, _ in files) + size
        for _, bytes_, path in sorted(files):
            if total <= self.limit:
                return
            if path != newest:
                with storage_errors(path):
                    path.unlink(missing_ok=True)
                    os.utime(self.folder / _LOCK)
                total -= bytes_
        if total > self.limit:
            newest.unlink(missing_ok=True)
            raise self._too_small(total, newest)

    def _files(self) -> list[tuple[int, int, Path]]:
        """When each file was last used, its size, its path."""
        found = []
        for folder in self.folder.iterdir():
            for path in folder.iterdir() if _FOLDER.fullmatch(folder.name) else ():
                if _FILE.fullmatch(path.name):
                    status = path.stat()
                    found.append((status.st_mtime_ns, status.st_size, path))
        return found

    def _too_small(self, size: int, path: Path) -> BudgetError:
        return BudgetError(
            f"the cache `{self.folder}` may hold {format_size(self.limit)}, and `{path.name}` alone takes"
            f" {format_size(size)}",
            hint=f'cache_size="{-(-size * 4 // 10**6)}MB" would hold four of them',
        )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with _threads:
            if self.folder in _locked_here:
                yield
                return
            with storage_errors(self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)
                lock = os.open(self.folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o666)
            try:
                # Not `flock`, which a forked child would go on holding.
                fcntl.lockf(lock, fcntl.LOCK_EX)
                _locked_here.add(self.folder)
                yield
            finally:
                _locked_here.discard(self.folder)
                os.close(lock)


def _touch(path: Path) -> bool:
    """Note that a file was used; False if it is not there."""
    try:
        os.utime(path)
    except PermissionError:  # a cache of another user's: its files can be read, if not touched
        return path.exists()
    except OSError:
        return False
    return True
