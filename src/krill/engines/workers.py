"""Stages done by workers elsewhere: bundles of a stage's tasks are sent to whoever runs tasks.

In: a stage. Out: the same files as if this process had done its tasks. Held in memory: the bundles under way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from krill.engines.contract import Resources, Task, TaskRunner
from krill.engines.stage import Stage
from krill.engines.worker_share import one_thread_of

READY: Final = ""
"""The stage of a task that only lets a worker load what it will need."""


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What a worker must know to open a run: its kind (one of `entries.ENTRIES`), where it is, and that it is
    this one. `anywhere` says that no folder has to be shared for it."""

    kind: str
    address: str
    identity: str
    resources: Resources
    anywhere: bool = False


class WorkersEngine:
    """Sends the tasks of a run's stages to the workers of `runner`; `done` is called with what each task
    says it did: `bytes` that were read and `kept` on disk."""

    def __init__(
        self, runner: TaskRunner, name: str, spec: WorkerSpec, done: Callable[[Mapping[str, Any]], None]
    ) -> None:
        self._runner = runner
        self._name = name
        self._spec = spec
        self._done = done
        self._tasks = self._peak = 0
        runner.ready(spec.kind, self._task(READY, READY, []), spec.resources)

    @property
    def workers(self) -> int:
        return self._runner.workers

    def run(self, stage: Stage) -> None:
        spec = self._spec
        resources = one_thread_of(spec.resources) if stage.one_thread else spec.resources
        bundles = stage.bundles(stage.missing(stage.tasks()), self.workers)
        tasks = (self._task(stage.describe(bundle), stage.name, bundle) for bundle in bundles)
        for _, result in self._runner.run(spec.kind, tasks, resources):
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

    def _task(self, name: str, stage: str, tasks: Sequence[Any]) -> Task:
        spec = self._spec
        payload = {"work": spec.address, "identity": spec.identity, "stage": stage, "tasks": tasks}
        return Task(name, payload, spec.anywhere)
