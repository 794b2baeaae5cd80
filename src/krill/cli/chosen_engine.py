"""The engine that options name, for verbs that have no config."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from krill.cli.options import EngineOptions
    from krill.config.engine import EngineConfig


def chosen_engine(options: EngineOptions) -> EngineConfig | None:
    """None for the threads of this process."""
    if options.engine in (None, "local"):
        options.refuse_unused()
        return None
    from krill.config import load_config

    return load_config({}, overrides=options.overrides(), environ={}).engine
