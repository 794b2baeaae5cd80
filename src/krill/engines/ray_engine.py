"""Tasks on a Ray cluster: as many at once as its nodes have cores and memory for.

In: tasks. Out: their results, as they end. Each task asks Ray for its threads and for the memory of the plan,
so that Ray does not put more on a node than it has. Ray keeps worker processes and uses them again: what a
task loads stays loaded for the next. Held in memory: the tasks that are under way and a few that wait.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

from krill.budget.machine import available_threads
from krill.config.engine import EngineConfig
from krill.engines.contract import Done, Resources, Task, WorkerSpec
from krill.engines.ray_cluster import check_machine, connect, import_ray, start_here
from krill.engines.worker import TaskFault, packed, unpacked
from krill.errors import ConfigError, KrillError

# Tasks that wait beside each one that runs, so that no worker waits for the driver.
_WAITING = 2
# Seconds before another try. A node that died is known to be dead only a little later: until then Ray may
# send work there again.
_PAUSES = (0.5, 2.0, 8.0)
# Workers end a moment after their driver has left.
_END_SECONDS = 1.0


class RayRunner:
    """Runs tasks on the cluster at `address`, or on one that it starts on this machine."""

    def __init__(self, config: EngineConfig) -> None:
        self._ray = import_ray()
        self._retries = config.retries
        self._asked = None if config.workers == "auto" else config.workers
        self._here = config.address is None
        self._threads = 1
        self._running: dict[Any, Task] = {}
        self._getting_ready: list[Any] = []
        if config.address is None:
            start_here(self._ray, self._asked or available_threads())
        else:
            connect(self._ray, config.address)
        self._cores = int(self._ray.cluster_resources().get("CPU", 0))
        # One for all stages, so that it is sent once.
        self._remote = self._ray.remote(_perform())

    @property
    def workers(self) -> int:
        """As many as were asked for, else one for each core's worth of threads."""
        return self._asked or max(1, self._cores // self._threads)

    def ready(self, spec: WorkerSpec) -> None:
        """To start a process and load what it needs takes a second."""
        remote, room = self._worker(spec.kind, spec.resources)
        order = packed(spec, spec.resources, stage="", tasks=[])
        self._getting_ready = [remote.remote(order) for _ in range(min(self.workers, room))]

    def _worker(self, kind: str, resources: Resources) -> tuple[Any, int]:
        """What runs a task on the cluster, and how many at once there is room for."""
        self._threads = resources.threads
        needs: dict[str, Any] = {
            "num_cpus": resources.threads,
            "memory": resources.memory,
            # By default Ray fills a node before it uses the next: of two nodes with a core each, one did all
            # tasks of a stage of four seconds, and the other none.
            "scheduling_strategy": "SPREAD",
        }
        if self._here:
            check_machine(self.workers, resources)
            needs = {"num_cpus": 1}  # nobody else is there: how many run at once is decided here
            room = self._cores
        else:
            room = _room(self._ray.nodes(), resources)
        return self._remote.options(**needs, max_retries=0, name=f"krill {kind}"), room

    def run(self, spec: WorkerSpec, tasks: Iterable[Task], resources: Resources) -> Iterator[Done]:
        self._running.clear()  # of a call that was given up
        remote, room = self._worker(spec.kind, resources)
        most = self.workers if self.workers < room else (1 + _WAITING) * self.workers
        source, waiting = iter(tasks), _Waiting(self._retries)
        while True:
            for task in _up_to(most - len(self._running), waiting, source):
                order = packed(spec, resources, stage=task.stage, tasks=task.tasks)
                self._running[remote.remote(order)] = task
            if not self._running and not waiting:
                return
            for task, answer in self._ended(waiting.seconds()):
                result = self._result(task, answer, waiting)
                if result is not None:
                    yield Done(task, result)

    def close(self) -> None:
        """Leave the cluster, which ends the tasks that still run; one that was started here ends.

        They are not cancelled one by one: Ray's driver aborts when one of them ends at that very moment.
        """
        self._ray.shutdown()
        if self._running:
            time.sleep(_END_SECONDS)  # so that nobody writes into the run's folder after this

    def _ended(self, seconds: float | None) -> Iterator[tuple[Task, Any]]:
        """Tasks that have ended, and what tells how: at least one, unless so many seconds pass before."""
        ray = self._ray
        if not self._running:
            time.sleep(seconds or 0)
            return
        try:
            ray.wait(list(self._running), num_returns=1, timeout=seconds)
            ended, _ = ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
        except ray.exceptions.RayError as error:
            raise _gone(error) from None
        for reference in ended:
            yield self._running.pop(reference), reference

    def _result(self, task: Task, answer: Any, waiting: _Waiting) -> Any:
        """What a task returned; None if it has to be run again."""
        try:
            result = unpacked(self._ray.get(answer))
        except self._ray.exceptions.LocalRayletDiedError as error:
            raise _gone(error) from None
        except (TaskFault, self._ray.exceptions.RayError) as error:
            waiting.add(task, str(error) if isinstance(error, TaskFault) else _first_line(error))
            return None
        waiting.succeeded(task)
        return result


class _Waiting:
    """Tasks that failed and wait for another try."""

    def __init__(self, retries: int) -> None:
        self._retries = retries
        self._failures: dict[str, int] = {}
        self._tasks: list[tuple[float, int, Task]] = []
        self._numbers = count()  # tasks that wait for the same moment are not compared

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, task: Task, reason: str) -> None:
        """It failed: try it again a little later, or raise."""
        failures = self._failures[task.name] = self._failures.get(task.name, 0) + 1
        if failures > self._retries:
            raise KrillError(
                f"the task `{task.name}` failed {failures} times, the last time with: {reason}",
                hint="what other tasks have done is kept: mend the cause and run the same command again",
            )
        pause = _PAUSES[min(failures, len(_PAUSES)) - 1]
        heapq.heappush(self._tasks, (time.monotonic() + pause, next(self._numbers), task))

    def succeeded(self, task: Task) -> None:
        self._failures.pop(task.name, None)

    def seconds(self) -> float | None:
        """Until the next one's turn; None if none waits."""
        return max(0.0, self._tasks[0][0] - time.monotonic()) if self._tasks else None

    def take(self) -> Task | None:
        """One whose turn it is."""
        return heapq.heappop(self._tasks)[2] if self.seconds() == 0 else None


def _up_to(most: int, waiting: _Waiting, source: Iterator[Task]) -> Iterator[Task]:
    """So many tasks at most that can start now."""
    for _ in range(most):
        task = waiting.take() or next(source, None)
        if task is None:
            return
        yield task


def _room(nodes: Iterable[dict[str, Any]], resources: Resources) -> int:
    """How many workers the cluster has room for. Ray would wait forever for what no node has."""
    alive = [node["Resources"] for node in nodes if node["Alive"]]
    room = sum(
        int(min(node.get("CPU", 0) // resources.threads, node.get("memory", 0) // resources.memory))
        for node in alive
    )
    if not room:
        cores = max((node.get("CPU", 0) for node in alive), default=0)
        most = max((node.get("memory", 0) for node in alive), default=0)
        raise ConfigError(
            f"no node of the cluster has room for a worker of {resources.threads} threads and"
            f" {resources.memory:,} bytes: the most that one has is {int(cores)} cores, {int(most):,} bytes",
            hint="lower --threads or --memory, which are those of one worker",
        )
    return room


def _perform() -> Any:
    """What Ray runs: sent as code and not by name, so that a machine without Krill can say so itself."""

    def perform(order: bytes) -> bytes:
        import gc
        import os

        # As the command itself does before it loads anything: loading then takes a fifth less.
        gc.set_threshold(20_000)
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
        try:
            from krill.engines import worker
        except ImportError as error:
            import json
            import platform
            import sys

            fact = f"the worker on `{platform.node()}` can't load Krill into `{sys.executable}`: {error}"
            hint = "install krill-lm, in the version that starts the run, where Ray runs on that machine"
            return json.dumps({"error": {"kind": "ConfigError", "message": fact, "hint": hint}}).encode()
        return worker.perform(order)

    return perform


def _gone(error: Exception) -> KrillError:
    return KrillError(
        f"the Ray node that this command is on is gone: {_first_line(error)}",
        hint="what was done is kept: start the cluster, and run the same command again",
    )


def _first_line(error: Exception) -> str:
    """The first line of an error that Ray raised."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
