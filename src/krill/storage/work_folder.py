"""The hidden folder that a run works in: whether it is Krill's, who holds it, and what the run in it is.

Anything may stand there, as anywhere beside a user's files: it counts as Krill's only in the form that Krill
gives it. Links are never followed to what is written, emptied or removed.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from krill.errors import StorageError
from krill.storage.input_file import MOST_MANIFEST, read_json

LOCK: Final = "lock"
_GATE: Final = "begin.lock"
# The number of a process.
_LONGEST_HOLDER: Final = 32


def is_of_others(folder: Path) -> bool:
    """Whether a folder holds something, and not what a run leaves there: the lock, files and folders."""
    if not folder.is_dir():
        return False
    with os.scandir(folder) as entries:
        found = {entry.name: _is_special(entry) for entry in entries}
    if not found:
        return False
    if LOCK not in found:  # it comes first and goes last
        return not os.path.lexists(folder / LOCK)
    return any(found.values()) or not _is_lock(folder / LOCK)


def _is_special(entry: os.DirEntry[str]) -> bool:
    """A link, a pipe and the like: what opens it for removal may wait for ever."""
    return entry.is_symlink() or not (entry.is_file() or entry.is_dir())


def _is_lock(path: Path) -> bool:
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LONGEST_HOLDER:
            return False
        holder = path.read_bytes().strip()
    except FileNotFoundError:  # removed meanwhile, with all that was there
        return True
    return not holder or holder.isdigit()


def hold(path: Path, output: Path, setting: str, *, shared: bool) -> int:
    """A lock on `path`, also when another run removes the file meanwhile."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, _LONGEST_HOLDER).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise StorageError(
                f"another run is writing `{output}` (process {holder})",
                hint=f"wait for it to end, or choose another `{setting}`",
            ) from None
        try:
            same = path.stat().st_ino == os.fstat(descriptor).st_ino
        except FileNotFoundError:
            same = False
        if same:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            return descriptor
        os.close(descriptor)
        path.parent.mkdir(parents=True, exist_ok=True)


@contextmanager
def gate(folder: Path) -> Iterator[None]:
    """One of the processes that share a run at a time."""
    descriptor = os.open(folder / _GATE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def begun_run(path: Path) -> dict[str, Any] | None:
    """What `run.json` says, or None where it is no such file: then whatever lies around is litter."""
    try:
        found = read_json(path, MOST_MANIFEST, links=False)
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict):
        return None
    spill_dir = found.get("spill_dir")
    if spill_dir is None or (isinstance(spill_dir, str) and spill_dir and "\0" not in spill_dir):
        return found
    return None
