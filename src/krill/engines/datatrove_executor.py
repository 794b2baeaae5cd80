"""The process that starts ranks, itself started by the driver.

In: a folder with `start.json` and an order for each rank. Out: one of datatrove's executors runs a pipeline
of one step with a rank for each order; on Slurm the file `job` says under which number. The work itself is
done by a process below the rank (`worker.py`), which holds Krill and nothing of datatrove's, so that its
memory is that of the command and a kill is an exit code.

datatrove sends the executor and its pipeline to the ranks as pickles (Slurm: `executor.pik`, which the job
opens again): that is its way, in a folder of ours, and holds nothing but a path, numbers and the executor's
settings. Orders and answers are JSON.
"""

from __future__ import annotations

import math
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson
from datatrove.executor.base import PipelineExecutor
from datatrove.executor.local import LocalPipelineExecutor
from datatrove.executor.slurm import SlurmPipelineExecutor
from datatrove.pipeline.base import PipelineStep

from krill.engines.datatrove_starts import ended_with
from krill.storage.atomic import write_bytes

# How soon it is seen that the driver is gone.
_LOOK_SECONDS = 1.0
# What a job of Slurm's holds beside the process that works: measured, 55 MB for this one, 13 for its shells.
_BESIDE_BYTES = 80_000_000


class RunRank(PipelineStep):  # type: ignore[misc]  # datatrove has no types
    """Has a process do a rank's order; no documents come or go."""

    name = "Krill rank"
    type = "Krill"

    def __init__(self, folder: str, ranks: list[int]) -> None:
        super().__init__()
        self.folder = folder
        self.ranks = ranks

    def run(self, data: object, rank: int = 0, world_size: int = 1) -> Iterable[object]:
        order, answer, process = (
            Path(self.folder) / f"{name}-{self.ranks[rank]}" for name in ("order", "answer", "process")
        )
        python = [sys.executable, "-c", "from krill.engines.worker import main; main()"]
        with self.track_time(unit="rank"):
            code = subprocess.run([*python, order, answer, process], check=False).returncode
        if not answer.exists():
            fault = f"the process that ran it {ended_with(code)}"
            write_bytes(answer, orjson.dumps({"fault": fault, "trace": ""}))
        return ()


class SlurmArray(SlurmPipelineExecutor):  # type: ignore[misc]  # datatrove has no types
    """Without the job that adds up statistics, which would wait for ever for an array that fails."""

    def launch_merge_stats(self) -> None:
        """Nothing is added up."""


def executor_of(folder: Path, given: Mapping[str, Any]) -> PipelineExecutor:
    """The executor whose `run` starts the ranks; only Slurm's returns before they have ended."""
    ranks, threads = given["ranks"], given["threads"]
    shared: dict[str, Any] = {
        "pipeline": [RunRank(str(folder), ranks)],
        "tasks": len(ranks),
        "workers": len(ranks),
        "logging_dir": str(folder),
        "skip_completed": False,
    }
    if not given["slurm"]:
        # This process has no other threads that matter, and what it has imported is shared by forking.
        return LocalPipelineExecutor(**shared, start_method="fork")
    megabytes = math.ceil((given["memory"] + _BESIDE_BYTES) / threads / 2**20)
    return SlurmArray(
        **shared,
        partition=given["slurm"]["partition"],
        time=given["slurm"]["time"],
        cpus_per_task=threads,
        mem_per_cpu_gb=math.ceil(megabytes / 1024),
        # datatrove counts whole gigabytes for each core, more than small workers need.
        sbatch_args={"mem-per-cpu": f"{megabytes}M", **given["slurm"]["sbatch"]},
        # Since Slurm 22.05 a step has one core by default.
        srun_args={"cpus-per-task": threads},
        job_name=f"krill-{folder.parent.name}",
        env_command=f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH",
        # The driver starts lost ranks again: it would not know of a job that starts anew by itself.
        requeue=False,
        requeue_signals=None,
        qos="",
    )


def main() -> None:
    """Start the ranks of the folder that the command names."""
    folder = Path(sys.argv[1])
    given = orjson.loads((folder / "start.json").read_bytes())
    if not given["slurm"]:
        threading.Thread(target=_end_with, args=[os.getppid()], daemon=True).start()
    executor = executor_of(folder, given)
    try:
        executor.run()
    except subprocess.CalledProcessError:
        sys.exit(1)  # `sbatch` has said why, and says it better than a traceback
    if given["slurm"]:
        write_bytes(folder / "job", str(executor.job_id).encode())


def _end_with(driver: int) -> None:
    """End all ranks on this machine when the driver is gone."""
    while os.getppid() == driver:
        time.sleep(_LOOK_SECONDS)
    os.killpg(0, signal.SIGKILL)
