"""Ranks that were started together by one of datatrove's executors, as the driver sees them.

In: a folder with an order for each rank. Out: a process, or a job array of Slurm's, that says which ranks are
lost and why, and can be ended. Held in memory: the state of each rank's job, as Slurm last said it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from krill.config.engine import EngineConfig
from krill.engines.contract import Resources
from krill.errors import ConfigError
from krill.storage.atomic import storage_errors, write_json

# Slurm is asked about a job soon after its start, when most mistakes show, then less and less often.
_FIRST_QUESTION = 1.0
_LAST_QUESTION = 30.0
# How long jobs may take to end by themselves before they are cancelled, and how often Slurm is asked then.
_GRACE_SECONDS = 5.0
_END_SECONDS = 0.25
# What says which Slurm is meant, and not which job this is.
_WHICH_CLUSTER = ("SLURM_CONF", "SLURM_CLUSTERS")
# How much of a log is read to show its end.
_LOG_BYTES = 4096
# What the script that datatrove writes for Slurm can name without quotes.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_@+=:,./-]+")
# Whatever these say comes from the engine, which reads the logs and counts the array.
_RESERVED = frozenset({"array", "output", "error", "job-name"})
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


class LocalRanks:
    """Ranks on this machine, below one process of datatrove's."""

    def __init__(self, folder: Path, numbers: Sequence[int]) -> None:
        self.folder = folder
        self._numbers = numbers
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self, resources: Resources, slurm: Mapping[str, Any]) -> None:
        self._process = _launch(self.folder, self._numbers, resources, slurm)

    def lost(self, number: int) -> str | None:
        """Why this rank will give no answer; None while it may."""
        assert self._process is not None
        code = self._process.poll()
        if code is not None:
            return f"the executor {ended_with(code)}"
        # datatrove's pool waits for ever for a process of its own that was killed.
        with suppress(OSError, ValueError):
            process = int((self.folder / f"process-{number}").read_text())
            return None if _runs(process) else "its process died"
        return None

    def log(self, number: int) -> Path:
        """Where the rank's last words may be."""
        own = self.folder / "logs" / f"task_{self._numbers.index(number):05d}.log"
        return own if own.exists() else self.folder / "start.log"

    def end(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # it leads a group of its own
            self._process.wait()


class SlurmRanks:
    """Ranks that are a job array."""

    def __init__(self, folder: Path, numbers: Sequence[int]) -> None:
        self.folder = folder
        self._numbers = numbers
        self._job: str | None = None
        self._states: dict[int, str] = dict.fromkeys(range(len(numbers)), "PENDING")
        self._pause = _FIRST_QUESTION
        self._asked = time.monotonic()

    def begin(self, resources: Resources, slurm: Mapping[str, Any]) -> None:
        process = _launch(self.folder, self._numbers, resources, slurm)
        try:
            code = process.wait()
        except BaseException:
            process.kill()
            raise
        if code:
            raise ConfigError(
                f"Slurm did not take the job: {log_end(self.folder / 'start.log', lines=1)}",
                hint=f"the script is `{self.folder / 'launch_script.slurm'}`; it is made of `partition`,"
                " `time`, `account` and `sbatch` of `engine`",
            )
        self._job = (self.folder / "job").read_text()

    def lost(self, number: int) -> str | None:
        """Why this rank will give no answer; None while it may."""
        if time.monotonic() - self._asked >= self._pause:
            self._ask()
        index = self._numbers.index(number)
        state = self._states[index]
        return f"Slurm's job {self._job}_{index} ended with the state {state}" if state in _OVER else None

    def log(self, number: int) -> Path:
        """Where the rank's last words may be."""
        return self.folder / "slurm_logs" / f"{self._job}_{self._numbers.index(number)}.out"

    def end(self) -> None:
        """What waits is cancelled, what runs ends by itself or is cancelled a little later."""
        if self._job is None:
            return
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
            return  # Slurm does not answer now: what is known stays
        lines = (line.split() for line in asked.stdout.splitlines())
        found = {int(words[0]): words[1] for words in lines if len(words) == 2 and words[0].isdigit()}
        for index, state in self._states.items():
            if state not in _OVER:
                self._states[index] = found.get(index, "GONE")


class SlurmPartition:
    """The partition that the config names, which this machine can submit to."""

    def __init__(self, config: EngineConfig) -> None:
        for command in ("sinfo", "sbatch", "squeue", "scancel"):
            if shutil.which(command) is None:
                raise ConfigError(
                    f"`{command}` is not on this machine, and `engine.executor` is `slurm`",
                    hint="start the run on a machine that jobs can be submitted from",
                )
        if reserved := sorted(_RESERVED & config.sbatch.keys()):
            raise ConfigError(
                f"`engine.sbatch` has `{reserved[0]}`, which is set by the engine",
                hint=f"remove `{reserved[0]}`",
            )
        self._partition = config.partition or ""
        self._time = config.time
        account = {} if config.account is None else {"account": config.account}
        self._sbatch = {**account, **config.sbatch}
        self._cores = self._count_cores()

    def room(self, resources: Resources, asked: int | None) -> int:
        """How many ranks to have: those asked for, else as many as the partition has cores for."""
        return asked or max(1, self._cores // resources.threads)

    def arguments(self, folder: Path) -> dict[str, Any]:
        """What datatrove's executor is given, for jobs whose files are in `folder`."""
        if not _PLAIN_PATH.fullmatch(str(folder)):
            raise ConfigError(
                f"the folder `{folder}` can't be named in a script of Slurm's",
                hint="choose a `prepared_path` without spaces, quotes and other marks",
            )
        return {"partition": self._partition, "time": self._time, "sbatch": self._sbatch}

    def _count_cores(self) -> int:
        command = ["sinfo", "--noheader", f"--partition={self._partition}", "--format=%C"]
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
        if asked.returncode:
            raise ConfigError(
                f"Slurm does not answer: {asked.stderr.strip()}",
                hint="see that `sinfo` works on this machine",
            )
        # Allocated/idle/other/total, one line for each set of nodes.
        cores = sum(int(line.split("/")[-1]) for line in asked.stdout.split())
        if cores == 0:
            raise ConfigError(
                f"Slurm has no partition `{self._partition}` with nodes", hint="`sinfo` lists the partitions"
            )
        return cores


def ended_with(code: int) -> str:
    """What the return code of a process says."""
    return f"ended with the code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"


def log_end(path: Path, *, lines: int = 8) -> str:
    """The last lines of a log, in one line."""
    if not path.exists():
        return "it left no log"
    with path.open("rb") as log:
        log.seek(max(0, path.stat().st_size - _LOG_BYTES))
        found = [line.strip() for line in log.read().decode(errors="replace").splitlines()]
    shown = " | ".join([line for line in found if line][-lines:])
    return f"`{path}` ends with: {shown}" if shown else f"`{path}` is empty"


def _launch(
    folder: Path, numbers: Sequence[int], resources: Resources, slurm: Mapping[str, Any]
) -> subprocess.Popen[bytes]:
    """Start datatrove in a process of its own, so that this one holds nothing of its and can end it."""
    given = {"ranks": list(numbers), "memory": resources.memory, "threads": resources.threads, "slurm": slurm}
    write_json(folder / "start.json", given)
    # The driver may run in a job of Slurm's, and its ranks are others.
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("SLURM_") or name in _WHICH_CLUSTER
    }
    with storage_errors(folder / "start.log"), (folder / "start.log").open("wb") as log:
        return subprocess.Popen(
            # Imported by its name, as jobs of Slurm's will import what datatrove has pickled.
            [sys.executable, "-c", "from krill.engines.datatrove_executor import main; main()", folder],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )


def _runs(process: int) -> bool:
    try:
        return bool(psutil.Process(process).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
