"""The process that submits ranks to Slurm, through datatrove's executor; itself started by the driver.

In: a folder with `start.json`. Out: a job array with a job for each rank, whose number is printed. The work
is done by a process below the job's (`rank.rank_command`), which holds Krill and nothing of datatrove's, so
that its memory is that of the command.

datatrove sends the executor and its pipeline to the jobs as a pickle (`executor.pik`): that is its way, in a
folder of ours, and holds nothing but a path, numbers and the executor's settings.
"""

from __future__ import annotations

import math
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path

import orjson
from datatrove.executor.slurm import SlurmPipelineExecutor

from krill.engines.rank import START_FILE, ended_with, rank_command

# What a job holds beside the process that works: measured, 55 MB for this one, 13 for its shells.
_BESIDE_BYTES = 80_000_000


def run_rank(folder: Path, numbers: list[int], data: object, rank: int, world_size: int) -> None:
    """The only step of the pipeline, in a job: the process of a rank; no documents come or go."""
    code = subprocess.run(rank_command(folder, numbers[rank]), check=False).returncode
    if code:
        sys.exit(f"the rank's process {ended_with(code)}")


class SlurmArray(SlurmPipelineExecutor):  # type: ignore[misc]  # datatrove has no types
    """Without the job that adds up statistics, which would wait for ever for an array that fails."""

    def launch_merge_stats(self) -> None:
        """Nothing is added up."""


def main() -> None:
    """Submit the ranks of the folder that the command names."""
    folder = Path(sys.argv[1])
    start = orjson.loads((folder / START_FILE).read_bytes())
    threads = start["resources"]["threads"]
    megabytes = math.ceil((start["resources"]["memory"] + _BESIDE_BYTES) / threads / 2**20)
    executor = SlurmArray(
        pipeline=[partial(run_rank, folder, start["ranks"])],
        tasks=len(start["ranks"]),
        workers=len(start["ranks"]),
        logging_dir=str(folder),
        skip_completed=False,
        partition=start["partition"],
        time=start["time"],
        cpus_per_task=threads,
        mem_per_cpu_gb=math.ceil(megabytes / 1024),
        # datatrove counts whole gigabytes for each core, more than small workers need.
        sbatch_args={"mem-per-cpu": f"{megabytes}M", **start["sbatch"]},
        # Since Slurm 22.05 a step has one core by default.
        srun_args={"cpus-per-task": threads},
        job_name=f"krill-{folder.parent.name}",
        env_command=f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH",
        # The driver starts lost ranks again: it would not know of a job that starts anew by itself.
        requeue=False,
        requeue_signals=None,
        qos="",
    )
    try:
        executor.run()
    except subprocess.CalledProcessError:
        sys.exit(1)  # `sbatch` has said why, and says it better than a traceback
    print(executor.job_id)
