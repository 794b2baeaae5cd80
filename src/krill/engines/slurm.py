"""Ranks that are jobs of Slurm's, in job arrays, as the driver sees them.

In: the command of a rank. Out: jobs, which of them are lost and why. Held in memory: the state of each rank's
job, as Slurm last said it.

`sbatch --wait`, a process of this machine for each rank, would need no states, but it takes 1.2 MB of its own
(5.2 MB resident), asks Slurm after its job alone, and does not say why that ended.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from krill.config.engine import EngineConfig
from krill.engines.engine import Resources
from krill.engines.rank import log_end
from krill.errors import ConfigError
from krill.threads.uninterrupted import uninterrupted

# Slurm is asked about jobs soon after their start, when most mistakes show, then less and less often.
_FIRST_QUESTION = 1.0
_LAST_QUESTION = 30.0
# How long jobs may take to end by themselves before they are cancelled, and how often Slurm is asked then.
_GRACE_SECONDS = 5.0
_END_SECONDS = 0.25
# Slurm's own limit for the elements of a job array is 1,001 unless the site has set another.
_MOST_RANKS = 1000
# What a job asks for beside the memory of its rank: the limit also counts what the kernel holds for it.
_BESIDE_BYTES = 32_000_000
# What says which Slurm is meant, and not which job this is.
_WHICH_CLUSTER = ("SLURM_CONF", "SLURM_CLUSTERS")
# Whatever these say comes from the engine, which reads the logs and counts the array.
_RESERVED = frozenset({"array", "output", "error", "job-name", "chdir", "wrap"})
# States from which a job of an array does not come back; every other one may still lead to work.
_OVER = re.compile(
    "BOOT_FAIL|CANCELLED|COMPLETED|DEADLINE|FAILED|GONE|NODE_FAIL|OUT_OF_MEMORY|PREEMPTED|REVOKED|TIMEOUT"
)


class SlurmRanks:
    """A job for each rank."""

    def __init__(
        self, command: Sequence[str], folder: Path, config: EngineConfig, resources: Resources
    ) -> None:
        self._command = shlex.join(command)
        self._folder = folder
        self._options = _options(config, resources)
        self._jobs: dict[int, str] = {}  # of each rank, the last one: `ARRAY_INDEX`
        self._states: dict[str, str] = {}
        self._asked = self._pause = 0.0

    def start(self, numbers: Iterable[int]) -> None:
        arrays = groupby(sorted(numbers), lambda number: (number - 1) // _MOST_RANKS * _MOST_RANKS)
        for before, some in arrays:
            indices = [number - before for number in some]
            array = f"--array={','.join(map(str, indices))}"
            # Not by `exec`: the shell writes into the log which signal has ended a rank.
            wrap = f"--wrap={self._command} $(({before} + SLURM_ARRAY_TASK_ID))"
            name = f"--job-name=krill-{self._folder.name}"
            # Jobs write `slurm-ARRAY_INDEX.out` into the folder that they are submitted from.
            with uninterrupted():  # a job that is not noted would stay in the queue
                taken = _slurm("sbatch", "--parsable", array, name, *self._options, wrap, folder=self._folder)
                if taken.returncode:
                    raise ConfigError(
                        f"Slurm did not take the job: {taken.stderr.strip()}",
                        hint="it is made of `partition`, `time`, `account` and `sbatch` of `engine`",
                    )
                job = taken.stdout.partition(";")[0].strip()
                self._jobs |= {before + index: f"{job}_{index}" for index in indices}
        self._asked, self._pause = time.monotonic(), _FIRST_QUESTION

    def lost(self, number: int) -> str | None:
        """Why this rank will give no result; None while it may."""
        if time.monotonic() - self._asked >= self._pause:
            self._ask()
        job = self._jobs[number]
        state = self._states.get(job, "PENDING")
        if not _OVER.fullmatch(state):
            return None
        log = self._folder / f"slurm-{job}.out"
        return f"Slurm's job {job} ended with the state {state}; {log_end(log)}"

    def end(self) -> None:
        """What waits is cancelled, what runs ends by itself or is cancelled a little later."""
        if not self._jobs:
            return
        jobs = list(self._jobs.values())
        _slurm("scancel", "--state=PENDING", *jobs)
        limit = time.monotonic() + _GRACE_SECONDS
        self._ask()
        while not all(map(_OVER.fullmatch, self._states.values())):
            if time.monotonic() >= limit:
                _slurm("scancel", *jobs)
                return
            time.sleep(_END_SECONDS)
            self._ask()

    def _ask(self) -> None:
        jobs = f"--jobs={','.join(sorted({job.partition('_')[0] for job in self._jobs.values()}))}"
        asked = _slurm("squeue", "--noheader", "--array", "--states=all", jobs, "--format=%F_%K %T")
        self._asked = time.monotonic()
        self._pause = min(2 * self._pause, _LAST_QUESTION)
        if asked.returncode and "Invalid job id" not in asked.stderr:
            return  # Slurm does not answer now: what is known stays
        found = dict(line.split(maxsplit=1) for line in asked.stdout.splitlines() if line.strip())
        self._states = {job: found.get(job, "GONE").strip() for job in self._jobs.values()}


def _options(config: EngineConfig, resources: Resources) -> list[str]:
    """What `sbatch` is given of the config."""
    if reserved := sorted(_RESERVED & config.sbatch.keys()):
        raise ConfigError(
            f"`engine.sbatch` has `{reserved[0]}`, which is set by the engine",
            hint=f"remove `{reserved[0]}`",
        )
    each = (resources.memory + _BESIDE_BYTES) / resources.threads
    options = {
        "partition": config.partition,
        "time": config.time,
        "nodes": 1,
        "cpus-per-task": resources.threads,
        "mem-per-cpu": f"{math.ceil(each / 2**20)}M",
        # The driver starts lost ranks again; a job that does so by itself would not be counted.
        "no-requeue": "",
        **({} if config.account is None else {"account": config.account}),
        **config.sbatch,
    }
    return [f"--{name}={value}" if value != "" else f"--{name}" for name, value in options.items()]


def slurm_cores(partition: str) -> int:
    """How many cores a partition has that this machine can submit to."""
    asked = _slurm("sinfo", "--noheader", f"--partition={partition}", "--format=%C")
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


def _slurm(*command: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    # This process may run in a job of Slurm's, and those of ranks are others.
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("SLURM_") or name in _WHICH_CLUSTER
    }
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=folder, env=environment
        )
    except FileNotFoundError:
        raise ConfigError(
            f"`{command[0]}` is not on this machine, and `engine.executor` is `slurm`",
            hint="start the run on a machine that jobs can be submitted from",
        ) from None
