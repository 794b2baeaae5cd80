"""The engine that options name, for verbs that have no config."""

from __future__ import annotations

from typing import TYPE_CHECKING

from krill.errors import ConfigError

if TYPE_CHECKING:
    from krill.cli.options import EngineOptions
    from krill.config.engine import EngineConfig


def chosen_engine(options: EngineOptions) -> EngineConfig | None:
    """None for the threads of this process."""
    if options.engine in (None, "local"):
        for name in ("address", "workers"):
            if getattr(options, name) is not None:
                raise ConfigError(f"--{name} is given, and no engine that has one", hint="add --engine ray")
        return None
    from krill.config import load_config

    return load_config({}, overrides=options.overrides(), environ={}).engine
