"""The engine of one process: tasks one after the other, each with all threads.

A local run needs no tasks at all; this is for running a part of the work that others share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from krill.budget import resident_bytes
from krill.engines.contract import Done, Resources, Task
from krill.engines.entries import packed, perform, unpacked


class LocalEngine:
    """Runs tasks here."""

    workers = 1

    def __init__(self) -> None:
        self._floor = resident_bytes()

    def run(self, entry: str, tasks: Iterable[Task], resources: Resources) -> Iterator[Done]:
        """See `Engine`."""
        resources = replace(resources, floor=self._floor)
        for task in tasks:
            yield Done(task, unpacked(perform(packed(entry, task, resources))))

    def ready(self, entry: str, task: Task, resources: Resources) -> None:
        """Nothing is gained by it here."""

    def close(self) -> None:
        """Nothing is held."""
