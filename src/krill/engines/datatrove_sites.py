"""Sites: where crews work, this machine, a Ray cluster, or a partition of Slurm's.

In: the config's `engine`. Out: how many workers have room at once, and crews. Held in memory: nothing but,
for Ray, a connection.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from typing import Protocol

from krill.budget import available_bytes, available_threads
from krill.config.engine import EngineConfig
from krill.engines.contract import Resources
from krill.engines.datatrove_crew import Crew, CrewPlan, ProcessCrew, SlurmCrew
from krill.engines.ray_cluster import check_machine, connect, import_ray, start_here
from krill.engines.ray_engine import _room as cluster_room
from krill.errors import ConfigError

# What the script that datatrove writes for Slurm can name without quotes.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_@+=:,./-]+")
# Whatever these say comes from the engine, which reads the logs and counts the array.
_RESERVED = frozenset({"array", "output", "error", "job-name"})


class Site(Protocol):
    """Where crews work."""

    def room(self, resources: Resources, asked: int | None) -> int:
        """How many such workers to have: those asked for, else as many as fit; refuses what can never be."""
        ...

    def start(self, plan: CrewPlan) -> Crew:
        """Start a crew; the site adds what only it knows to the plan."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


def open_site(config: EngineConfig) -> Site:
    """The site that the config names."""
    if config.executor == "slurm":
        return SlurmSite(config)
    if config.executor == "ray":
        return RaySite(config)
    return LocalSite()


class LocalSite:
    """This machine."""

    def room(self, resources: Resources, asked: int | None) -> int:
        """See `Site`."""
        by_memory = available_bytes() // resources.memory
        workers = asked or max(1, min(available_threads() // resources.threads, by_memory))
        check_machine(workers, resources)
        return workers

    def start(self, plan: CrewPlan) -> Crew:
        """See `Site`."""
        return ProcessCrew(plan)

    def close(self) -> None:
        """Nothing is held."""


class RaySite:
    """The cluster at `address`, or one that is started on this machine."""

    def __init__(self, config: EngineConfig) -> None:
        self._ray = import_ray()
        self._here = config.address is None
        if config.address is None:
            start_here(self._ray, available_threads() if config.workers == "auto" else config.workers)
        else:
            connect(self._ray, config.address)

    def room(self, resources: Resources, asked: int | None) -> int:
        """See `Site`."""
        if self._here:
            return LocalSite().room(resources, asked)
        room = cluster_room(self._ray.nodes(), resources)
        return asked or room

    def start(self, plan: CrewPlan) -> Crew:
        """See `Site`."""
        plan = replace(plan, address=self._ray.get_runtime_context().gcs_address)
        # Nobody else is in a cluster of our own, and it was made for so many workers.
        return ProcessCrew(replace(plan, threads=1, memory=0) if self._here else plan)

    def close(self) -> None:
        """See `Site`."""
        self._ray.shutdown()


class SlurmSite:
    """A partition."""

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
        """See `Site`."""
        return asked or max(1, self._cores // resources.threads)

    def start(self, plan: CrewPlan) -> Crew:
        """See `Site`."""
        if not _PLAIN_PATH.fullmatch(plan.board):
            raise ConfigError(
                f"the folder `{plan.board}` can't be named in a script of Slurm's",
                hint="choose a `prepared_path` without spaces, quotes and other marks",
            )
        return SlurmCrew(replace(plan, partition=self._partition, time=self._time, sbatch=self._sbatch))

    def close(self) -> None:
        """Nothing is held."""

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
