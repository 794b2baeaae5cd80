"""The worker's side: a pipeline of one step, and the executor of datatrove's that runs it.

In: a `CrewPlan`, from the driver. Out: an executor with as many ranks as the crew has workers. A rank is a
worker's life: it takes orders from the board, one after the other, until the driver is gone, so that what a
process has loaded serves many tasks. Held in memory: one order and its answer; the work itself is done by a
process beside it (`datatrove_hand.py`), so that this one can tell when the work was its death.

datatrove sends the executor and its pipeline to the workers as pickles (Slurm: `executor.pik`, which the job
opens again): that is its way, in a folder of ours, and holds nothing but this step's two strings and the
executor's settings. Orders and answers are JSON.
"""

from __future__ import annotations

import math
import os
import shlex
import sys
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any

from datatrove.executor import ray as ray_executor
from datatrove.executor.base import PipelineExecutor
from datatrove.executor.local import LocalPipelineExecutor
from datatrove.executor.ray import RayPipelineExecutor, RayTaskManager
from datatrove.executor.slurm import SlurmPipelineExecutor
from datatrove.pipeline.base import PipelineStep

from krill.engines.datatrove_board import Board, pause_after
from krill.engines.datatrove_crew import CrewPlan, life_of
from krill.engines.datatrove_hand import Hand
from krill.engines.datatrove_pulse import Life, Listener, Pulse

# How long an idle worker waits at most before it looks again for something to do.
_LONGEST_PAUSE = 2.0
# What a job of Slurm's holds beside the process that works: measured, 55 MB for this one, 13 for its shells.
_BESIDE_BYTES = 80_000_000


class RunTasks(PipelineStep):  # type: ignore[misc]  # datatrove has no types
    """Takes orders from a board until its driver is gone."""

    name = "Krill tasks"
    type = "Krill"

    def __init__(self, board: str, crew: str) -> None:
        super().__init__()
        self.board = board
        self.crew = crew

    def run(self, data: object, rank: int = 0, world_size: int = 1) -> Iterable[object]:
        """One worker's life; no documents come or go."""
        board = Board(Path(self.board))
        driver = Listener(board.driver)
        parent = os.getppid()

        def wanted() -> bool:
            # Ray may end the process that started this one, and start the rank again elsewhere.
            return driver.life() is Life.ALIVE and os.getppid() == parent

        worker = life_of(self.crew, rank)
        last_task = time.monotonic()
        with Pulse(board.worker(worker)), closing(Hand()) as hand:
            while wanted():
                taken = board.take(worker)
                if taken is None:
                    time.sleep(pause_after(time.monotonic() - last_task, _LONGEST_PAUSE))
                    continue
                number, order = taken
                with self.track_time(unit="task"):
                    answer = hand.perform(order, wanted)
                if answer is not None:
                    board.answer(worker, number, answer)
                    self.stat_update("tasks")
                last_task = time.monotonic()
        return ()


class SlurmArray(SlurmPipelineExecutor):  # type: ignore[misc]  # datatrove has no types
    """Without the job that adds up statistics, which would wait for ever for an array that fails."""

    def launch_merge_stats(self) -> None:
        """Nothing is added up."""


class RayActors(RayPipelineExecutor):  # type: ignore[misc]  # datatrove has no types
    """As it is, but it does not wait for a worker that died while it was started."""

    def run(self) -> object:
        """Run the crew to its end."""
        ray_executor.RayTaskManager = _Manager
        return super().run()


class _Manager(RayTaskManager):  # type: ignore[misc]  # datatrove has no types
    def submit_task(self, *arguments: Any) -> Future[Any]:
        """Where starting a worker fails, datatrove 0.10 never learns of it: say so."""
        started: Future[Any] = super().submit_task(*arguments)

        def tell(starting: Future[None]) -> None:
            error = starting.exception()
            if error is not None:
                started.set_exception(error)

        self.pg_futures[-1].add_done_callback(tell)
        return started


def executor_of(plan: CrewPlan) -> PipelineExecutor:
    """The executor whose `run` starts the crew; only Slurm's returns before the crew has ended."""
    shared: dict[str, Any] = {
        "pipeline": [RunTasks(plan.board, plan.crew)],
        "tasks": plan.workers,
        "workers": plan.workers,
        "logging_dir": str(Board(Path(plan.board)).crew(plan.crew)),
    }
    if plan.executor == "local":
        # This process has no other threads, and what it has imported is shared by forking.
        return LocalPipelineExecutor(**shared, start_method="fork")
    if plan.executor == "ray":
        each = plan.memory / plan.threads / 2**30
        return RayActors(**shared, cpus_per_task=plan.threads, mem_per_cpu_gb=each)
    return _slurm(plan, shared)


def _slurm(plan: CrewPlan, shared: Mapping[str, Any]) -> PipelineExecutor:
    megabytes = math.ceil((plan.memory + _BESIDE_BYTES) / plan.threads / 2**20)
    return SlurmArray(
        **shared,
        partition=plan.partition,
        time=plan.time,
        cpus_per_task=plan.threads,
        mem_per_cpu_gb=math.ceil(megabytes / 1024),
        # datatrove counts whole gigabytes for each core, more than small workers need.
        sbatch_args={"mem-per-cpu": f"{megabytes}M", **(plan.sbatch or {})},
        # Since Slurm 22.05 a step has one core unless it is told otherwise.
        srun_args={"cpus-per-task": plan.threads},
        job_name=f"krill-{Path(plan.board).name}",
        env_command=f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH",
        # The driver replaces what dies: it would not know of a job that starts anew by itself.
        requeue=False,
        requeue_signals=None,
        qos="",
    )
