"""Stages done by workers elsewhere: bundles of a stage's tasks are sent to whoever runs tasks.

In: a stage. Out: the same files as if this process had done its tasks. Held in memory: the bundles under way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from krill.engines.contract import Resources, Stage, Task, TaskRunner, WorkerSpec

# What a worker of one thread has at least, if one of several has as much: most of it is the process itself.
_OF_ONE_THREAD: Final = 512 * 10**6


class WorkersEngine:
    """Sends the tasks of a run's stages to the workers of `runner`; `done` is called with what each of them
    did: `bytes` that were read, and `kept` on disk."""

    shared = False

    def __init__(
        self, runner: TaskRunner, name: str, spec: WorkerSpec, done: Callable[[Mapping[str, Any]], None]
    ) -> None:
        self._runner = runner
        self._name = name
        self._spec = spec
        self._done = done
        self._tasks = self._peak = 0
        runner.ready(spec)

    @property
    def workers(self) -> int:
        return self._runner.workers

    def run(self, stage: Stage) -> None:
        spec = self._spec
        resources = one_thread_of(spec.resources) if stage.one_thread else spec.resources
        bundles = stage.bundles(stage.missing(stage.tasks()), self.workers)
        tasks = (Task(stage.describe(bundle), stage.name, bundle) for bundle in bundles)
        for _, result in self._runner.run(spec, tasks, resources):
            self._tasks += 1
            self._peak = max(self._peak, result["peak"])
            self._done(result)

    def facts(self) -> Mapping[str, Any]:
        return {
            "name": self._name,
            "workers": self.workers,
            "tasks": self._tasks,
            "worker_peak": self._peak,
        }

    def close(self) -> None:
        self._runner.close()


def one_thread_of(worker: Resources) -> Resources:
    """For tasks of one thread: a worker's memory goes to as many of them as it has threads."""
    each = max(worker.memory // worker.threads, _OF_ONE_THREAD)
    return Resources(min(worker.memory, each), 1)
