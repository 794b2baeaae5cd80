"""Ranks that a driver starts: jobs of Slurm's, or processes of this machine.

In: a run. Out: all of its stages, done by ranks that wait for each other on the commit log, as those of
`--task` do (`rank.py`). Held in memory: the tasks that are missing, never what they make.

The driver starts the ranks, goes through the stages beside them, starts those anew that were lost, and stops
with a rank's own error. datatrove's own executors do neither: the pool of its local one waits for ever for a
process that was killed, and that of Slurm's ends when it has submitted its jobs, each with 55 MB of its own.
All that the ranks share is a folder in the run's work folder:

    request.json   what the ranks are to do; while the driver lives it touches the file, and ranks that wait
                   give up when it stands still
    result-RANK    what came of it
    *.log, *.out   what they have printed
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from krill.budget import available_bytes, available_threads
from krill.config.engine import EngineConfig
from krill.engines.engine import Done, Resources, WorkersEngine, WorkerSpec, check_machine
from krill.engines.rank import log_end, still_missing
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

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._command = command
        self._folder = folder
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            command = [*self._command, str(number)]
            with self._log(number).open("ab") as log:
                self._processes[number] = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
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


class DatatroveEngine(WorkersEngine):
    """Has a run done by `workers` ranks."""

    shared = True

    def __init__(self, config: EngineConfig, spec: WorkerSpec, done: Done) -> None:
        super().__init__(config, spec, done)
        self.workers = _workers(config, spec.resources)
        self._folder = Path(spec.address) / "engine" / os.urandom(4).hex()
        self._request = self._folder / "request.json"
        command = [sys.executable, "-c", "from krill.engines.worker import main; main()", str(self._request)]
        self._ranks: LocalRanks | SlurmRanks = LocalRanks(command, self._folder)
        self._driver: int | None = os.getpid()
        if config.executor == "slurm":
            self._ranks = SlurmRanks(command, self._folder, config, spec.resources)
            self._driver = None  # these are no children of this process
        self._running: set[int] = set()
        self._failures: Counter[int] = Counter()
        self._checked = 0.0

    def run(self, stage: Stage) -> None:
        tasks, before = list(stage.tasks()), 0
        each = (stage.input_bytes() or 0) / max(1, len(tasks))
        for missing in still_missing(stage, tasks, _POLL_SECONDS):
            if missing and not self._folder.exists():
                self._begin()
            self._done({"bytes": int(each * max(0, before - len(missing))), "kept": 0})
            before = len(missing)
            self._check_ranks()
            if missing and not self._running:
                stage.run(missing)  # all ranks have ended, and somebody has removed what they made

    def facts(self) -> Mapping[str, Any]:
        """When all stages are done; the ranks are a moment later."""
        limit = time.monotonic() + _END_SECONDS
        while self._running and time.monotonic() < limit:
            self._check_ranks()
            time.sleep(_POLL_SECONDS)
        return super().facts()

    def close(self) -> None:
        """End the ranks that still run. The logs of a run that failed stay until the next one."""
        with uninterrupted():
            self._request.unlink(missing_ok=True)
            self._ranks.end()
        if not self._failures and not self._running:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _begin(self) -> None:
        shutil.rmtree(self._folder.parent, ignore_errors=True)  # what a run before has left
        with storage_errors(self._folder):
            self._folder.mkdir(parents=True)
            write_bytes(self._request, encode_request(self._spec, world=self.workers, driver=self._driver))
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
            os.utime(self._request)
        lost = []
        for number in sorted(self._running):
            reason = self._ranks.lost(number)  # before the result, so that the last one is not missed
            path = self._folder / f"result-{number}"
            if path.exists():
                # What ranks read was counted as it was committed.
                self._add({**decode_result(path.read_bytes()), "bytes": 0})
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
