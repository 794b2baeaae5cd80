"""The engine of one process: its threads do all tasks of a stage. Nothing is held."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from krill.engines.contract import Stage


class LocalEngine:
    """Runs stages here."""

    workers = 1
    shared = False

    def run(self, stage: Stage) -> None:
        stage.run(stage.missing(stage.tasks()))

    def facts(self) -> Mapping[str, Any]:
        return {"name": "local"}

    def close(self) -> None:
        """Nothing is held."""
