"""The folder that a run writes: locked, resumable, published whole.

While a run works, everything is in a hidden folder beside the output: `.NAME.krill/` with the lock, what the
run is (`run.json`), the stages' commit logs, and the dataset so far. The last step renames the finished
dataset into place, so the output is either an earlier finished one, untouched, or the new one, whole.

A run may be killed between any two of these steps. What keeps that simple: `run.json` is written when the
folders it speaks of are there, and removed before they are; so without it, whatever lies around is litter.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson

from krill.errors import StorageError
from krill.flow.atomic import atomic_writer, fsync_dir, storage_errors, sweep_temporaries, write_json
from krill.flow.decision import CONTINUE, START, Differences, decide, not_ours
from krill.flow.files import LOCAL, Files
from krill.flow.ordered import ordered_map
from krill.flow.uninterrupted import uninterrupted

MANIFEST = "krill-run.json"


class RunFolder:
    """One run's hold on its output; a context manager that keeps the lock.

    `setting` is where the user named the output, for messages; `differences` says what makes two runs differ.
    Where several processes work on one run, each holds it `shared`: they keep others out, and remove nothing,
    as it may be another's.
    """

    def __init__(
        self,
        output: Path,
        spill_dir: Path | None,
        *,
        setting: str,
        differences: Differences,
        shared: bool = False,
    ) -> None:
        self._shared = shared
        self._setting = setting
        self._differences = differences
        # To where the data really is: a rename would replace the link and not what it names.
        output = output.resolve() if output.is_symlink() else output
        if output.is_mount():
            raise StorageError(
                f"`{output}` is a mount point, and the finished dataset is put into place by a rename",
                hint=f"set `{setting}` to a folder in it, such as `{output / 'output'}`",
            )
        self.output = output
        self.files: Files = LOCAL
        self.work = output.parent / f".{output.name}.krill"
        self.dataset = self.work / "dataset"
        self._spill_dir = None if spill_dir is None else str(spill_dir.resolve())
        self.stages = self._stages_in(self._spill_dir)
        self._run = self.work / "run.json"
        self._old = self.work / "old"
        self._made: list[Path] = []
        self._lock: int | None = None
        self._gone = False

    def __enter__(self) -> RunFolder:
        try:
            # An interrupt in between could not tell whether the folder is ours to remove.
            with uninterrupted(), storage_errors(self.work):
                self._made = [folder for folder in self.work.parents if not folder.exists()]
                self.work.mkdir(parents=True, exist_ok=True)
                self._lock = _lock(self.work / "lock", self.output, self._setting, shared=self._shared)
                if not self._shared:
                    self._bring_back_old()
        except BaseException:
            if self._lock is not None:
                self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        """Keep what a later command can go on with, and nothing else."""
        if not self._gone and not self._shared:
            with suppress(OSError):
                self._bring_back_old()
            before = self.begun()
            if before is None or not self._anything_committed(before):
                self.discard()
            with suppress(StorageError):
                self._sweep()
        if self._lock is not None:
            os.close(self._lock)

    def discard(self, *, threads: int = 1) -> None:
        """Leave no trace of an unfinished run. Never raises: another error may be on its way."""
        self._gone = True  # once the lock file is removed, the folder may be another run's
        before = self.begun() or {}
        with suppress(OSError):
            self._run.unlink(missing_ok=True)
        for folder in (self._stages_in(before.get("spill_dir")), self.stages, self.work):
            if threads > 1:
                _empty(folder, threads)
            shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            for folder in self._made:
                folder.rmdir()

    def finished(self) -> dict[str, Any] | None:
        """The manifest of the output that is there, or None; refuses a folder that is not ours."""
        manifest = self.output / MANIFEST
        if manifest.is_file():
            try:
                found = orjson.loads(manifest.read_bytes())
            except (OSError, ValueError):
                found = None
            if isinstance(found, dict):
                return found
        if self.output.exists() and (not self.output.is_dir() or any(self.output.iterdir())):
            raise not_ours(str(self.output), self._setting)
        return None

    def begun(self) -> dict[str, Any] | None:
        """What an unfinished run here was, or None."""
        try:
            found = orjson.loads(self._run.read_bytes())
        except (OSError, ValueError):
            return None
        # Without its dataset the run was published, and killed before it could tidy up.
        return found if isinstance(found, dict) and self.dataset.is_dir() else None

    def begin(self, run: Mapping[str, Any], *, overwrite: bool) -> str:
        """Decide what this command does: "finished" (nothing), "continue" an unfinished run, or "start".

        A finished output or an unfinished run that was made differently is refused unless `overwrite`, which
        always starts anew. A run that was started to replace a finished output is continued without it.
        """
        if not self._shared:
            return self._begin(run, overwrite=overwrite)
        with storage_errors(self.work), (self.work / "begin.lock").open("w") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)  # two that come at once must not both start it
            return self._begin(run, overwrite=overwrite)

    def _begin(self, run: Mapping[str, Any], *, overwrite: bool) -> str:
        before = self.begun()
        decision = decide(
            self.finished(),
            before,
            run,
            overwrite=overwrite,
            committed=self._anything_committed,
            differences=self._differences,
            output=str(self.output),
            setting=self._setting,
        )
        if decision == CONTINUE:
            assert before is not None
            return self._continue(before, run)
        if decision == START:
            self._start(run, overwrite=overwrite)
        return decision

    @property
    def address(self) -> str:
        """Where a worker finds the run."""
        return str(self.work.absolute())

    def note(self, name: str, value: Any) -> None:
        """Leave something for the workers, beside what the run is."""
        write_json(self.work / name, value)

    def publish(self, *, threads: int = 1) -> None:
        """Rename the finished dataset into place and remove everything else."""
        # What workers of this run were writing when they died; while it runs, others may be writing there.
        for folder in self._places_in_dataset():
            sweep_temporaries(folder)
        with storage_errors(self.output):
            _remove(self._old)
            if self.output.exists():
                self.output.rename(self._old)
            self.dataset.rename(self.output)
            fsync_dir(self.output.parent)
        self.discard(threads=threads)

    def _bring_back_old(self) -> None:
        """If publishing got no further than to move the old output out of the way."""
        if self._old.exists() and not self.output.exists():
            self._old.rename(self.output)

    def _continue(self, before: Mapping[str, Any], run: Mapping[str, Any]) -> str:
        if before.get("spill_dir") == self._spill_dir:
            if not self._shared:
                self._sweep()
            return CONTINUE
        self._start(run, overwrite=bool(before.get("overwrite")))  # its stages are to be elsewhere
        return START

    def _start(self, run: Mapping[str, Any], *, overwrite: bool) -> None:
        before = self.begun() or {}
        with storage_errors(self.work):
            self._run.unlink(missing_ok=True)
            _remove(self._stages_in(before.get("spill_dir")))
        for folder in (self.stages, self.dataset):
            with storage_errors(folder):
                _remove(folder)
                folder.mkdir(parents=True)
        begun = {**run, "overwrite": overwrite, "spill_dir": self._spill_dir}
        with atomic_writer(self._run) as file:
            file.write(orjson.dumps(begun))

    def _stages_in(self, spill_dir: str | None) -> Path:
        """Where the stages keep their files; outputs of the same name may share a `spill_dir`."""
        if spill_dir is None:
            return self.work / "stages"
        place = hashlib.sha256(os.fsencode(self.output.resolve())).hexdigest()
        return Path(spill_dir) / f"{self.output.name}.{place[:12]}.krill-stages"

    def _sweep(self) -> None:
        """Remove what a run was writing when it was killed or interrupted."""
        for folder in (self.work, *self._places_in_dataset(), *self.stages.glob("*/")):
            sweep_temporaries(folder)

    def _places_in_dataset(self) -> list[Path]:
        """The folder, and those of its splits."""
        return [self.dataset, *self.dataset.glob("*/")]

    def _anything_committed(self, before: Mapping[str, Any]) -> bool:
        """Whether there is work that a later command could go on with."""
        return any(self._stages_in(before.get("spill_dir")).glob("*/*.json"))


def _empty(folder: Path, threads: int) -> None:
    """Remove the files of a folder: the system takes a second to forget the pages of a gigabyte of them."""

    def unlink(path: Path) -> None:
        with suppress(OSError):
            path.unlink()

    files = (path for path in folder.glob("**/*") if not path.is_dir())
    for _ in ordered_map(unlink, files, threads=threads, bytes_in_flight=threads, size=lambda _: 1):
        pass


def _remove(folder: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)


def _lock(path: Path, output: Path, setting: str, *, shared: bool) -> int:
    """A lock on `path`, also when another run removes the file meanwhile."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 32).decode("ascii", "replace").strip() or "unknown"
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
