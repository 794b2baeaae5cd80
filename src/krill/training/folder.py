"""A training's output: a folder that is used while it grows, finished when its manifest is there.

In: the output's path. Out: the folder. Held in memory: nothing.

Unlike a dataset, a model is of use before it is finished: checkpoints and metrics lie in the output folder
itself from the beginning, beside the file that says which run they are of. The manifest is written last.
Files that no training made are never removed and never replaced.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any, Final

from krill.errors import StorageError
from krill.storage.atomic import TEMPORARY_SUFFIX, storage_errors, sweep_temporaries, write_json
from krill.storage.commits import RunPaths
from krill.storage.input_file import read_object
from krill.storage.outputs import MANIFEST, refuse_foreign
from krill.storage.run import CONTINUE, LAYOUT, State

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


class TrainFolder:
    """Storage for a run that trains a model; `setting` is where the user named the output, for messages."""

    def __init__(self, output: Path, *, command: str = COMMAND, setting: str = SETTING) -> None:
        self.output = output
        self.command = command
        self.setting = setting
        self.paths = RunPaths(output, output)
        self._made: list[Path] = []
        self._lock: int | None = None

    @property
    def checkpoints(self) -> Path:
        return self.output / CHECKPOINTS

    @property
    def metrics(self) -> Path:
        return self.output / METRICS

    @property
    def address(self) -> str:
        return str(self.output.absolute())

    def open(self) -> None:
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
                hint=f"wait for it to end, or choose another `{self.setting}`",
            ) from None

    def close(self, *, failing: bool) -> None:
        with suppress(OSError):  # what holds something stays
            for folder in self._made:
                folder.rmdir()
        if self._lock is not None:
            os.close(self._lock)

    def exclusive(self) -> AbstractContextManager[None]:
        return nullcontext()

    def finished(self) -> dict[str, Any] | None:
        return read_object(self.output / MANIFEST)

    def begun(self) -> dict[str, Any] | None:
        """Only a run with a checkpoint can be continued."""
        if self.finished() is not None or not any(self.checkpoints.glob("[0-9]*")):
            return None
        return read_object(self.output / BEGUN)

    def committed(self, begun: Mapping[str, Any]) -> bool:
        return True

    def prepare(self, run: Mapping[str, Any], finished: Mapping[str, Any] | None) -> None:
        """Nothing is removed yet: the session does that by `start`, when it has a plan that fits."""
        check_ours(self.output, self.setting)
        if run["overwrite"]:
            self._refuse_foreign()

    def resume(
        self, begun: Mapping[str, Any], run: Mapping[str, Any], finished: Mapping[str, Any] | None
    ) -> State:
        return CONTINUE

    def tidy(self) -> None: ...

    def note(self, name: str, value: Any) -> None:
        write_json(self.output / name, value)

    def noted(self, name: str) -> dict[str, Any] | None:
        return read_object(self.output / name)

    def start(self, run: Mapping[str, Any]) -> None:
        """Remove what an earlier run left, and say which one begins."""
        with storage_errors(self.output):
            for name in _OURS:
                (self.output / name).unlink(missing_ok=True)
            for name, ours in _OUR_FOLDERS.items():
                _remove_matching(self.output / name, ours)
        write_json(self.output / BEGUN, {**run, "layout": LAYOUT})

    def begin_saving(self) -> None:
        """Before the model's files are written: those that are there already are not this run's, unless it
        was killed while it wrote them."""
        begun = read_object(self.output / BEGUN) or {}
        if begun.get(_SAVING):
            return
        taken = [name for name in _MODEL if os.path.lexists(self.output / name)]
        kept = "nothing there was touched, and the last checkpoint is kept"
        refuse_foreign(taken, str(self.output), None, kept=kept)
        write_json(self.output / BEGUN, {**begun, _SAVING: True})

    def sweep(self) -> None:
        sweep_temporaries(self.output)

    def publish(self, *, threads: int = 1) -> None:
        """The manifest is there: from now on the run is finished."""
        with storage_errors(self.output):
            (self.output / BEGUN).unlink(missing_ok=True)

    def discard(self, *, threads: int = 1) -> None:
        """A training that was begun is always kept."""

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
        refuse_foreign(foreign, str(self.output), self.setting, kept="nothing in it was touched")


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
