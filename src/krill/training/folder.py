"""The folder of a training: locked while it runs, resumable, finished when its manifest is there.

In: what a run is (its identity and what shapes it). Out: whether it is finished, goes on, or starts. Held in
memory: nothing.

Unlike a dataset, a model is of use before it is finished: checkpoints and metrics lie in the output folder
itself from the beginning, beside the file that says which run they are of. The manifest is written last.
Files that no training made are never removed and never replaced.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

from krill.errors import ConfigError, StorageError
from krill.storage.atomic import TEMPORARY_SUFFIX, storage_errors, sweep_temporaries, write_json
from krill.storage.input_file import MOST_MANIFEST, read_json
from krill.storage.outputs import MANIFEST, refuse_foreign

COMMAND: Final = "train"
SETTING: Final = "train.output_dir"
BEGUN: Final = ".krill-begun.json"
CHECKPOINTS: Final = "checkpoints"
METRICS: Final = "metrics.jsonl"
# What a command may have made for the run before it begins, and what a later one uses again.
BESIDE: Final = ("tokenizer", "dataset", "config.yaml")
# The model itself, which comes last.
_MODEL: Final = ("config.json", "model.safetensors")
# What a run makes: all that starting anew removes, of folders what is named in a certain way.
_OURS: Final = (
    MANIFEST,
    METRICS,
    *_MODEL,
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
)
_OUR_FOLDERS: Final = {
    CHECKPOINTS: re.compile(r"\d+|\..*"),
    "tensorboard": re.compile(r"events\.out\.tfevents\..*"),
}
# Whether the model's own files are this run's: set before the first of them is written.
_SAVING: Final = "saving"

State = Literal["finished", "continue", "start"]
Differences = Callable[[Mapping[str, Any], Mapping[str, Any]], list[str]]


class TrainFolder:
    """One run's hold on its output; a context manager that keeps the lock."""

    def __init__(
        self, output: Path, differences: Differences, *, command: str = COMMAND, setting: str = SETTING
    ) -> None:
        """`setting` is where the user named the output, for messages."""
        self.output = output
        self._differences = differences
        self._command = command
        self._setting = setting
        self._made: list[Path] = []
        self._lock: int | None = None

    @property
    def checkpoints(self) -> Path:
        return self.output / CHECKPOINTS

    @property
    def metrics(self) -> Path:
        return self.output / METRICS

    def __enter__(self) -> Self:
        with storage_errors(self.output):
            self._made = [folder for folder in (self.output, *self.output.parents) if not folder.exists()]
            self.output.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.output, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise StorageError(
                f"another run is writing `{self.output}`",
                hint=f"wait for it to end, or choose another `{self._setting}`",
            ) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # what holds something stays
            for folder in self._made:
                folder.rmdir()
        if self._lock is not None:
            os.close(self._lock)

    def manifest(self) -> dict[str, Any] | None:
        """Of the finished model that is here, or None."""
        return _read_json(self.output / MANIFEST)

    def decide(self, run: Mapping[str, Any], *, overwrite: bool, anew: bool) -> State:
        """What this command does. What was made differently is refused unless `overwrite`; `anew` leaves an
        unfinished run but not a finished one. Both are refused while there are files of others."""
        finished, begun = self.manifest(), _read_json(self.output / BEGUN)
        if finished is None and begun is None:
            check_ours(self.output, self._setting)
            return "start"
        if finished is not None and finished.get("command") != self._command:
            raise StorageError(
                f"`{self.output}` holds the output of `krill {finished.get('command')}`",
                hint=f"choose another `{self._setting}`",
            )
        if overwrite:
            self._refuse_foreign()
            return "start"
        if finished is not None:
            self._check_same(finished, run, f"the model `{self.output}`")
            return "finished"
        if anew:
            self._refuse_foreign()
            return "start"
        if begun is None or not any(self.checkpoints.glob("[0-9]*")):
            return "start"
        self._check_same(begun, run, f"an unfinished training in `{self.output}`")
        return "continue"

    def start(self, run: Mapping[str, Any]) -> None:
        """Remove what an earlier run left, and say which one begins."""
        with storage_errors(self.output):
            for name in _OURS:
                (self.output / name).unlink(missing_ok=True)
            for name, ours in _OUR_FOLDERS.items():
                _remove_matching(self.output / name, ours)
        write_json(self.output / BEGUN, run)

    def begin_saving(self) -> None:
        """Before the model's files are written: those that are there already are not this run's, unless it
        was killed while it wrote them."""
        begun = _read_json(self.output / BEGUN) or {}
        if begun.get(_SAVING):
            return
        taken = [name for name in _MODEL if os.path.lexists(self.output / name)]
        kept = "nothing there was touched, and the last checkpoint is kept"
        refuse_foreign(
            taken, str(self.output), kept=kept, hint="move that elsewhere and run the same command"
        )
        write_json(self.output / BEGUN, {**begun, _SAVING: True})

    def sweep(self) -> None:
        """Remove what a killed run was writing."""
        sweep_temporaries(self.output)

    def finish(self, manifest: Mapping[str, Any]) -> None:
        """The manifest: from now on the run is finished."""
        write_json(self.output / MANIFEST, manifest)
        with storage_errors(self.output):
            (self.output / BEGUN).unlink(missing_ok=True)

    def _refuse_foreign(self) -> None:
        """Before everything of an earlier run is removed: what else is there would be lost or mixed up."""
        with storage_errors(self.output):
            foreign = [
                path.name
                for path in self.output.iterdir()
                if path.name not in (*_OURS, *_OUR_FOLDERS, *BESIDE, BEGUN)
                and not path.name.endswith((TEMPORARY_SUFFIX, ".krill"))
            ]
            for name, ours in _OUR_FOLDERS.items():
                folder = self.output / name
                inside = [path.name for path in folder.iterdir()] if folder.is_dir() else []
                foreign += [f"{name}/{other}" for other in inside if not ours.fullmatch(other)]
        refuse_foreign(
            foreign,
            str(self.output),
            kept="nothing in it was touched",
            hint=f"move that elsewhere and run the same command, or choose another `{self._setting}`",
        )

    def _check_same(self, before: Mapping[str, Any], now: Mapping[str, Any], what: str) -> None:
        if before.get("identity") == now["identity"]:
            return
        found = self._differences(before, now)
        if before.get("krill") != now["krill"]:
            found.append(f"Krill's version, {before.get('krill')} then and {now['krill']} now")
        raise ConfigError(
            f"{what} was made differently: {'; '.join(found) or 'its identity'}",
            hint=f"use another `{self._setting}`, undo the change, or start anew with --overwrite",
        )


def check_ours(output: Path, setting: str = SETTING) -> None:
    """Refuse a folder with files in it that no training has begun or made."""
    if not output.exists() or any((output / name).exists() for name in (MANIFEST, BEGUN)):
        return
    other = sorted(path.name for path in output.iterdir() if path.name not in BESIDE)
    if other:
        raise StorageError(
            f"`{output}` is there already and is not a Krill output: it has `{other[0]}`; nothing in it was"
            " touched",
            hint=f"choose another `{setting}`, or move what is there away",
        )


def _remove_matching(folder: Path, names: re.Pattern[str]) -> None:
    """What is named so, and the folder if it is empty then."""
    if folder.is_dir() and not folder.is_symlink():
        for path in folder.iterdir():
            if not names.fullmatch(path.name):
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        with suppress(OSError):
            folder.rmdir()


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        found = read_json(path, MOST_MANIFEST)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
