"""A config in the place of the folders that it names: `krill validate config.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from krill.config import KrillConfig


def config_at(path: str) -> KrillConfig | None:
    """The config, if the argument is one; None for a folder."""
    if Path(path).suffix not in (".yaml", ".yml") or Path(path).is_dir():
        return None
    from krill.config import load_config

    return load_config(path)
