"""A rank: one of several processes that share a run without any scheduler, on any machines.

In: which of how many this is. Out: its tasks of each stage, committed where all of them see it. Which tasks
are whose follows from the tasks alone, so nobody has to be asked; where a stage needs what the others have
made, this one waits for it. Held in memory: what a stage holds, and the list of tasks that are missing.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from krill.engines.engine import Engine
from krill.engines.stage import Stage
from krill.errors import ConfigError, StorageError

FINISH: Final = "finish"
PATIENCE: Final = 600.0
"""Seconds that a rank waits while none of the others commits anything."""
_POLL_SECONDS = 0.5
# How much of a log is read to show its end.
_LOG_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Rank:
    """Number `number`, from 1, of `world`."""

    number: int
    world: int

    def __str__(self) -> str:
        return f"{self.number}/{self.world}"

    @classmethod
    def parse(cls, text: str) -> Rank:
        """`2/16`."""
        found = re.fullmatch(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*", text)
        rank = None if found is None else cls(int(found[1]), int(found[2]))
        if rank is None or not 1 <= rank.number <= rank.world:
            raise ConfigError(
                f"--task is `{text}`, which is not a share of the work",
                hint="--task 1/16 to --task 16/16 are the sixteen shares; then --task finish",
            )
        return rank


@dataclass
class RankEngine(Engine):
    """Does its own tasks here, and waits for those of the others.

    While the value of `alive` changes, a driver starts lost ranks again, and there is reason to wait.
    """

    rank: Rank
    patience: float = PATIENCE
    note: Callable[[str], None] = lambda line: None
    alive: Callable[[], float] = lambda: 0.0

    shared = True

    def __post_init__(self) -> None:
        self.workers = self.rank.world

    def run(self, stage: Stage) -> None:
        bundles = stage.bundles(stage.tasks(), self.rank.world)
        own = islice(bundles, self.rank.number - 1, None, self.rank.world)
        missing = list(stage.missing(task for bundle in own for task in bundle))
        if missing:
            stage.run(missing)
        self._wait(stage)

    def facts(self) -> Mapping[str, Any]:
        return {"name": "rank", "workers": self.rank.world}

    def _wait(self, stage: Stage) -> None:
        """Until all tasks are committed, or nobody has committed any for too long."""
        before, alive, news = -1, self.alive(), 0.0
        for left in map(len, still_missing(stage, stage.tasks(), _POLL_SECONDS)):
            if left and before < 0:
                self.note(
                    f"task {self.rank} has done its part of {stage.name}; the others have {left:,} to go"
                )
            if left != before or self.alive() != alive:
                before, alive, news = left, self.alive(), time.monotonic()
            elif time.monotonic() - news > self.patience:
                raise StorageError(
                    f"task {self.rank} waits for {left:,} parts of the stage {stage.name}, and for"
                    f" {self.patience:,.0f} s nobody has finished one",
                    hint="start the other tasks, then this one again: what is done stays done;"
                    " `--task finish` does all the rest here",
                )


def still_missing(stage: Stage, tasks: Iterable[Any], pause: float) -> Iterator[list[Any]]:
    """Those of the tasks that are not committed, again after each pause; the last list is empty."""
    missing = list(stage.missing(tasks))
    yield missing
    while missing:
        time.sleep(pause)
        missing = list(stage.missing(missing))
        yield missing


def log_end(path: Path) -> str:
    """The last lines of a log, in one line."""
    if not path.exists():
        return "it left no log"
    with path.open("rb") as log:
        log.seek(max(0, path.stat().st_size - _LOG_BYTES))
        found = [line.strip() for line in log.read().decode(errors="replace").splitlines()]
    shown = " | ".join([line for line in found if line][-8:])
    return f"`{path}` ends with: {shown}" if shown else f"`{path}` is empty"
