"""Which files of an output Krill wrote, whether they still are as they were written, and which are somebody
else's, which it never removes.

In: a folder and the manifest in it. Out: the names of the files that the manifest doesn't account for; an
InputError where a file has another checksum than the manifest states. Held in memory: the names of all files,
and one mebibyte of a file while it is read.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, NoReturn

from krill.errors import InputError, StorageError
from krill.storage.input_file import MOST_MANIFEST, open_regular, read_json
from krill.threads.ordered import ordered_map

MANIFEST: Final = "krill-run.json"
_LISTED: Final = 3


@dataclass(frozen=True, slots=True)
class OutputKind:
    """The outputs of one command. `files` are the names, from the output on, of what a run wrote according to
    its manifest, the manifest itself left out; it must take any JSON object. `names` matches what a run that
    was not finished may have left in the output's place, where outputs are made in place."""

    command: str
    files: Callable[[Mapping[str, Any]], Iterable[str]]
    names: re.Pattern[str] | None = None

    def written(self, manifest: Mapping[str, Any]) -> set[str]:
        return {MANIFEST, *self.files(manifest)}

    def may_be_left(self, name: str) -> bool:
        """Whether a file without a manifest beside it can be one of an unfinished run's."""
        return name == MANIFEST or (self.names is not None and self.names.fullmatch(name) is not None)


def stated_checksums(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The SHA-256 of each file that a manifest lists, by the name from its folder on; what is not of that
    form, as in a file that anybody may have written, is left out."""
    found: dict[str, str] = {}
    for part in ("dataset", "validation", "text", "rejected"):
        described = manifest.get(part)
        if isinstance(described, dict):
            split = described.get("split")
            _add_stated(found, described.get("shards"), f"{split}/" if isinstance(split, str) else "")
    _add_stated(found, manifest.get("files"), "")
    _add_stated(found, [manifest.get("examples")], "")
    return found


def _add_stated(found: dict[str, str], entries: Any, folder: str) -> None:
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            name, sha256 = entry.get("file"), entry.get("sha256")
            if isinstance(name, str) and isinstance(sha256, str):
                found[folder + name] = sha256


def entries_of(folder: Path) -> list[str]:
    """The names of everything in a folder and in those below it; folders end in `/`."""
    found: list[str] = []

    def fail(error: OSError) -> None:
        raise error

    for root, folders, files in os.walk(folder, onerror=fail):
        inside = Path(root).relative_to(folder)
        links = [name for name in folders if (Path(root) / name).is_symlink()]
        found += [(inside / name).as_posix() for name in (*files, *links)]
        found += [f"{(inside / name).as_posix()}/" for name in folders if name not in links]
    return found


def foreign_files(entries: Iterable[str], written: Collection[str]) -> list[str]:
    """Those of `entries` that are not among what was `written`, sorted; folders only if they hold nothing of
    it, and nothing else that is named."""
    names = set(entries)
    ours = {*written, *(f"{parent}/" for name in written for parent in PurePosixPath(name).parents)}
    foreign = {name for name in names if name not in ours}
    inside = {f"{parent}/" for name in foreign for parent in PurePosixPath(name.rstrip("/")).parents}
    return sorted(foreign - inside)


def not_ours(output: str, setting: str) -> StorageError:
    return StorageError(
        f"`{output}` is there already and is not a Krill output: nothing in it was touched",
        hint=f"choose another `{setting}`, or move what is there away",
    )


def refuse_foreign(foreign: Collection[str], output: str, setting: str | None, *, kept: str) -> None:
    """Raise a StorageError if there is anything; `kept` says what became of the work so far, `setting` names
    the output if another one could be chosen now."""
    if foreign:
        other = "" if setting is None else f", or choose another `{setting}`"
        raise StorageError(
            f"`{output}` holds {listed(foreign)}, which Krill did not write: {kept}",
            hint=f"move that elsewhere and run the same command{other}",
        )


def listed(names: Collection[str]) -> str:
    """The first few, and how many more there are."""
    shown = [f"`{name}`" for name in sorted(names)[:_LISTED]]
    more = len(names) - len(shown)
    if more:
        shown.append(f"{more:,} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def remove_written(folder: Path, written: Collection[str], *, threads: int = 1) -> None:
    """Remove what a run wrote, the manifest last, and the folders that are empty then. Never raises.

    What is removed is looked up in the folder: no name that a manifest states leads out of it.
    """
    with suppress(OSError):
        entries = entries_of(folder)
        files = [folder / name for name in entries if name in written and name != MANIFEST]
        unlink_all(files, threads)
        with suppress(FileNotFoundError):
            (folder / MANIFEST).unlink()
        folders = sorted((name for name in entries if name.endswith("/")), reverse=True)
        for path in (*(folder / name for name in folders), folder):
            with suppress(OSError):
                path.rmdir()


def unlink_all(files: Iterable[Path], threads: int) -> None:
    """Remove files: the system takes a second to forget the pages of a gigabyte of them. Never raises."""

    def unlink(path: Path) -> None:
        with suppress(OSError):
            path.unlink()

    for _ in ordered_map(unlink, files, threads=threads, bytes_in_flight=threads, size=lambda _: 1):
        pass


READ_BYTES: Final = 2**20
DAMAGED_HINT: Final = (
    "the file was changed after it was written; copy it again, or write the folder with `--overwrite`"
)
_UNVERIFIED: Final = "to use it as it is: `--no-verify`, `verify: false` in a config or from Python"
_AS_IT_IS: Final = f"{DAMAGED_HINT}; {_UNVERIFIED}"
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
    try:
        found = file_sha256(path)
    except OSError as error:
        raise InputError(f"`{name}` cannot be read: {error.strerror}", hint=DAMAGED_HINT) from error
    if found != expected:
        refuse_checksum(name, found, expected)


def file_sha256(path: str | Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class ListedFiles:
    """Files of this machine that a manifest beside them lists. Each is read once, by the thread that asks
    first; others that ask meanwhile wait. Files that no manifest lists are taken as they are."""

    def __init__(self) -> None:
        self._stated: dict[str, dict[str, str]] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def check(self, location: str, shown: str | None = None) -> bool:
        """Whether the file at `location` is listed; an InputError if it is not what was written."""
        folder, _, name = os.path.abspath(location).rpartition("/")  # noqa: PTH100  links stay as they are
        expected = self._stated_in(folder).get(name)
        if expected is None:
            return False
        with self._lock:
            lock = self._locks.setdefault(location, threading.Lock())
        with lock:
            key = (location, expected, *_version_of(location))
            if key not in _checked_here:
                check_file(location, expected, shown)
                _checked_here.add(key)
        return True

    def _stated_in(self, folder: str) -> dict[str, str]:
        found = self._stated.get(folder)
        if found is None:
            found = stated_checksums(_manifest_beside(Path(folder or "/") / MANIFEST))
            if len(self._stated) >= _FOLDERS_KEPT:
                self._stated.clear()
            self._stated[folder] = found
        return found


def _manifest_beside(path: Path) -> dict[str, Any]:
    """What it says; nothing where there is none. One that can't be read is damaged, and so may be all that it
    listed."""
    try:
        found = read_json(path, MOST_MANIFEST)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        fact = f"`{path}`, which says what the files beside it are, cannot be read: {error.strerror}"
        raise InputError(fact, hint=f"make it readable; {_UNVERIFIED}") from error
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InputError(f"`{path}` is damaged: it is not a JSON object", hint=_AS_IT_IS)
    return found


def _version_of(location: str) -> tuple[int, ...]:
    """What tells a file from others and from itself after a change; nothing where it can't be looked at."""
    try:
        status = os.stat(location)  # noqa: PTH116  for each unit of each file
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
