"""Files that Krill wrote, held against the checksums in their manifests before something new is made of them.

In: a file and the SHA-256 that a manifest states. Out: nothing, or an InputError with both checksums. Held in
memory: one mebibyte of a file while it is read, and the names of the files that were checked.
"""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path
from typing import Final, NoReturn

from krill.errors import InputError
from krill.storage.input_file import open_regular, read_object
from krill.storage.outputs import MANIFEST, stated_checksums

READ_BYTES: Final = 2**20
DAMAGED_HINT: Final = (
    "the file was changed after it was written; copy it again, or write the folder with `--overwrite`"
)
_AS_IT_IS: Final = (
    f"{DAMAGED_HINT}; to use it as it is: `--no-verify`, `verify: false` in a config or from Python"
)
# A corpus may have a folder for each file, and files come folder by folder.
_FOLDERS_KEPT: Final = 64
# Files that this process has checked, and that have not been written since: one corpus may be opened often.
_checked_here: set[tuple[object, ...]] = set()


def refuse_checksum(shown: str, found: str, expected: str, *, hint: str = _AS_IT_IS) -> NoReturn:
    raise InputError(
        f"`{shown}` has the checksum {found[:16]}..., and the manifest says {expected[:16]}...", hint=hint
    )


def check_file(path: str | Path, expected: str, shown: str | None = None) -> None:
    """Read a whole file; an InputError if it is not the one of this SHA-256."""
    name = str(path) if shown is None else shown
    digest = hashlib.sha256()
    try:
        with open_regular(path) as file:
            while content := file.read(READ_BYTES):
                digest.update(content)
    except OSError as error:
        raise InputError(f"`{name}` cannot be read: {error.strerror}", hint=DAMAGED_HINT) from error
    if digest.hexdigest() != expected:
        refuse_checksum(name, digest.hexdigest(), expected)


class ListedFiles:
    """Files of this machine that a manifest beside them lists. Each is read once, by the thread that asks
    first; others that ask meanwhile wait. Files that no manifest lists are taken as they are."""

    def __init__(self) -> None:
        self._stated: dict[str, dict[str, str]] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def check(self, location: str, shown: str | None = None) -> None:
        """An InputError if the file at `location` is listed, and is not what was written."""
        folder, _, name = os.path.abspath(location).rpartition("/")  # noqa: PTH100  links stay as they are
        expected = self._stated_in(folder).get(name)
        if expected is None:
            return
        with self._lock:
            lock = self._locks.setdefault(location, threading.Lock())
        with lock:
            key = (location, expected, *_version_of(location))
            if key not in _checked_here:
                check_file(location, expected, shown)
                _checked_here.add(key)

    def _stated_in(self, folder: str) -> dict[str, str]:
        found = self._stated.get(folder)
        if found is None:
            found = stated_checksums(read_object(Path(folder or "/") / MANIFEST) or {})
            if len(self._stated) >= _FOLDERS_KEPT:
                self._stated.clear()
            self._stated[folder] = found
        return found


def _version_of(location: str) -> tuple[int, ...]:
    """What tells a file from others and from itself after a change; nothing where it can't be looked at."""
    try:
        status = os.stat(location)  # noqa: PTH116  for each unit of each file
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
