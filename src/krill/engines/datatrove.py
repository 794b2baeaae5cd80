"""Ranks of one of datatrove's executors: processes of this machine, or jobs of Slurm's.

In: a run. Out: all of its stages, done by ranks that are started together and wait for each other on the
commit log, as those of `--task` do (`rank.py`). Held in memory: the tasks that are missing, never what they
make.

The driver starts the ranks, walks through the stages beside them, starts those anew that were lost, and stops
with a rank's own error. All that they share is a folder in the run's work folder:

    alive                     touched by the driver; ranks that wait give up when it stands still
    start-N/order-RANK        what a rank is to do, then answer-RANK, what came of it
    start-N/process-RANK      the process that does it
    start-N/...               what datatrove writes: its executor, its scripts, its logs
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from krill.budget import available_bytes, available_threads
from krill.config.engine import EngineConfig
from krill.engines.contract import Resources, Stage, WorkerSpec
from krill.engines.datatrove_starts import LocalRanks, SlurmPartition, SlurmRanks, log_end
from krill.engines.ray_cluster import check_machine
from krill.engines.worker import TaskFault, packed, unpacked
from krill.errors import KrillError, MissingExtra
from krill.storage.atomic import storage_errors, write_bytes
from krill.threads.uninterrupted import uninterrupted

# How often the driver looks for what was committed, and after its ranks.
_POLL_SECONDS = 0.1
_CHECK_SECONDS = 1.0
# How often the driver touches its file: ranks wait for minutes, and a network file system shows it late.
_ALIVE_SECONDS = 10.0
# How long ranks may take to end after the last stage, or when they are asked to.
_END_SECONDS = 30.0
# Slurm's own limit for the elements of a job array is 1,001 unless the site has set another.
_MOST_RANKS = 1000


class DatatroveEngine:
    """Has a run done by `workers` ranks; `done` is called with what they say they did."""

    shared = True

    def __init__(
        self, config: EngineConfig, spec: WorkerSpec, done: Callable[[Mapping[str, Any]], None]
    ) -> None:
        if find_spec("datatrove") is None:
            raise MissingExtra("the engine `datatrove`", "datatrove")
        self._retries = config.retries
        self._spec = spec
        self._done = done
        self._slurm = SlurmPartition(config) if config.executor == "slurm" else None
        asked = None if config.workers == "auto" else config.workers
        room = _room if self._slurm is None else self._slurm.room
        self.workers = room(spec.resources, asked)
        self._folder = Path(spec.address) / "engine" / os.urandom(4).hex()
        self._starts: list[LocalRanks | SlurmRanks] = []
        self._running: dict[int, LocalRanks | SlurmRanks] = {}
        self._failures: dict[int, int] = {}
        self._peak = 0
        self._touched = self._checked = 0.0

    def run(self, stage: Stage) -> None:
        tasks = list(stage.tasks())
        missing = list(stage.missing(tasks))
        if missing and not self._starts:
            self._begin()
        each = (stage.input_bytes() or 0) / max(1, len(tasks))
        while missing:
            self._look_after_ranks()
            if not self._running:
                stage.run(missing)  # all ranks have ended, and somebody has removed what they made
                return
            time.sleep(_POLL_SECONDS)
            left = list(stage.missing(missing))
            self._done({"bytes": int(each * (len(missing) - len(left))), "kept": 0})
            missing = left

    def facts(self) -> Mapping[str, Any]:
        """When all stages are done; the ranks are a moment later."""
        limit = time.monotonic() + _END_SECONDS
        while self._running and time.monotonic() < limit:
            self._look_after_ranks()
            time.sleep(_POLL_SECONDS)
        workers = self.workers
        return {"name": "datatrove", "workers": workers, "tasks": workers, "worker_peak": self._peak}

    def close(self) -> None:
        """End the ranks that still run. The logs of a run that failed stay for a while."""
        with uninterrupted():
            (self._folder / "alive").unlink(missing_ok=True)
            for start in self._starts:
                start.end()
        if not self._failures:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _begin(self) -> None:
        if self._folder.parent.exists():
            for leftover in self._folder.parent.iterdir():
                shutil.rmtree(leftover, ignore_errors=True)
        with storage_errors(self._folder):
            self._folder.mkdir(parents=True)
        self._touch()
        self._start(range(1, self.workers + 1))

    def _start(self, numbers: Sequence[int]) -> None:
        """Start these ranks, or start them again."""
        alive, resources = str(self._folder / "alive"), self._spec.resources
        for first in range(0, len(numbers), _MOST_RANKS):
            some = numbers[first : first + _MOST_RANKS]
            folder = self._folder / f"start-{len(self._starts)}"
            with storage_errors(folder):
                folder.mkdir()
            for number in some:
                order = packed(self._spec, resources, rank=number, world=self.workers, alive=alive)
                write_bytes(folder / f"order-{number}", order)
            start = LocalRanks(folder, some) if self._slurm is None else SlurmRanks(folder, some)
            start.begin(resources, {} if self._slurm is None else self._slurm.arguments(folder))
            self._starts.append(start)
            self._running |= dict.fromkeys(some, start)

    def _look_after_ranks(self) -> None:
        """Note which ranks have ended, raise their errors, and start anew those that were lost."""
        if time.monotonic() - self._touched >= _ALIVE_SECONDS:
            self._touch()
        if time.monotonic() - self._checked < _CHECK_SECONDS:
            return
        self._checked = time.monotonic()
        lost = []
        for number, start in list(self._running.items()):
            reason = start.lost(number)  # before the answer, so that the last one is not missed
            answer = start.folder / f"answer-{number}"
            if answer.exists():
                del self._running[number]
                try:
                    result = unpacked(answer.read_bytes())
                except TaskFault as error:
                    lost.append((number, str(error)))
                except KrillError:
                    self._failures[number] = 1  # so that the logs stay
                    raise
                else:
                    self._peak = max(self._peak, result["peak"])
                    self._done({"bytes": 0, "kept": result["kept"]})
            elif reason is not None:
                del self._running[number]
                lost.append((number, f"{reason}; {log_end(start.log(number))}"))
        for number, reason in lost:
            self._failed(number, reason)
        if lost:
            self._start([number for number, _ in lost])

    def _failed(self, number: int, reason: str) -> None:
        failures = self._failures[number] = self._failures.get(number, 0) + 1
        if failures > self._retries:
            raise KrillError(
                f"the rank {number} of {self.workers} failed {failures} times, the last time with: {reason}",
                hint="what was done is kept: mend the cause and run the same command again",
            )

    def _touch(self) -> None:
        self._touched = time.monotonic()
        with suppress(OSError):  # storage that is away for a moment
            (self._folder / "alive").touch()


def _room(resources: Resources, asked: int | None) -> int:
    """How many ranks to have on this machine: those asked for, else as many as fit."""
    by_memory = available_bytes() // resources.memory
    workers = asked or max(1, min(available_threads() // resources.threads, by_memory))
    check_machine(workers, resources)
    return workers
