"""Slurm's commands for a machine without Slurm: jobs of an array are processes, started at once.

`slurm_stand_in.py COMMAND ARGUMENTS...`, with a folder for the jobs in STAND_IN_JOBS. It knows one partition,
`work`, and what Krill says to Slurm, no more; what it does not know it refuses, as Slurm does.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PARTITION = "work"
CORES = 4
JOBS = Path(os.environ["STAND_IN_JOBS"])


def sinfo(arguments: list[str]) -> None:
    if f"--partition={PARTITION}" in arguments:
        print(f"0/{CORES}/0/{CORES}")


def sbatch(arguments: list[str]) -> None:
    given = [argument.removeprefix("--") for argument in arguments]
    told = {name: value for name, _, value in (each.partition("=") for each in given)}
    if told["partition"] != PARTITION:
        sys.exit(f"sbatch: error: invalid partition specified: {told['partition']}")
    if "account" in told and told["account"] != "open":
        sys.exit("sbatch: error: Batch job submission failed: Invalid account")
    JOBS.mkdir(exist_ok=True)
    job = 1 + len(list(JOBS.glob("*.script")))
    heading = [f"#SBATCH --{each}" for each in given if not each.startswith("wrap=")]
    (JOBS / f"{job}.script").write_text("\n".join(["#!/bin/sh", *heading, told["wrap"], ""]))
    for index in map(int, told["array"].split(",")):
        _state(job, index, "RUNNING")
        variables = {
            "SLURM_ARRAY_JOB_ID": str(job),
            "SLURM_ARRAY_TASK_ID": str(index),
            "SLURM_JOB_ID": str(job + index),
            "SLURM_NODELIST": "localhost",
            "SLURM_CPUS_PER_TASK": told["cpus-per-task"],
        }
        with open(f"slurm-{job}_{index}.out", "wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-S", "-E", __file__, "job", str(job), str(index)],
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        (JOBS / f"{job}_{index}.pid").write_text(str(process.pid))
    print(job)


def job(arguments: list[str]) -> None:
    """What runs on the node: the script, and what became of it."""
    number, index = map(int, arguments)
    code = subprocess.run(["bash", JOBS / f"{number}.script"], check=False).returncode
    _state(number, index, "FAILED" if code else "COMPLETED")


def squeue(arguments: list[str]) -> None:
    [jobs] = [argument.removeprefix("--jobs=") for argument in arguments if argument.startswith("--jobs=")]
    for number in jobs.split(","):
        for path in sorted(JOBS.glob(f"{number}_*.state")):
            print(path.stem, path.read_text())


def scancel(arguments: list[str]) -> None:
    if arguments[0] == "--state=PENDING":
        return  # none waits here
    for path in JOBS.glob("*_*.pid"):
        if path.stem not in arguments and arguments != ["--all"]:
            continue
        number, index = map(int, path.stem.split("_"))
        if (JOBS / f"{path.stem}.state").read_text() == "RUNNING":
            _state(number, index, "CANCELLED")
            os.killpg(int(path.read_text()), signal.SIGKILL)


def _state(number: int, index: int, state: str) -> None:
    path = JOBS / f"{number}_{index}.state"
    temporary = path.with_suffix(f".{time.monotonic_ns()}")
    temporary.write_text(state)
    temporary.rename(path)


if __name__ == "__main__":
    {function.__name__: function for function in (sinfo, sbatch, job, squeue, scancel)}[sys.argv[1]](
        sys.argv[2:]
    )
