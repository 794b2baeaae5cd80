"""Ranks that a driver starts: jobs of Slurm's, or processes of this machine.

In: a run. Out: all of its stages, done by ranks that wait for each other on the commit log, as those of
`--task` do (`rank.py`). Held in memory: the tasks that are missing, never what they make.

The driver starts the ranks, goes through the stages beside them, starts those anew that were lost, and stops
with a rank's own error. datatrove's own executors do neither: the pool of its local one waits for ever for a
process that was killed, and that of Slurm's ends when it has submitted its jobs, each with 55 MB of its own.
All that the ranks share is a folder in the run's work folder:

    alive          touched by the driver; ranks that wait give up when it stands still
    start.json     what the ranks are to do
    result-RANK    what came of it
    *.log, *.out   what they have printed
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from krill.budget import available_bytes, available_threads
from krill.config.engine import EngineConfig
from krill.engines.engine import Done, Engine, Resources, WorkerSpec, check_machine
from krill.engines.rank import START_FILE, log_end, rank_command
from krill.engines.slurm import SlurmRanks, slurm_cores
from krill.engines.stage import Stage
from krill.engines.worker import decode_result, encode_request
from krill.errors import KrillError
from krill.storage.atomic import storage_errors, write_bytes
from krill.threads.uninterrupted import uninterrupted

# How often the driver looks for what was committed, and after its ranks.
_POLL_SECONDS = 0.1
_CHECK_SECONDS = 1.0
# How long ranks may take to end after the last stage.
_END_SECONDS = 30.0


class LocalRanks:
    """A process of this machine for each rank."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            with self._log(number).open("ab") as log:
                self._processes[number] = subprocess.Popen(
                    [*rank_command(self._folder), str(number)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )

    def lost(self, number: int) -> str | None:
        """Why this rank will give no result; None while it may."""
        code = self._processes[number].poll()
        if code is None:
            return None
        how = f"ended with the code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"
        return f"its process {how}; {log_end(self._log(number))}"

    def end(self) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # it leads a group of its own
                process.wait()

    def _log(self, number: int) -> Path:
        return self._folder / f"rank-{number}.log"


class DatatroveEngine(Engine):
    """Has a run done by `workers` ranks."""

    shared = True

    def __init__(self, config: EngineConfig, spec: WorkerSpec, done: Done) -> None:
        self._config = config
        self._spec = spec
        self._done = done
        self.workers = _workers(config, spec.resources)
        self._folder = Path(spec.address) / "engine" / os.urandom(4).hex()
        self._alive = self._folder / "alive"
        self._slurm = config.executor == "slurm"
        ranks = SlurmRanks(self._folder, config, spec.resources) if self._slurm else LocalRanks(self._folder)
        self._ranks = ranks
        self._running: set[int] = set()
        self._failures: Counter[int] = Counter()
        self._peak = 0
        self._checked = 0.0

    def run(self, stage: Stage) -> None:
        tasks = list(stage.tasks())
        missing = list(stage.missing(tasks))
        if missing and not self._folder.exists():
            self._begin()
        each = (stage.input_bytes() or 0) / max(1, len(tasks))
        while missing:
            self._check_ranks()
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
            self._check_ranks()
            time.sleep(_POLL_SECONDS)
        workers = self.workers
        return {"name": "datatrove", "workers": workers, "tasks": workers, "worker_peak": self._peak}

    def close(self) -> None:
        """End the ranks that still run. The logs of a run that failed stay until the next one."""
        with uninterrupted():
            self._alive.unlink(missing_ok=True)
            self._ranks.end()
        if not self._failures and not self._running:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _begin(self) -> None:
        shutil.rmtree(self._folder.parent, ignore_errors=True)  # what a run before has left
        driver = None if self._slurm else os.getpid()
        request = encode_request(self._spec, world=self.workers, alive=str(self._alive), driver=driver)
        with storage_errors(self._folder):
            self._folder.mkdir(parents=True)
            self._alive.touch()
            write_bytes(self._folder / START_FILE, request)
        self._start(range(1, self.workers + 1))

    def _start(self, numbers: Iterable[int]) -> None:
        with storage_errors(self._folder):
            self._ranks.start(numbers)
        self._running.update(numbers)

    def _check_ranks(self) -> None:
        """Note which ranks have ended, raise their errors, and start anew those that were lost."""
        if time.monotonic() - self._checked < _CHECK_SECONDS:
            return
        self._checked = time.monotonic()
        with suppress(OSError):  # storage that is away for a moment
            self._alive.touch()
        lost = []
        for number in sorted(self._running):
            reason = self._ranks.lost(number)  # before the result, so that the last one is not missed
            path = self._folder / f"result-{number}"
            if path.exists():
                result = decode_result(path.read_bytes())
                self._peak = max(self._peak, result["peak"])
                self._done({"bytes": 0, "kept": result["kept"]})
                self._running.remove(number)
            elif reason is not None:
                lost.append(number)
                self._failures[number] += 1
                if self._failures[number] > self._config.retries:
                    raise KrillError(
                        f"the rank {number} of {self.workers} failed {self._failures[number]} times, the last"
                        f" time with: {reason}",
                        hint="what was done is kept: mend the cause and run the same command again",
                    )
        if lost:
            self._start(lost)


def _workers(config: EngineConfig, resources: Resources) -> int:
    """How many ranks to have: those asked for, else as many as there are cores, and here memory, for."""
    if config.executor == "slurm":
        cores = slurm_cores(config.partition or "")
        return max(1, cores // resources.threads) if config.workers == "auto" else config.workers
    fitting = min(available_threads() // resources.threads, available_bytes() // resources.memory)
    workers = max(1, fitting) if config.workers == "auto" else config.workers
    check_machine(workers, resources)
    return workers
