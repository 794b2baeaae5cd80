"""What is tried again, how often, and what is said when that was not enough."""

from __future__ import annotations

from krill.engines.contract import Task
from krill.errors import KrillError

RETRIES = 3
"""How often a task is run again whose worker died or whose code failed."""


class Attempts:
    """Counts the failures of each task that runs."""

    def __init__(self, retries: int = RETRIES) -> None:
        self._retries = retries
        self._failed: dict[str, int] = {}

    def failed(self, task: Task, reason: str) -> int:
        """One more failure, and how many that makes; raises when it was one too many."""
        failures = self._failed.get(task.name, 0) + 1
        self._failed[task.name] = failures
        if failures > self._retries:
            raise KrillError(
                f"the task `{task.name}` failed {failures} times, the last time with: {reason}",
                hint="what other tasks have done is kept: mend the cause and run the same command again",
            )
        return failures

    def succeeded(self, task: Task) -> None:
        """Forget it."""
        self._failed.pop(task.name, None)
