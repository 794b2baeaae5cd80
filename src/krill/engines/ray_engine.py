"""Tasks on a Ray cluster: as many at once as its nodes have cores and memory for.

In: stages. Out: the same files as if this process had done their tasks. Each task asks Ray for its threads
and the memory of the plan, so that Ray does not put more on a node than it has. Ray runs a task again whose
worker died or raised an unexpected error. It uses worker processes again: what a task loads stays loaded for
the next. Held in memory: the tasks that are under way and a few that wait.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from krill.budget.machine import available_threads
from krill.config.engine import EngineConfig
from krill.engines.engine import Done, Resources, WorkersEngine, WorkerSpec, check_machine
from krill.engines.stage import Stage
from krill.engines.worker import decode_result, encode_request
from krill.errors import ConfigError, KrillError, MissingExtra
from krill.faults import first_line

# Tasks that wait beside each one that runs, so that no worker waits for the driver.
_WAITING: Final = 2
# Workers end a moment after their driver has left.
_END_SECONDS: Final = 1.0
# What a worker of one thread has at least, if one of several has as much: most of it is the process itself.
_OF_ONE_THREAD: Final = 512 * 10**6
_PROBE_SECONDS: Final = 5.0
# Results are a few hundred bytes and go through no object store; this is about the least that Ray takes.
_ONE_NODE: Final[dict[str, Any]] = {"object_store_memory": 80 * 2**20, "include_dashboard": False}
_QUIET: Final[dict[str, Any]] = {"log_to_driver": False, "configure_logging": False}


class RayEngine(WorkersEngine):
    """Has tasks done on the cluster at `address`, or on one that it starts on this machine."""

    def __init__(self, config: EngineConfig, spec: WorkerSpec, done: Done) -> None:
        super().__init__(config, spec, done)
        self._ray = import_ray(config.retries)
        self._running: dict[Any, str] = {}  # what they are to people
        here = available_threads() if config.workers == "auto" else config.workers
        connect(self._ray, config.address, here)
        self._cores = int(self._ray.cluster_resources().get("CPU", 0))
        # One for all stages, so that it is sent once.
        self._remote = self._ray.remote(remote_function())
        # To start a process and load what it needs takes a second, in which this one does something else.
        remote, room = self._worker(spec.resources)
        request = encode_request(spec, stage="", tasks=[])
        self._loading = [remote.remote(request) for _ in range(min(self.workers, room))]

    def run(self, stage: Stage) -> None:
        spec = self._spec
        if stage.one_thread:
            spec = replace(spec, resources=_one_thread_of(spec.resources))
        remote, room = self._worker(spec.resources)
        most = self.workers if self.workers < room else (1 + _WAITING) * self.workers
        for bundle in stage.bundles(stage.missing(stage.tasks()), self.workers):
            request = encode_request(spec, stage=stage.name, tasks=bundle)
            self._running[remote.remote(request)] = stage.describe(bundle)
            if len(self._running) >= most:
                self._collect()
        while self._running:
            self._collect()

    def close(self) -> None:
        """Leave the cluster, which ends the tasks that still run; one that was started here ends.

        They are not cancelled one by one: Ray's driver aborts when one of them ends at that very moment.
        """
        self._ray.shutdown()
        if self._running:
            time.sleep(_END_SECONDS)  # so that nobody writes into the run's folder after this

    def _worker(self, resources: Resources) -> tuple[Any, int]:
        """What runs a task on the cluster, and how many at once there is room for."""
        asked = self._config.workers
        self.workers = max(1, self._cores // resources.threads) if asked == "auto" else asked
        if self._config.address is None:
            check_machine(self.workers, resources)
            needs: dict[str, Any] = {"num_cpus": 1}  # nobody else is there: how many run is decided here
            room = self._cores
        else:
            # By default Ray fills a node before it uses the next: of two nodes with a core each, one did all
            # tasks of a stage of four seconds, and the other none.
            needs = {"num_cpus": resources.threads, "memory": resources.memory}
            needs["scheduling_strategy"] = "SPREAD"
            room = _room(self._ray.nodes(), resources)
        retries = {"max_retries": self._config.retries, "retry_exceptions": True}
        return self._remote.options(**needs, **retries, name=f"krill {self._spec.kind}"), room

    def _collect(self) -> None:
        """Wait until a task has ended, and count what it did."""
        name = None
        try:
            [ended], _ = self._ray.wait(list(self._running), num_returns=1)
            name = self._running.pop(ended)
            self._add(decode_result(self._ray.get(ended)))
        except self._ray.exceptions.RayError as error:
            raise self._failure(name, error) from None

    def _failure(self, name: str | None, error: Exception) -> KrillError:
        """Of the task of this name, or of the cluster."""
        exceptions, reason = self._ray.exceptions, first_line(error)
        if name is None or isinstance(error, exceptions.LocalRayletDiedError):
            return KrillError(
                f"the Ray node that this command is on is gone: {reason}",
                hint="what was done is kept: start the cluster, and run the same command again",
            )
        if isinstance(error, exceptions.RayTaskError):
            reason = f"{type(error.cause).__name__}: {error.cause}\n{error}"
        return KrillError(
            f"the task `{name}` failed {self._config.retries + 1} times, the last time with: {reason}",
            hint="what other tasks have done is kept: mend the cause and run the same command again",
        )


def _one_thread_of(worker: Resources) -> Resources:
    """For tasks of one thread: a worker's memory goes to as many of them as it has threads."""
    each = max(worker.memory // worker.threads, _OF_ONE_THREAD)
    return Resources(min(worker.memory, each), 1)


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


def remote_function() -> Any:
    """What Ray runs: sent as code and not by name, so that a machine without Krill can say so itself."""

    def handle_request(request: bytes) -> bytes:
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
        return worker.handle_request(request)

    return handle_request


# ---- Ray itself: the import, the way into a cluster, and a cluster of this machine's own.


def import_ray(retries: int) -> Any:
    """Ray, which warns and reports by default: a user of Krill asked for neither.

    What is set here counts when Ray is imported for the first time in a process.
    """
    # A node that died is known to be dead only a little later: until then Ray may send work there again.
    os.environ.setdefault("RAY_task_retry_delay_ms", "1000")
    # A worker that Ray ended for its memory: by default its task is run again without end.
    os.environ.setdefault("RAY_task_oom_retries", str(retries))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # Whatever a node prints of workers that died: the task is run again, or it is named in the end.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "(?s).*")
    try:
        import ray
    except ImportError:
        raise MissingExtra("the engine `ray`", "ray") from None
    logging.getLogger("ray").setLevel(logging.CRITICAL)  # importing it sets another level
    return ray


def connect(ray: Any, address: str | None, workers: int = 0) -> None:
    """Enter the cluster at `address`, as a driver on one of its machines; without an address, start one of
    this node alone, for so many workers, that ends with this process."""
    if address is not None and "://" in address:
        raise ConfigError(
            f"`engine.address` is `{address}`, and the driver has to be in the cluster, not outside",
            hint="run the command on a machine of the cluster, with the address `auto`",
        )
    named = os.environ.get("RAY_ADDRESS", address) if address == "auto" else address
    in_main = threading.current_thread() is threading.main_thread()
    on_sigterm = signal.getsignal(signal.SIGTERM)
    try:
        if named is None:
            ray.init(address="local", num_cpus=workers, **_ONE_NODE, **_QUIET)
        else:
            if named != "auto":
                _probe(named)
            ray.init(address=address, **_QUIET)
    except (ValueError, RuntimeError, OSError) as error:
        place = "on this machine" if named is None else f"at `{named}`"
        raise ConfigError(
            f"no Ray cluster can be used {place}: {first_line(error)}",
            hint="start one with `ray start --head`, name its address in `engine.address`, or leave the"
            " address out to use the cores of this machine",
        ) from None
    finally:
        if in_main and on_sigterm is not None:
            signal.signal(signal.SIGTERM, on_sigterm)  # Ray has set its own: a run is to end as ever


def _probe(address: str) -> None:
    """Ray itself tries for two minutes to reach what isn't there."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal():
        raise ValueError("that is no address such as `head:6379`")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PROBE_SECONDS).close()
    except OSError as error:
        raise ConnectionError(f"nothing answers ({error.strerror or error})") from None
