"""What a caller's `engine`, `memory` and `threads` mean for each worker. Nothing is held."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from krill.budget import resolve_limit, resolve_threads

if TYPE_CHECKING:
    from krill.config.engine import EngineConfig
    from krill.engines import Resources

# What a worker of one thread has at least, if one of several has as much: most of it is the process itself.
_OF_ONE_THREAD: Final = 512 * 10**6


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


def one_thread_of(worker: Resources) -> Resources:
    """For tasks of one thread: a worker's memory goes to as many of them as it has threads."""
    each = max(worker.memory // worker.threads, _OF_ONE_THREAD)
    return type(worker)(min(worker.memory, each), 1)
