"""From the config's `engine` to an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from krill.engines.contract import Engine

if TYPE_CHECKING:
    from krill.config.engine import EngineConfig


def open_engine(config: EngineConfig) -> Engine | None:
    """The engine that the config names; None for `local`, whose work needs no tasks."""
    if config.name == "ray":
        from krill.engines.ray_engine import RayEngine

        return RayEngine(config)
    if config.name == "datatrove":
        from krill.engines.datatrove_engine import DatatroveEngine

        return DatatroveEngine(config)
    return None
