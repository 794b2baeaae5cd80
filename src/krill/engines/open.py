"""From the config's `engine` to an engine, and what it means for memory and threads. Nothing is held."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from krill.budget import Kind, Need, resolve_limit, resolve_threads
from krill.engines.contract import Engine, WorkerSpec
from krill.engines.local import LocalEngine

if TYPE_CHECKING:
    from krill.config.engine import EngineConfig

# What Ray's driver holds besides its code, which is loaded before: 23 MB when it has joined a cluster, some
# more with tasks under way. A worker has the same budget, and takes up to 13 MB more to load.
RAY_DRIVER: Final = 45 * 10**6


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


def uses_ray(config: EngineConfig | None) -> bool:
    """Whether tasks go to a Ray cluster: as themselves, or as datatrove's, whose executor is no other."""
    return config is not None and (
        config.name == "ray" or (config.name == "datatrove" and config.executor == "ray")
    )


def load_engine(config: EngineConfig | None) -> None:
    """Import the engine's library, before a plan takes stock of what this process holds."""
    if uses_ray(config):
        from krill.engines.ray_cluster import import_ray

        import_ray()


def driver_needs(config: EngineConfig | None) -> list[Need]:
    """What the engine holds in the process that starts it."""
    return [Need("the driver of Ray", RAY_DRIVER, Kind.WATCHED)] if uses_ray(config) else []


def open_engine(config: EngineConfig, spec: WorkerSpec, done: Callable[[Mapping[str, Any]], None]) -> Engine:
    """The engine that the config names, for one run; `done` is called with what workers read (`bytes`) and
    `kept` on disk."""
    if uses_ray(config):
        from krill.engines.ray_engine import RayRunner
        from krill.engines.workers import WorkersEngine

        return WorkersEngine(RayRunner(config), config.name, spec, done)
    if config.name == "datatrove":
        from krill.engines.datatrove import DatatroveEngine

        return DatatroveEngine(config, spec, done)
    return LocalEngine()
