"""Tasks on a Ray cluster: as many at once as the cluster has cores and memory for.

Each task asks Ray for its threads and for the memory of the plan, so that Ray does not put more on a node
than it has. Ray keeps worker processes and uses them again; what a task loads stays loaded for the next. In
memory here: the tasks that are under way and a few that wait.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from krill.config.engine import EngineConfig
from krill.engines.contract import Done, Resources, Task
from krill.engines.entries import TaskFault, packed, unpacked
from krill.engines.retries import Attempts
from krill.errors import ConfigError, KrillError, MissingExtra

# Tasks that wait beside each one that runs, so that no worker waits for the driver.
_WAITING = 2
# A cluster that has no room for a single task now may have other users; this is how long that may last.
_CONNECT_SECONDS = 30


class RayEngine:
    """Runs tasks on the cluster at `address`, or on one that it starts on this machine."""

    def __init__(self, config: EngineConfig) -> None:
        self._ray = _import_ray()
        self._retries = config.retries
        self._started_here = config.address is None
        _connect(self._ray, config)
        cores = int(self._ray.cluster_resources().get("CPU", 1))
        self._asked = None if config.workers == "auto" else config.workers
        self._cores = max(1, cores)
        self._threads = 1

    @property
    def workers(self) -> int:
        """As many as were asked for, else one for each core's worth of threads."""
        return self._asked or max(1, self._cores // self._threads)

    def run(self, entry: str, tasks: Iterable[Task], resources: Resources) -> Iterator[Done]:
        """See `Engine`."""
        ray = self._ray
        self._threads = resources.threads
        self._check_room(resources)
        remote = ray.remote(_perform).options(
            num_cpus=resources.threads, memory=resources.memory, max_retries=0, name=f"krill {entry}"
        )
        attempts = Attempts(self._retries)
        running: dict[Any, Task] = {}
        source = iter(tasks)

        def start(task: Task) -> None:
            running[remote.remote(packed(entry, task, resources))] = task

        try:
            while True:
                while len(running) < self.workers * (1 + _WAITING):
                    task = next(source, None)
                    if task is None:
                        break
                    start(task)
                if not running:
                    return
                ready, _ = ray.wait(list(running), num_returns=1)
                for reference in ready:
                    task = running.pop(reference)
                    try:
                        result = unpacked(ray.get(reference))
                    except TaskFault as error:
                        attempts.failed(task, str(error))
                        start(task)
                    except ray.exceptions.RayError as error:
                        attempts.failed(task, _told(error))
                        start(task)
                    else:
                        attempts.succeeded(task)
                        yield Done(task, result)
        finally:
            for reference in running:
                ray.cancel(reference, force=True)

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        self._ray.shutdown()

    def _check_room(self, resources: Resources) -> None:
        """Ray would wait forever for what no node has."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        if not any(
            node.get("CPU", 0) >= resources.threads and node.get("memory", 0) >= resources.memory
            for node in nodes
        ):
            most = max((node.get("memory", 0) for node in nodes), default=0)
            cores = max((node.get("CPU", 0) for node in nodes), default=0)
            raise ConfigError(
                f"no node of the cluster has room for a worker of {resources.threads} threads and"
                f" {resources.memory:,} bytes: the largest has {int(cores)} cores and {int(most):,} bytes",
                hint="lower --threads or --memory, which are those of one worker",
            )


def _perform(order: bytes) -> bytes:
    from krill.engines.entries import perform

    return perform(order)


def _import_ray() -> Any:
    # Ray warns and reports by default; a user of Krill asked for neither.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise MissingExtra("the engine `ray`", "ray") from None
    return ray


def _connect(ray: Any, config: EngineConfig) -> None:
    options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    if config.address is None:
        options |= {"include_dashboard": False}
        if config.workers != "auto":
            options["num_cpus"] = config.workers
    else:
        options["address"] = config.address
    try:
        ray.init(**options)
    except (ConnectionError, ValueError, RuntimeError, TimeoutError, OSError) as error:
        fact = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise KrillConnectError(config.address, fact) from None


class KrillConnectError(ConfigError):
    """No cluster answers."""

    def __init__(self, address: str | None, fact: str) -> None:
        place = "on this machine" if address is None else f"at `{address}`"
        super().__init__(
            f"no Ray cluster can be used {place}: {fact}",
            hint="start one with `ray start --head`, name its address in `engine.address`, or leave the"
            " address out to use the cores of this machine",
        )


def _told(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


__all__ = ["KrillError", "RayEngine"]
