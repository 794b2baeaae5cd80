"""The checkpoints of a run: the newest few and the best, each one whole or absent.

In: the state of a training, and as plain JSON whatever else a run needs to go on. Out: a folder for each
step; the newest state that is whole, bit-identical, with what was stored beside it. Held in memory:
while saving, a few megabytes above the state (`checkpoint_files`); while restoring, the state.

Not orbax's `CheckpointManager`: saving a state of 200 MB took 284 MB with it and 42 MB here, and it restores
a flipped bit without a word.

A checkpoint is written in a hidden folder, synced and renamed. A full disk does not end training: the
reason is noted and earlier checkpoints stay. A damaged one is found by its checksums, noted, and
the one before it is used.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import jax

from krill.errors import StorageError
from krill.storage.atomic import TEMPORARY_SUFFIX, fsync_dir, storage_errors
from krill.training.checkpoint_files import (
    HEADER,
    DamagedCheckpoint,
    Header,
    named_arrays,
    read_arrays,
    read_header,
    verify,
    write_checkpoint,
)
from krill.training.step import TrainState

# What importing orbax and saving take above the state, for a plan to set aside: 32 to 35 MB with states of 48
# to 427 MB.
SAVING_BYTES = 40 * 10**6

_REPLACED = ".replaced"


Model = TypeVar("Model")


@dataclass(frozen=True, slots=True)
class Restored:
    step: int
    state: TrainState
    extra: dict[str, Any]


class CheckpointStore:
    """The folder of checkpoints. One process writes it, under the lock of its run; others may read.

    `note` gets a line when something went wrong: what, and what was done instead.
    """

    def __init__(self, folder: Path, *, keep: int, note: Callable[[str], None]) -> None:
        self._folder = folder
        self._keep = max(keep, 1)
        self._note = note
        # Whether partly written files may be left, of a killed run or a failed save.
        self._leftovers = True

    def save(
        self, step: int, state: TrainState, extra: Mapping[str, Any], *, metric: float | None = None
    ) -> bool:
        """Write the state after `step`, then remove old checkpoints; False where it can't be written.

        The best checkpoint has the smallest `metric`; one without a metric is never the best.
        """
        unfinished = self._folder / f".{_name(step)}.{os.urandom(4).hex()}{TEMPORARY_SUFFIX}"
        try:
            self._clean_up()
            with storage_errors(self._folder):
                unfinished.mkdir(parents=True)
            write_checkpoint(
                unfinished, named_arrays(state), state.model.shape, extra, step=step, metric=metric
            )
            self._publish(unfinished, step)
        except StorageError as error:
            self._leftovers = True
            self._note(f"no checkpoint at step {step:,}: {error.message}; training goes on ({error.hint})")
            return False
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        self._remove_old()
        return True

    def steps(self) -> list[int]:
        """The steps with a checkpoint, first to last."""
        names = (path.parent.name for path in self._folder.glob(f"[0-9]*/{HEADER}"))
        return sorted(int(name) for name in names if name.isdecimal())

    def latest(self) -> int | None:
        """The newest; its files are not verified."""
        return max(self.steps(), default=None)

    def best(self) -> int | None:
        """The one with the smallest metric, the first of equals."""
        metrics = [(header.metric, step) for step in self.steps() if (header := self.header(step))]
        known = [(metric, step) for metric, step in metrics if metric is not None and math.isfinite(metric)]
        return min(known)[1] if known else None

    def header(self, step: int | None = None) -> Header | None:
        """What was stored beside the arrays, of `step` or the newest; reads none of the arrays.

        If those turn out to be damaged, `restore` takes an earlier checkpoint: go on from *its* extra.
        """
        for candidate in self._candidates(step):
            with suppress(DamagedCheckpoint):
                return read_header(self._folder / _name(candidate))
        return None

    def restore(self, like: TrainState, step: int | None = None) -> Restored | None:
        """The state of `step`, or of the newest checkpoint that is intact; None where there is none.

        `like` is a state of the same form: shapes (`jax.eval_shape`), or arrays or shapes with a sharding.
        """
        self._clean_up()
        found = self._read(named_arrays(like), step)
        if found is None:
            return None
        header, arrays = found
        return Restored(header.step, jax.tree.unflatten(jax.tree.structure(like), arrays), header.extra)

    def restore_model(self, like: Model, step: int | None = None) -> Model | None:
        """The weights alone, as `restore`; the optimizer's state is not read."""
        found = self._read({f"model.{name}": leaf for name, leaf in named_arrays(like).items()}, step)
        if found is None:
            return None
        model: Model = jax.tree.unflatten(jax.tree.structure(like), found[1])
        return model

    def close(self) -> None:
        """Removes what a failed save left."""
        with suppress(StorageError):
            self._clean_up()

    def _read(self, like: Mapping[str, Any], step: int | None) -> tuple[Header, list[jax.Array]] | None:
        for candidate in self._candidates(step):
            folder = self._folder / _name(candidate)
            try:
                header = read_header(folder)
                verify(folder, header)
            except DamagedCheckpoint as damage:
                self._note(f"the checkpoint of step {candidate:,} is damaged and skipped: {damage}")
                continue
            found = read_arrays(folder, header, like)
            return header, [found[name] for name in like]
        return None

    def _candidates(self, step: int | None) -> list[int]:
        """The steps to try, in order: a step that is given by its number has no substitute."""
        return [step] if step is not None else self.steps()[::-1]

    def _publish(self, unfinished: Path, step: int) -> None:
        """Rename; a checkpoint of the same step is moved aside, and back by `_clean_up` after a failure."""
        target = self._folder / _name(step)
        replaced = self._folder / f".{_name(step)}{_REPLACED}"
        with storage_errors(target):
            if target.exists():
                target.rename(replaced)
            unfinished.rename(target)
        fsync_dir(self._folder)
        shutil.rmtree(replaced, ignore_errors=True)

    def _remove_old(self) -> None:
        best = self.best()
        for step in self.steps()[: -self._keep]:
            if step != best:
                self._remove(step)

    def _remove(self, step: int) -> None:
        """Renamed first: a kill in between leaves nothing that looks like a checkpoint."""
        hidden = self._folder / f".{_name(step)}.{os.urandom(4).hex()}{TEMPORARY_SUFFIX}"
        with suppress(OSError):
            (self._folder / _name(step)).rename(hidden)
        shutil.rmtree(hidden, ignore_errors=True)

    def _clean_up(self) -> None:
        """Restore a checkpoint whose replacement never came, and remove partly written ones.

        Only for the process that writes: it can't tell another's unfinished checkpoint from a leftover.
        """
        if not self._leftovers or not self._folder.is_dir():
            return
        with storage_errors(self._folder):
            for replaced in self._folder.glob(f".*{_REPLACED}"):
                target = self._folder / replaced.name.removeprefix(".").removesuffix(_REPLACED)
                if target.exists():
                    shutil.rmtree(replaced)
                else:
                    replaced.rename(target)
            for leftover in self._folder.glob(f".*{TEMPORARY_SUFFIX}"):
                shutil.rmtree(leftover)
        self._leftovers = False


def _name(step: int) -> str:
    return f"{step:08d}"
