"""Crews: workers that were started together, by one of datatrove's executors.

In: a `CrewPlan`. Out: a crew, which says whose time is over and why, and can be ended. A crew of the
executors `local` and `ray` is a process, with all that it started on this machine; one of `slurm` is a job
array. Held in memory: the state of each worker's job, as Slurm last told it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from krill.engines.datatrove_board import Board
from krill.engines.datatrove_hand import ended_with
from krill.errors import ConfigError
from krill.storage.atomic import storage_errors, write_json

# Slurm is asked about a job soon after its start, when most mistakes show, then less and less often.
_FIRST_QUESTION = 1.0
_LAST_QUESTION = 30.0
# How long what should end may take before it is ended, and how often Slurm is asked meanwhile.
_GRACE_SECONDS = 5.0
_END_SECONDS = 0.25
# What says which Slurm is meant, and not which job this is.
_WHICH_CLUSTER = ("SLURM_CONF", "SLURM_CLUSTERS")
# How much of a log is read to tell its end.
_LOG_BYTES = 4096

# States from which a job of an array does not come back; every other one may still lead to work.
_OVER = frozenset(
    {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "GONE",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
    }
)


@dataclass(frozen=True, slots=True)
class CrewPlan:
    """What a crew of workers is: how many, where, with what."""

    board: str
    crew: str
    executor: str
    workers: int
    memory: int
    threads: int
    address: str | None = None
    partition: str = ""
    time: str = ""
    sbatch: Mapping[str, str] | None = None


def life_of(crew: str, rank: int) -> str:
    """A new name for a worker; a rank that an executor starts again is another one."""
    return f"{crew}-{rank:05d}-{os.urandom(4).hex()}"


def rank_of(worker: str) -> tuple[str, int]:
    """The crew and the rank of a worker."""
    crew, rank, _ = worker.split("-")
    return crew, int(rank)


class Crew(Protocol):
    """Workers that were started together; a worker is known by its rank."""

    def over(self, rank: int) -> str | None:
        """Why this worker has ended or will never start; None while it may live."""
        ...

    def log(self, rank: int) -> Path:
        """Where the worker's last words may be."""
        ...

    def give_up(self, rank: int) -> None:
        """This worker died without an end: see that what it holds of the site is free for another."""
        ...

    def end(self) -> None:
        """End all of it."""
        ...


class ProcessCrew:
    """A process of datatrove's, with the workers below it or, on Ray, elsewhere."""

    def __init__(self, plan: CrewPlan) -> None:
        self._folder = Board(Path(plan.board)).crew(plan.crew)
        self._on_ray = plan.executor == "ray"
        self._ended = False
        self._process = _start(plan, self._folder)

    def over(self, rank: int) -> str | None:
        """See `Crew`: none outlives the process that started them."""
        if self._process.poll() is not None and not self._ended:
            self._kill()
        code = self._process.returncode
        return None if code is None else f"the executor {ended_with(code)}"

    def log(self, rank: int) -> Path:
        """See `Crew`."""
        own = self._folder / "logs" / f"task_{rank:05d}.log"
        return own if own.exists() and self._process.poll() is None else self._folder / "start.log"

    def give_up(self, rank: int) -> None:
        """See `Crew`: on Ray the place stays taken while the executor waits for what will never come."""
        if self._on_ray:
            self._kill()

    def end(self) -> None:
        """See `Crew`; on Ray workers are elsewhere: they leave as the driver's sign of life is gone."""
        if self._ended:
            return
        if self._on_ray:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_SECONDS)
        self._kill()

    def _kill(self) -> None:
        # It leads a group of its own, so that nothing else is hit.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._ended = True


class SlurmCrew:
    """A job array."""

    def __init__(self, plan: CrewPlan) -> None:
        self._folder = Board(Path(plan.board)).crew(plan.crew)
        process = _start(plan, self._folder)
        try:
            code = process.wait()
        except BaseException:
            process.kill()
            raise
        if code:
            raise ConfigError(
                f"Slurm did not take the job: {log_end(self._folder / 'start.log', lines=1)}",
                hint=f"the script is `{self._folder / 'launch_script.slurm'}`; it is made of `partition`,"
                " `time`, `account` and `sbatch` of `engine`",
            )
        self._job = (self._folder / "job").read_text()
        self._states: dict[int, str] = dict.fromkeys(range(plan.workers), "PENDING")
        self._pause = _FIRST_QUESTION
        self._asked = time.monotonic()

    def over(self, rank: int) -> str | None:
        """See `Crew`."""
        if time.monotonic() - self._asked >= self._pause:
            self._ask()
        state = self._states[rank]
        return f"Slurm's job {self._job}_{rank} ended with the state {state}" if state in _OVER else None

    def log(self, rank: int) -> Path:
        """See `Crew`."""
        return self._folder / "slurm_logs" / f"{self._job}_{rank}.out"

    def give_up(self, rank: int) -> None:
        """See `Crew`."""
        self._cancel(f"{self._job}_{rank}")

    def end(self) -> None:
        """See `Crew`: what waits is cancelled, what runs leaves by itself or is cancelled a little later."""
        self._cancel("--state=PENDING", self._job)
        limit = time.monotonic() + _GRACE_SECONDS
        while not self._all_over():
            if time.monotonic() >= limit:
                self._cancel(self._job)
                return
            time.sleep(_END_SECONDS)

    def _all_over(self) -> bool:
        self._ask()
        return _OVER.issuperset(self._states.values())

    def _cancel(self, *which: str) -> None:
        subprocess.run(["scancel", *which], capture_output=True, check=False)

    def _ask(self) -> None:
        command = ["squeue", "--noheader", "--array", "--states=all", f"--jobs={self._job}", "--format=%K %T"]
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
        self._asked = time.monotonic()
        self._pause = min(2 * self._pause, _LAST_QUESTION)
        if asked.returncode and "Invalid job id" not in asked.stderr:
            return  # Slurm does not answer now: what is known stays, and signs of life tell the rest
        lines = (line.split() for line in asked.stdout.splitlines())
        found = {int(words[0]): words[1] for words in lines if len(words) == 2 and words[0].isdigit()}
        for rank, state in self._states.items():
            if state not in _OVER:
                self._states[rank] = found.get(rank, "GONE")


def log_end(path: Path, *, lines: int = 8) -> str:
    """The last lines of a log, in one line."""
    if not path.exists():
        return "it left no log"
    with path.open("rb") as log:
        log.seek(max(0, path.stat().st_size - _LOG_BYTES))
        found = [line.strip() for line in log.read().decode(errors="replace").splitlines()]
    told = " | ".join([line for line in found if line][-lines:])
    return told or "its log is empty"


def _start(plan: CrewPlan, folder: Path) -> subprocess.Popen[bytes]:
    with storage_errors(folder):
        folder.mkdir()
    write_json(folder / "crew.json", asdict(plan))
    with storage_errors(folder / "start.log"), (folder / "start.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "krill.engines.datatrove_start", str(folder / "crew.json")],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=_environment(),
            start_new_session=True,
        )


def _environment() -> dict[str, str]:
    """This process's, without what Slurm sets in a job: the driver may run in one, its workers are others."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("SLURM_") or name in _WHICH_CLUSTER
    }
