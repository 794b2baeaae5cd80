"""Engines for tests: tasks run in this process, one after the other, through the bytes that workers get."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from krill.budget import resident_bytes
from krill.engines.contract import Done, Resources, Task
from krill.engines.entries import packed, perform, unpacked


class InProcessEngine:
    """Runs tasks here."""

    workers = 1

    def __init__(self) -> None:
        self._floor = resident_bytes()

    def run(self, entry: str, tasks: Iterable[Task], resources: Resources) -> Iterator[Done]:
        resources = replace(resources, floor=self._floor)
        for task in tasks:
            yield Done(task, unpacked(perform(packed(entry, task, resources))))

    def ready(self, entry: str, task: Task, resources: Resources) -> None:
        """Nothing is gained by it here."""

    def close(self) -> None:
        """Nothing is held."""
