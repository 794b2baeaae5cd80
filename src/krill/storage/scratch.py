"""A folder of this process, for what can be made or fetched again.

It is removed when the process lets it go. One that was killed can't do that: so each folder has a lock that
its process holds, and whoever makes one removes those whose lock is free.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from krill.storage.atomic import storage_errors

_PREFIX: Final = "krill-scratch-"
_LOCK: Final = "lock"


class Scratch:
    """A new folder in `parent`, or in the system's folder for temporary files."""

    def __init__(self, parent: Path | None = None) -> None:
        parent = Path(tempfile.gettempdir()) if parent is None else parent
        with storage_errors(parent):
            parent.mkdir(parents=True, exist_ok=True)
            _remove_abandoned(parent)
            self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
            # Made under another name: what another process finds locked or not, it must find whole.
            self._lock = os.open(self.folder / f".{_LOCK}", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            (self.folder / f".{_LOCK}").rename(self.folder / _LOCK)

    def close(self) -> None:
        """Remove the folder and what is in it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):
            os.close(self._lock)


def _remove_abandoned(parent: Path) -> None:
    """Remove the folders of processes that were killed."""
    for lock in parent.glob(f"{_PREFIX}*/{_LOCK}"):
        with suppress(OSError):  # another user's, or gone meanwhile
            descriptor = os.open(lock, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
            finally:
                os.close(descriptor)
