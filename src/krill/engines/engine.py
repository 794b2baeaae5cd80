"""An engine has the tasks of stages done: by threads of this process, by Ray, by ranks.

In: the config's `engine`, and a run. Out: an engine, and what it means for memory and threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from krill.budget import Kind, Need, resolve_limit, resolve_threads
from krill.engines.stage import Stage
from krill.errors import BudgetError
from krill.storage.commits import LOCAL
from krill.storage.run import Run
from krill.threads.progress import Progress

if TYPE_CHECKING:
    from krill.config.engine import EngineConfig

# What Ray's driver holds besides its code, which is loaded before: 23 MB when it has joined a cluster, some
# more with tasks under way. A worker has the same budget, and takes up to 13 MB more to load.
RAY_DRIVER: Final = 45 * 10**6
SPEC_FILE: Final = "worker.json"
"""What a worker must know of a run beside `run.json`, in the same folder."""


class Engine(ABC):
    """Has the tasks of a run's stages done."""

    workers = 1
    """How many processes share the work."""
    shared = False
    """Whether other processes go through the stages at their own pace: nothing may be removed early."""

    @abstractmethod
    def run(self, stage: Stage) -> None:
        """Have all tasks of a stage done that are missing."""

    @abstractmethod
    def facts(self) -> Mapping[str, Any]:
        """What the manifest says of it."""

    def close(self) -> None:  # noqa: B027  # most engines hold nothing
        """End the workers."""


class LocalEngine(Engine):
    """The threads of this process do all tasks."""

    def run(self, stage: Stage) -> None:
        stage.run(stage.missing(stage.tasks()))

    def facts(self) -> Mapping[str, Any]:
        return {"name": "local"}


@dataclass(frozen=True, slots=True)
class Resources:
    """What one worker has: bytes of resident memory, and threads.

    `floor` is what its process held before it became a worker, and what does not count: 0 but for a process
    that somebody else uses as well.
    """

    memory: int
    threads: int
    floor: int = 0


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What a worker must know to open a run: its kind (one of `worker.KINDS`), where it is, and that it is
    this one. `anywhere` says that no folder has to be shared for it."""

    kind: str
    address: str
    identity: str
    resources: Resources
    anywhere: bool = False

    @classmethod
    def of_run(cls, kind: str, run: Run, resources: Resources, settings: Mapping[str, Any]) -> WorkerSpec:
        """Leaves the settings where workers find them."""
        run.note(SPEC_FILE, settings)
        identity = run.description["identity"]
        return cls(kind, run.storage.address, identity, resources, anywhere=run.paths.files is not LOCAL)


Done = Callable[[Mapping[str, Any]], None]
"""Called with what workers read (`bytes`) and `kept` on disk."""


class WorkersEngine(Engine):
    """Starts workers, and adds up their results."""

    def __init__(self, config: EngineConfig, spec: WorkerSpec, done: Done) -> None:
        self._config = config
        self._spec = spec
        self._done = done
        self._tasks = self._peak = 0

    def facts(self) -> Mapping[str, Any]:
        return {
            "name": self._config.name,
            "workers": self.workers,
            "tasks": self._tasks,
            "worker_peak": self._peak,
        }

    def _add(self, result: Mapping[str, Any]) -> None:
        """What a worker has sent."""
        self._tasks += 1
        self._peak = max(self._peak, result["peak"])
        self._done(result)


def engine_named(engine: str | Mapping[str, Any]) -> EngineConfig | None:
    """An engine as a config names it; None for the threads of this process."""
    if engine == "local":
        return None
    from krill.config import load_config

    config = load_config({"engine": engine}, environ={}).engine
    return None if config.name == "local" else config


def worker_part(config: EngineConfig | None, memory: str | int, threads: int | str) -> tuple[int, int]:
    """The memory and the threads of each worker; `auto` is a part for each of those on this machine."""
    here = 1 if config is None or config.address is not None or config.workers == "auto" else config.workers
    limit, most = resolve_limit(memory), resolve_threads(threads)
    if isinstance(memory, str) and memory.strip().lower() == "auto":
        limit //= here
    return limit, max(1, most // here) if threads == "auto" else most


def driver_needs(config: EngineConfig | None) -> list[Need]:
    """What the engine holds in the process that starts it, beside its library's code: that is loaded here,
    before the plan takes stock."""
    if config is None or not config.uses_ray:
        return []
    from krill.engines.ray_engine import import_ray

    import_ray(config.retries)
    return [Need("the driver of Ray", RAY_DRIVER, Kind.WATCHED)]


def open_engine(config: EngineConfig, spec: WorkerSpec, done: Done) -> Engine:
    """The engine that the config names, which is not `local`, for one run."""
    if config.uses_ray:
        from krill.engines.ray_engine import RayEngine

        return RayEngine(config, spec, done)
    from krill.engines.datatrove import DatatroveEngine

    return DatatroveEngine(config, spec, done)


def run_stages(
    config: EngineConfig, spec: WorkerSpec, stages: Iterable[Stage], progress: Progress
) -> dict[str, Any]:
    """Have stages done, one after the other; what the manifest says of the engine."""
    with closing(open_engine(config, spec, lambda result: progress.advance(result["bytes"]))) as engine:
        for stage in stages:
            engine.run(stage)
        return dict(engine.facts())


def check_machine(workers: int, resources: Resources) -> None:
    """Refuse more workers than this machine has memory for."""
    import psutil

    there = int(psutil.virtual_memory().total)
    if workers * resources.memory > there:
        raise BudgetError(
            f"{workers} workers of {resources.memory:,} bytes each are more than the {there:,} bytes of this"
            " machine",
            hint=f"with --memory {there // workers // 10**6}MB, which is that of each worker, or fewer"
            " --workers, they fit",
        )
