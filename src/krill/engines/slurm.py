"""Ranks that are jobs of a Slurm array, as the driver sees them.

In: a folder with what the ranks are to do. Out: a job array that says which ranks are lost and why, and can
be cancelled. Held in memory: the state of each rank's job, as Slurm last said it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from krill.config.engine import EngineConfig
from krill.engines.rank import log_end
from krill.errors import ConfigError

# Slurm is asked about a job soon after its start, when most mistakes show, then less and less often.
_FIRST_QUESTION = 1.0
_LAST_QUESTION = 30.0
# How long jobs may take to end by themselves before they are cancelled, and how often Slurm is asked then.
_GRACE_SECONDS = 5.0
_END_SECONDS = 0.25
# What says which Slurm is meant, and not which job this is.
_WHICH_CLUSTER = ("SLURM_CONF", "SLURM_CLUSTERS")
# What the script that datatrove writes for Slurm can name without quotes.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_@+=:,./-]+")
# Whatever these say comes from the engine, which reads the logs and counts the array.
_RESERVED = frozenset({"array", "output", "error", "job-name"})
# States from which a job of an array does not come back; every other one may still lead to work.
_OVER = re.compile(
    "BOOT_FAIL|CANCELLED|COMPLETED|DEADLINE|FAILED|GONE|NODE_FAIL|OUT_OF_MEMORY|PREEMPTED|REVOKED|TIMEOUT"
)


class SlurmRanks:
    """A job array with a job for each of these ranks."""

    def __init__(self, folder: Path, numbers: Sequence[int]) -> None:
        self.folder = folder
        self._numbers = numbers
        self._job: str | None = None
        self._states: dict[int, str] = dict.fromkeys(range(len(numbers)), "PENDING")
        self._pause = _FIRST_QUESTION
        self._asked = time.monotonic()

    def begin(self) -> None:
        if not _PLAIN_PATH.fullmatch(str(self.folder)):
            raise ConfigError(
                f"the folder `{self.folder}` can't be named in a script of Slurm's",
                hint="choose a `prepared_path` without spaces, quotes and other marks",
            )
        # The driver may run in a job of Slurm's, and its ranks are others.
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("SLURM_") or name in _WHICH_CLUSTER
        }
        # In a process of its own, so that this one holds nothing of datatrove's. Its module is imported by
        # name, as jobs of Slurm's will import what datatrove has pickled.
        submit = "from krill.engines.slurm_executor import main; main()"
        log = self.folder / "start.log"
        with log.open("wb") as errors:
            started = subprocess.run(
                [sys.executable, "-c", submit, str(self.folder)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                check=False,
            )
        if started.returncode:
            raise ConfigError(
                f"Slurm did not take the job: {log_end(log, lines=1)}",
                hint=f"the script is `{self.folder / 'launch_script.slurm'}`; it is made of `partition`,"
                " `time`, `account` and `sbatch` of `engine`",
            )
        self._job = started.stdout.decode().split()[-1]

    def lost(self, number: int) -> str | None:
        """Why this rank will give no result; None while it may."""
        if time.monotonic() - self._asked >= self._pause:
            self._ask()
        index = self._numbers.index(number)
        state = self._states[index]
        if not _OVER.fullmatch(state):
            return None
        log = self.folder / "slurm_logs" / f"{self._job}_{index}.out"
        return f"Slurm's job {self._job}_{index} ended with the state {state}; {log_end(log)}"

    def end(self) -> None:
        """What waits is cancelled, what runs ends by itself or is cancelled a little later."""
        if self._job is None:
            return
        _ask_slurm("scancel", "--state=PENDING", self._job)
        limit = time.monotonic() + _GRACE_SECONDS
        self._ask()
        while not all(map(_OVER.fullmatch, self._states.values())):
            if time.monotonic() >= limit:
                _ask_slurm("scancel", self._job)
                return
            time.sleep(_END_SECONDS)
            self._ask()

    def _ask(self) -> None:
        of_job = ["--noheader", "--array", "--states=all", f"--jobs={self._job}", "--format=%K %T"]
        asked = _ask_slurm("squeue", *of_job)
        self._asked = time.monotonic()
        self._pause = min(2 * self._pause, _LAST_QUESTION)
        if asked.returncode and "Invalid job id" not in asked.stderr:
            return  # Slurm does not answer now: what is known stays
        lines = (line.split() for line in asked.stdout.splitlines())
        found = {int(words[0]): words[1] for words in lines if len(words) == 2 and words[0].isdigit()}
        for index, state in self._states.items():
            if not _OVER.fullmatch(state):
                self._states[index] = found.get(index, "GONE")


def slurm_settings(config: EngineConfig) -> dict[str, Any]:
    """What datatrove's executor is given of the config."""
    if reserved := sorted(_RESERVED & config.sbatch.keys()):
        raise ConfigError(
            f"`engine.sbatch` has `{reserved[0]}`, which is set by the engine",
            hint=f"remove `{reserved[0]}`",
        )
    account = {} if config.account is None else {"account": config.account}
    return {"partition": config.partition, "time": config.time, "sbatch": {**account, **config.sbatch}}


def slurm_cores(partition: str) -> int:
    """How many cores a partition has that this machine can submit to."""
    for command in ("sinfo", "sbatch", "squeue", "scancel"):
        if shutil.which(command) is None:
            raise ConfigError(
                f"`{command}` is not on this machine, and `engine.executor` is `slurm`",
                hint="start the run on a machine that jobs can be submitted from",
            )
    asked = _ask_slurm("sinfo", "--noheader", f"--partition={partition}", "--format=%C")
    if asked.returncode:
        raise ConfigError(
            f"Slurm does not answer: {asked.stderr.strip()}", hint="see that `sinfo` works on this machine"
        )
    # Allocated/idle/other/total, one line for each set of nodes.
    cores = sum(int(line.split("/")[-1]) for line in asked.stdout.split())
    if cores == 0:
        raise ConfigError(
            f"Slurm has no partition `{partition}` with nodes", hint="`sinfo` lists the partitions"
        )
    return cores


def _ask_slurm(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)
