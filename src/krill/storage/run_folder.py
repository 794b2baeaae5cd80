"""The folder that a run writes: locked, resumable, published whole.

While a run works, everything is in a hidden folder beside the output: `.NAME.krill/` with the lock, what the
run is (`run.json`), the stages' commit logs, and the dataset so far. The last step renames the finished
dataset into place, so the output is either an earlier finished one, untouched, or the new one, whole. What
somebody else has put there meanwhile is neither replaced nor removed: the run ends with a StorageError, its
finished dataset is kept, and the same command publishes it when the place is free.

A run may be killed between any two of these steps. What keeps that simple: `run.json` is written when the
folders it speaks of are there, and removed before they are; so without it, whatever lies around is litter.
"""

from __future__ import annotations

import errno
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
from krill.storage.atomic import (
    atomic_writer,
    fsync_dir,
    listed,
    storage_errors,
    sweep_temporaries,
    write_json,
)
from krill.storage.decision import CONTINUE, PUBLISHED, START, Differences, decide, not_ours
from krill.storage.files import LOCAL, Files
from krill.storage.input_file import MOST_MANIFEST, read_json
from krill.storage.outputs import (
    MANIFEST,
    OutputKind,
    entries_of,
    foreign_files,
    refuse_foreign,
    remove_written,
    unlink_all,
)
from krill.storage.work_folder import LOCK, begun_run, gate, hold, is_of_others
from krill.threads.uninterrupted import uninterrupted

# What a rename says of a folder whose new name is taken: by a folder that is not empty, or by a file.
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


class RunFolder:
    """One run's hold on its output; a context manager that keeps the lock.

    `setting` is where the user named the output, for messages; `differences` says what makes two runs differ,
    `kind` what the command writes.
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
        kind: OutputKind,
        shared: bool = False,
    ) -> None:
        self._shared = shared
        self._setting = setting
        self._differences = differences
        self._kind = kind
        # To where the data really is: a rename would replace the link and not what it names.
        with storage_errors(output):
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
        self._replaced = self.work / "replaced"
        self._made: list[Path] = []
        self._lock: int | None = None
        self._gone = False

    def __enter__(self) -> RunFolder:
        try:
            # An interrupt in between could not tell whether the folder is ours to remove.
            with uninterrupted(), storage_errors(self.work):
                self._made = [folder for folder in self.work.parents if not folder.exists()]
                self._refuse_work_of_others()
                self.work.mkdir(parents=True, exist_ok=True)
                self._lock = hold(self.work / LOCK, self.output, self._setting, shared=self._shared)
                if not self._shared:
                    self._bring_back_old()
                    if not self.dataset.exists():  # it was published, and killed before it could tidy up
                        self._retire_old()
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
        for folder in (self._stages_in(before.get("spill_dir")), self.stages, self.dataset):
            if threads > 1:
                unlink_all((path for path in folder.glob("**/*") if not path.is_dir()), threads)
            shutil.rmtree(folder, ignore_errors=True)
        self._remove_replaced(threads)
        if not self._replaced.exists() and not self._old.exists():
            self._remove_work()
        with suppress(OSError):
            for folder in self._made:
                folder.rmdir()

    def _refuse_work_of_others(self) -> None:
        if is_of_others(self.work):
            raise not_ours(str(self.work), self._setting)

    def _remove_work(self) -> None:
        """The lock last: what is left when this is killed is still seen to be Krill's. Never raises."""
        with suppress(OSError):
            for path in self.work.iterdir():
                if path.name != LOCK:
                    if path.is_dir() and not path.is_symlink():
                        shutil.rmtree(path, ignore_errors=True)
                    else:
                        path.unlink(missing_ok=True)
            (self.work / LOCK).unlink(missing_ok=True)
            self.work.rmdir()

    def finished(self) -> dict[str, Any] | None:
        """The manifest of the output that is there, or None; refuses a folder that is not ours."""
        found = _manifest_in(self.output)
        if found is not None:
            return found
        if self.output.is_symlink() or self.output.exists():
            with storage_errors(self.output):
                taken = not self.output.is_dir() or any(self.output.iterdir())
            if taken:
                raise not_ours(str(self.output), self._setting)
        return None

    def begun(self) -> dict[str, Any] | None:
        """What an unfinished run here was, or None."""
        # Without its dataset the run was published, and killed before it could tidy up.
        return begun_run(self._run) if self.dataset.is_dir() else None

    def begin(self, run: Mapping[str, Any], *, overwrite: bool) -> str:
        """Decide what this command does: "finished" (nothing), "continue" an unfinished run, or "start";
        "published" if all that was left to do was to put a finished dataset into place, which is done then.

        A finished output or an unfinished run that was made differently is refused unless `overwrite`, which
        always starts anew. A run that was started to replace a finished output is continued without it. What
        is to be replaced must hold nothing but what Krill wrote.
        """
        if not self._shared:
            return self._begin(run, overwrite=overwrite)
        with storage_errors(self.work), gate(self.work):  # two that come at once must not both start it
            return self._begin(run, overwrite=overwrite)

    def _begin(self, run: Mapping[str, Any], *, overwrite: bool) -> str:
        before, finished = self.begun(), self.finished()
        if finished is not None:
            self._kind.check_replaceable(finished, str(self.output), self._setting)
        decision = decide(
            finished,
            before,
            run,
            overwrite=overwrite,
            committed=self._anything_committed,
            differences=self._differences,
            output=str(self.output),
            setting=self._setting,
        )
        if decision in (CONTINUE, START) and finished is not None:
            self._refuse_foreign(self.output, finished, "nothing in it was touched")
        if decision == CONTINUE:
            assert before is not None
            if not self._shared and self._whole():
                self.publish()
                return PUBLISHED
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
                self.dataset.rename(self.output)
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
        finished = _manifest_in(self.output)
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
        refuse_foreign(
            foreign,
            str(self.output),
            kept=kept,
            hint=f"move that elsewhere and run the same command, or choose another `{self._setting}`",
        )

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
        manifest = _manifest_in(self._replaced)
        written = self._kind.written(manifest) if manifest is not None else ()
        remove_written(self._replaced, written, threads=threads)

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
        replaces = (self.finished() or {}).get("identity")
        for folder in (self.stages, self.dataset):
            with storage_errors(folder):
                _remove(folder)
                folder.mkdir(parents=True)
        begun = {**run, "overwrite": overwrite, "replaces": replaces, "spill_dir": self._spill_dir}
        with atomic_writer(self._run) as file:
            file.write(orjson.dumps(begun, listed))

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
        return self._whole() or any(self._stages_in(before.get("spill_dir")).glob("*/*.json"))

    def _whole(self) -> bool:
        """Whether the dataset only has to be put into place: its manifest is written last."""
        return (self.dataset / MANIFEST).is_file()


def _manifest_in(folder: Path) -> dict[str, Any] | None:
    """What a finished output says of itself; None where there is none."""
    try:
        found = read_json(folder / MANIFEST, MOST_MANIFEST)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _remove(folder: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
