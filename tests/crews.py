"""An engine for tests: runs tasks in this process, remembers them, and can break off or run them twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from in_process_engine import InProcessEngine
from krill.engines.contract import Done, Resources, Task


class Crew(InProcessEngine):
    """Breaks off after `most` tasks, as a driver that is killed; runs each of them `lives` times."""

    def __init__(self, most: int = 10**6, lives: int = 1) -> None:
        super().__init__()
        self.tasks: list[Task] = []
        self._left = most
        self._lives = lives

    def run(self, entry: str, tasks: Iterable[Task], resources: Resources) -> Iterator[Done]:
        for task in tasks:
            if self._left == 0:
                raise KeyboardInterrupt
            self._left -= 1
            self.tasks.append(task)
            for _ in range(self._lives):
                done = list(super().run(entry, [task], resources))
            yield from done
