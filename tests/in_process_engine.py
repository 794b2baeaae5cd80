"""Workers for tests: requests are done in this process, one after the other, as bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from krill.budget import resident_bytes
from krill.config.engine import EngineConfig
from krill.engines import Resources, Stage, WorkerSpec
from krill.engines.engine import WorkersEngine
from krill.engines.worker import decode_result, encode_request, handle_request, release


@dataclass(frozen=True)
class Task:
    """What is sent to a worker: some tasks of a stage; `name` says to people which."""

    name: str
    stage: str
    tasks: Sequence[Any]


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

    def run(
        self, spec: WorkerSpec, tasks: Iterable[Task], resources: Resources
    ) -> Iterator[Mapping[str, Any]]:
        self.specs.add(spec)
        spec = replace(spec, resources=replace(resources, floor=self._floor))
        for task in tasks:
            if self._left == 0:
                raise KeyboardInterrupt
            self._left -= 1
            self.tasks.append(task)
            request = encode_request(spec, stage=task.stage, tasks=task.tasks)
            result = decode_result(handle_request(request))
            for _ in range(self._times - 1):
                with mock.patch.object(Stage, "missing", lambda stage, tasks: iter(tasks)):
                    result = decode_result(handle_request(request))
            yield result


class InProcessEngine(WorkersEngine):
    """Has tasks done as Ray's engine does, by a runner."""

    def __init__(self, runner: InProcessRunner, config: EngineConfig, spec: WorkerSpec, done: Any) -> None:
        super().__init__(config, spec, done)
        self.workers = runner.workers
        self._runner = runner

    def run(self, stage: Stage) -> None:
        bundles = stage.bundles(stage.missing(stage.tasks()), self.workers)
        tasks = (Task(stage.describe(bundle), stage.name, bundle) for bundle in bundles)
        for result in self._runner.run(self._spec, tasks, self._spec.resources):
            self._add(result)

    def close(self) -> None:
        release()


def opening(runner: Any) -> Any:
    """What takes the place of `open_engine`: an engine whose tasks `runner` runs."""
    return lambda config, spec, done: InProcessEngine(runner, config, spec, done)
