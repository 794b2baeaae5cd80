"""Workers for tests: orders are done in this process, one after the other, as bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

from krill.budget import resident_bytes
from krill.engines import LoggedStage, Resources, WorkerSpec
from krill.engines.contract import Done, Task
from krill.engines.worker import packed, perform, release, unpacked
from krill.engines.workers import WorkersEngine


class InProcessRunner:
    """Remembers its tasks, breaks off after `most` of them, as a driver that is killed, and does each `times`
    times, as workers do that start it before any has committed it."""

    workers = 1

    def __init__(self, most: int = 10**6, times: int = 1) -> None:
        self.tasks: list[Task] = []
        self.specs: set[WorkerSpec] = set()
        self._left = most
        self._times = times
        self._floor = resident_bytes()

    def run(self, spec: WorkerSpec, tasks: Iterable[Task], resources: Resources) -> Iterator[Done]:
        self.specs.add(spec)
        resources = replace(resources, floor=self._floor)
        for task in tasks:
            if self._left == 0:
                raise KeyboardInterrupt
            self._left -= 1
            self.tasks.append(task)
            order = packed(spec, resources, stage=task.stage, tasks=task.tasks)
            result = unpacked(perform(order))
            for _ in range(self._times - 1):
                with mock.patch.object(LoggedStage, "missing", lambda stage, tasks: iter(tasks)):
                    result = unpacked(perform(order))
            yield Done(task, result)

    def ready(self, spec: WorkerSpec) -> None:
        """Nothing is gained by it here."""

    def close(self) -> None:
        release()


def opening(runner: Any) -> Any:
    """What takes the place of `open_engine`: an engine whose tasks `runner` runs."""
    return lambda config, spec, done: WorkersEngine(runner, config.name, spec, done)
