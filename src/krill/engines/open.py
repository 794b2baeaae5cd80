"""From the config's `engine` to an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from krill.budget import Kind, Need
from krill.engines.contract import TaskRunner

if TYPE_CHECKING:
    from krill.config.engine import EngineConfig


# What Ray's driver holds besides its code, which is loaded before: 23 MB when it has joined a cluster, some
# more with tasks under way. A worker has the same budget, and takes up to 13 MB more to load.
RAY_DRIVER: Final = 45 * 10**6


def load_engine(config: EngineConfig | None) -> None:
    """Import the engine's library, before a plan takes stock of what this process holds."""
    if config is not None and config.name == "ray":
        from krill.engines.ray_cluster import import_ray

        import_ray()


def driver_needs(config: EngineConfig | None) -> list[Need]:
    """What the engine holds in the process that starts it."""
    if config is None or config.name != "ray":
        return []
    return [Need("the driver of Ray", RAY_DRIVER, Kind.WATCHED)]


def open_engine(config: EngineConfig) -> TaskRunner | None:
    """The engine that the config names; None for `local`, whose work needs no tasks."""
    if config.name == "ray":
        from krill.engines.ray_engine import RayEngine

        return RayEngine(config)
    if config.name == "datatrove":
        from krill.engines.datatrove_engine import DatatroveEngine

        return DatatroveEngine(config)
    return None
