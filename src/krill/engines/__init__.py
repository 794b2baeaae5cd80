"""Where work runs: here, on a Ray cluster, or on one of datatrove's executors.

In: tasks, each a small JSON payload that names a part of the work, and what a worker may use. Out: each
task's small JSON result, as it ends. What is large goes through files in a folder that all workers see: a
task commits them, so one that died is simply run again. Held in memory here: the tasks that run, never all of
them.
"""

from krill.engines.contract import Done, Resources, Task, TaskRunner
from krill.engines.open import driver_needs, load_engine, open_engine

__all__ = ["Done", "Resources", "Task", "TaskRunner", "driver_needs", "load_engine", "open_engine"]
