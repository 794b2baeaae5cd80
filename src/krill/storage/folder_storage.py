"""A run's output in a folder: locked, resumable, published whole.

In: the output's path. Out: the folder, by a rename. Held in memory: nothing.

While a run works, everything is in a hidden folder beside the output: `.NAME.krill/` with the lock, what the
run is (`run.json`), the stages' commit logs, and the dataset so far. The last step renames the finished
dataset into place, so the output is either an earlier finished one, untouched, or the new one, whole. What
somebody else has put there meanwhile is neither replaced nor removed: the run ends with a StorageError, its
finished dataset is kept, and the same command publishes it when the place is free.

A run may be killed between any two of these steps. What keeps that simple: `run.json` is written when the
folders it names are there, and removed before they are; so without it, whatever else is there is leftovers.
Anything may be in the place of the hidden folder, as anywhere beside a user's files: it counts as Krill's
only in the form that Krill gives it. Links are never followed to what is written, emptied or removed.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Final

import orjson

from krill.errors import StorageError
from krill.storage.atomic import fsync_dir, listed, storage_errors, sweep_temporaries, write_bytes, write_json
from krill.storage.commits import RunPaths
from krill.storage.input_file import read_object
from krill.storage.outputs import (
    MANIFEST,
    OutputKind,
    entries_of,
    foreign_files,
    not_ours,
    refuse_foreign,
    remove_written,
    unlink_all,
)
from krill.storage.run import CONTINUE, PUBLISHED, RUN, START, State
from krill.threads.uninterrupted import uninterrupted

_LOCK: Final = "lock"
_GATE: Final = "begin.lock"
# The number of a process.
_LONGEST_HOLDER: Final = 32
# What a rename says of a folder whose new name is taken: by a folder that is not empty, or by a file.
_TAKEN: Final = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


class FolderStorage:
    """Storage for a run whose output is renamed into place. `spill_dir` is where the stages keep their files,
    if not in the hidden folder.

    Where several processes work on one run, each holds it `shared`: they keep others out, and remove nothing,
    as it may be another's.
    """

    def __init__(
        self,
        output: Path,
        spill_dir: Path | None = None,
        *,
        setting: str,
        kind: OutputKind,
        shared: bool = False,
    ) -> None:
        self.setting = setting
        self.command = kind.command
        self._kind = kind
        self._shared = shared
        # To where the data really is: a rename would replace the link and not what it names.
        with storage_errors(output):
            output = output.resolve() if output.is_symlink() else output
        if output.is_mount():
            raise StorageError(
                f"`{output}` is a mount point, and the finished dataset is put into place by a rename",
                hint=f"set `{setting}` to a folder in it, such as `{output / 'output'}`",
            )
        self.output = output
        self.work = output.parent / f".{output.name}.krill"
        self._spill_dir = None if spill_dir is None else str(spill_dir.resolve())
        self.paths = RunPaths(self._stages_in(self._spill_dir), self.work / "dataset")
        self._run = self.work / RUN
        self._old = self.work / "old"
        self._replaced = self.work / "replaced"
        self._made: list[Path] = []
        self._lock: int | None = None
        self._gone = False

    @property
    def address(self) -> str:
        return str(self.work.absolute())

    def open(self) -> None:
        try:
            # An interrupt in between could not tell whether the folder is ours to remove.
            with uninterrupted(), storage_errors(self.work):
                self._made = [folder for folder in self.work.parents if not folder.exists()]
                if _is_of_others(self.work):
                    raise not_ours(str(self.work), self.setting)
                self.work.mkdir(parents=True, exist_ok=True)
                self._lock = _hold(self.work / _LOCK, self.output, self.setting, shared=self._shared)
                if not self._shared:
                    self._bring_back_old()
                    if not self.paths.dataset.exists():  # published, and killed before it could tidy up
                        self._retire_old()
        except BaseException:
            if self._lock is not None:
                self.close(failing=True)
            raise

    def close(self, *, failing: bool) -> None:
        if not self._gone and not self._shared:
            with suppress(OSError):
                self._bring_back_old()
            begun = self.begun()
            if begun is None or not self.committed(begun):
                self.discard()
            with suppress(StorageError):
                self._sweep()
        if self._lock is not None:
            os.close(self._lock)

    def exclusive(self) -> AbstractContextManager[None]:
        return _gate(self.work) if self._shared else nullcontext()

    def discard(self, *, threads: int = 1) -> None:
        """Never raises: another error may be on its way."""
        self._gone = True  # once the lock file is removed, the folder may be another run's
        begun = self.begun() or {}
        with suppress(OSError):
            self._run.unlink(missing_ok=True)
        for folder in (self._stages_in(begun.get("spill_dir")), self.paths.stages, self.paths.dataset):
            if threads > 1:
                unlink_all((path for path in folder.glob("**/*") if not path.is_dir()), threads)
            shutil.rmtree(folder, ignore_errors=True)
        self._remove_replaced(threads)
        if not self._replaced.exists() and not self._old.exists():
            self._remove_work()
        with suppress(OSError):
            for folder in self._made:
                folder.rmdir()

    def _remove_work(self) -> None:
        """The lock last: what is left when this is killed is still seen to be Krill's. Never raises."""
        with suppress(OSError):
            for path in self.work.iterdir():
                if path.name != _LOCK:
                    if path.is_dir() and not path.is_symlink():
                        shutil.rmtree(path, ignore_errors=True)
                    else:
                        path.unlink(missing_ok=True)
            (self.work / _LOCK).unlink(missing_ok=True)
            self.work.rmdir()

    def finished(self) -> dict[str, Any] | None:
        found = read_object(self.output / MANIFEST)
        if found is not None:
            return found
        if self.output.is_symlink() or self.output.exists():
            with storage_errors(self.output):
                taken = not self.output.is_dir() or any(self.output.iterdir())
            if taken:
                raise not_ours(str(self.output), self.setting)
        return None

    def begun(self) -> dict[str, Any] | None:
        # Without its dataset the run was published, and killed before it could tidy up.
        return _read_run(self._run) if self.paths.dataset.is_dir() else None

    def committed(self, begun: Mapping[str, Any]) -> bool:
        return self._whole() or any(self._stages_in(begun.get("spill_dir")).glob("*/*.json"))

    def prepare(self, run: Mapping[str, Any], finished: Mapping[str, Any] | None) -> None:
        if finished is not None:
            self._refuse_foreign(self.output, finished, "nothing in it was touched")
        begun = self.begun() or {}
        with storage_errors(self.work):
            self._run.unlink(missing_ok=True)
            _remove(self._stages_in(begun.get("spill_dir")))
        for folder in (self.paths.stages, self.paths.dataset):
            with storage_errors(folder):
                _remove(folder)
                folder.mkdir(parents=True)
        replaces = (finished or {}).get("identity")
        recorded = {**run, "replaces": replaces, "spill_dir": self._spill_dir}
        write_bytes(self._run, orjson.dumps(recorded, listed))

    def resume(
        self, begun: Mapping[str, Any], run: Mapping[str, Any], finished: Mapping[str, Any] | None
    ) -> State:
        if finished is not None:
            self._refuse_foreign(self.output, finished, "nothing in it was touched")
        if not self._shared and self._whole():
            self.publish()
            return PUBLISHED
        if begun.get("spill_dir") == self._spill_dir:
            if not self._shared:
                self._sweep()
            return CONTINUE
        # Its stages are to be elsewhere.
        self.prepare({**run, "overwrite": bool(begun.get("overwrite"))}, finished)
        return START

    def tidy(self) -> None:
        """`close` does it."""

    def note(self, name: str, value: Any) -> None:
        write_json(self.work / name, value)

    def noted(self, name: str) -> dict[str, Any] | None:
        return read_object(self.work / name, links=False)

    def publish(self, *, threads: int = 1) -> None:
        """Rename the finished dataset into place and remove everything else.

        What came to the output's place since the run began stays there: then this is a StorageError.
        """
        # What workers of this run were writing when they died; while it runs, others may be writing there.
        for folder in self._places_in_dataset():
            sweep_temporaries(folder)
        with uninterrupted(), storage_errors(self.output):
            self._move_away((self.begun() or {}).get("replaces"))
            try:
                # A folder takes the name of nothing but a folder that is empty: no look before it is needed.
                self.paths.dataset.rename(self.output)
            except OSError as error:
                self._bring_back_old()
                if error.errno in _TAKEN:
                    raise self._taken() from None
                raise
            self._retire_old()
            fsync_dir(self.output.parent)
        self.discard(threads=threads)
        if self._replaced.exists():
            raise StorageError(
                f"`{self.output}` is finished; files that came into the one before it in the last moment are"
                f" kept in `{self._replaced}`",
                hint="move them from there",
            )

    def _move_away(self, replaced: str | None) -> None:
        """Make room where the output is that this run was begun to replace, and nothing else."""
        if replaced is None:
            return
        finished = read_object(self.output / MANIFEST)
        if finished is None or finished.get("identity") != replaced:
            return  # whatever is there, the rename won't replace it
        self._remove_replaced()
        self.output.rename(self._old)
        try:
            self._refuse_foreign(self._old, finished, f"the finished work is kept in `{self.work}`")
        except BaseException:
            self._bring_back_old()
            raise

    def _refuse_foreign(self, folder: Path, manifest: Mapping[str, Any], kept: str) -> None:
        with storage_errors(folder):
            foreign = foreign_files(entries_of(folder), self._kind.written(manifest))
        refuse_foreign(foreign, str(self.output), self.setting, kept=kept)

    def _taken(self) -> StorageError:
        return StorageError(
            f"`{self.output}` was made by somebody else while this run worked: nothing in it was touched, and"
            f" the finished work is kept in `{self.work}`",
            hint="move what is there elsewhere, then run the same command: it puts the output into place",
        )

    def _bring_back_old(self) -> None:
        """If publishing got no further than to move the old output out of the way, and the place is free."""
        try:
            self._old.rename(self.output)
        except OSError as error:
            if error.errno not in (errno.ENOENT, *_TAKEN):
                raise

    def _retire_old(self) -> None:
        """From now on the old output is never brought back; what it holds of ours can go piece by piece."""
        with suppress(OSError):
            self._old.rename(self._replaced)

    def _remove_replaced(self, threads: int = 1) -> None:
        """Without what somebody may have put there in the last moment. Never raises."""
        # The manifest goes last: without it, nothing of ours is left but empty folders.
        manifest = read_object(self._replaced / MANIFEST)
        written = self._kind.written(manifest) if manifest is not None else ()
        remove_written(self._replaced, written, threads=threads)

    def _stages_in(self, spill_dir: str | None) -> Path:
        """Where the stages keep their files; outputs of the same name may share a `spill_dir`."""
        if spill_dir is None:
            return self.work / "stages"
        place = hashlib.sha256(os.fsencode(self.output.resolve())).hexdigest()
        return Path(spill_dir) / f"{self.output.name}.{place[:12]}.krill-stages"

    def _sweep(self) -> None:
        """Remove what a run was writing when it was killed or interrupted."""
        for folder in (self.work, *self._places_in_dataset(), *self.paths.stages.glob("*/")):
            sweep_temporaries(folder)

    def _places_in_dataset(self) -> list[Path]:
        """The folder, and those of its splits."""
        return [self.paths.dataset, *self.paths.dataset.glob("*/")]

    def _whole(self) -> bool:
        """Whether the dataset only has to be put into place: its manifest is written last."""
        return (self.paths.dataset / MANIFEST).is_file()


def _remove(folder: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)


def _read_run(path: Path) -> dict[str, Any] | None:
    """What `run.json` says, or None where it is no such file: then everything else there is leftovers."""
    found = read_object(path, links=False)
    if found is None:
        return None
    spill_dir = found.get("spill_dir")
    if spill_dir is None or (isinstance(spill_dir, str) and spill_dir and "\0" not in spill_dir):
        return found
    return None


def _is_of_others(folder: Path) -> bool:
    """Whether a folder holds something, and not what a run leaves there: the lock, files and folders."""
    if not folder.is_dir():
        return False
    with os.scandir(folder) as entries:
        # Links, pipes and the like: what opens one for removal may wait for ever.
        found = {
            entry.name: entry.is_symlink() or not (entry.is_file() or entry.is_dir()) for entry in entries
        }
    if not found:
        return False
    if _LOCK not in found:  # it comes first and goes last
        return not os.path.lexists(folder / _LOCK)
    return any(found.values()) or not _is_lock(folder / _LOCK)


def _is_lock(path: Path) -> bool:
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LONGEST_HOLDER:
            return False
        holder = path.read_bytes().strip()
    except FileNotFoundError:  # removed meanwhile, with all that was there
        return True
    return not holder or holder.isdigit()


def _hold(path: Path, output: Path, setting: str, *, shared: bool) -> int:
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
def _gate(folder: Path) -> Iterator[None]:
    """One of the processes that share a run at a time."""
    with storage_errors(folder):
        descriptor = os.open(folder / _GATE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
