"""The folder that a run writes: locked, resumable, published whole.

While a run works, everything is in a hidden folder beside the output: `.NAME.krill/` with the lock, what the
run is (`run.json`), the stages' commit logs, and the dataset so far. The last step renames the finished
dataset into place, so the output is either an earlier finished one, untouched, or the new one, whole.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson

from krill.errors import ConfigError, StorageError
from krill.flow.atomic import atomic_writer, fsync_dir, storage_errors

MANIFEST = "krill-run.json"


class RunFolder:
    """One run's hold on its output; a context manager that keeps the lock."""

    def __init__(self, output: Path, spill_dir: Path | None) -> None:
        self.output = output
        self.work = output.parent / f".{output.name}.krill"
        self.stages = self.work / "stages" if spill_dir is None else spill_dir / f"{output.name}.krill-stages"
        self.dataset = self.work / "dataset"
        self._lock: int | None = None

    def __enter__(self) -> RunFolder:
        with storage_errors(self.work):
            self.work.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(self.work / "lock", self.output)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not (self.work / "run.json").exists():
            # Nothing was begun, or everything was published: leave no trace.
            shutil.rmtree(self.work, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)

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
            raise StorageError(
                f"`{self.output}` is there already and is not a Krill output: nothing in it was touched",
                hint="choose another `preprocess.prepared_path`, or move what is there away",
            )
        return None

    def begun(self) -> dict[str, Any] | None:
        """What an unfinished run here was, or None."""
        try:
            found = orjson.loads((self.work / "run.json").read_bytes())
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def begin(self, run: Mapping[str, Any], *, overwrite: bool) -> str:
        """Decide what this command does: "finished" (nothing), "continue" an unfinished run, or "start".

        A finished output or an unfinished run that was made differently is refused unless `overwrite`, which
        always starts anew. A run that was started to replace a finished output is continued without it.
        """
        finished, before = self.finished(), self.begun()
        if not overwrite:
            if before is not None and before.get("identity") == run["identity"]:
                if finished is None or before.get("overwrite"):
                    return "continue"
            elif before is not None:
                raise changed_config(before, run, f"an unfinished run for `{self.output}`")
            if finished is not None:
                if finished.get("identity") != run["identity"]:
                    raise changed_config(finished, run, f"the output `{self.output}`")
                return "finished"
        with storage_errors(self.work):
            for folder in (self.stages, self.dataset):
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
            with atomic_writer(self.work / "run.json") as file:
                file.write(orjson.dumps({**run, "overwrite": overwrite}))
        return "start"

    def publish(self) -> None:
        """Rename the finished dataset into place and remove everything else."""
        with storage_errors(self.output):
            old = self.work / "old"
            shutil.rmtree(old, ignore_errors=True)
            if self.output.exists():
                self.output.rename(old)
            self.dataset.rename(self.output)
            fsync_dir(self.output.parent)
            (self.work / "run.json").unlink()
            shutil.rmtree(self.stages, ignore_errors=True)
            shutil.rmtree(self.work, ignore_errors=True)


def changed_config(before: Mapping[str, Any], now: Mapping[str, Any], what: str) -> ConfigError:
    """The refusal to mix two configs in one folder, naming what differs."""
    from krill.config import differing_keys
    from krill.corpus import changed

    differences = differing_keys(before.get("config", {}), now["config"])
    differences += [f"input `{path}`" for path in changed(before.get("inputs", []), now["inputs"])]
    if before.get("tokenizer_fingerprint", before.get("tokenizer")) != now["tokenizer"]:
        differences.append("the tokenizer's content")
    if before.get("krill") != now["krill"]:
        differences.append(f"Krill's version, {before.get('krill')} then and {now['krill']} now")
    listed = "; ".join(differences) or "its identity"
    return ConfigError(
        f"{what} was made differently: {listed}",
        hint="use another `preprocess.prepared_path`, undo the change, or start anew with --overwrite",
    )


def _lock(path: Path, output: Path) -> int:
    """An exclusive lock on `path`, also when another run removes the file meanwhile."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise StorageError(
                f"another run is writing `{output}` (process {holder})",
                hint="wait for it to end, or choose another `preprocess.prepared_path`",
            ) from None
        try:
            same = os.stat(path).st_ino == os.fstat(descriptor).st_ino
        except FileNotFoundError:
            same = False
        if same:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            return descriptor
        os.close(descriptor)
        path.parent.mkdir(parents=True, exist_ok=True)
