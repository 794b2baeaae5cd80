"""Where the tasks of stages are done: here, on a Ray cluster, by ranks on Slurm, or by ranks of --task.

In: stages, whose tasks are small JSON values, and what a worker may use. Out: all tasks, committed. What is
large goes through files that all workers see, so a task that died is simply done again. Held in memory here:
the tasks under way.
"""

from krill.engines.engine import (
    Engine,
    LocalEngine,
    Resources,
    WorkerSpec,
    driver_needs,
    engine_named,
    open_engine,
    run_stages,
    worker_part,
)
from krill.engines.stage import Stage, StageReport

__all__ = [
    "Engine",
    "LocalEngine",
    "Resources",
    "Stage",
    "StageReport",
    "WorkerSpec",
    "driver_needs",
    "engine_named",
    "open_engine",
    "run_stages",
    "worker_part",
]
