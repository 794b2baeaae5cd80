"""The contract: what an engine is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol


@dataclass(frozen=True, slots=True)
class Task:
    """One part of the work: `name` tells people which, `payload` tells the worker, as JSON.

    A task may run twice, also at the same time: it commits what it makes under names of its own. One that
    runs `anywhere` needs no folder that the machines share.
    """

    name: str
    payload: Mapping[str, Any]
    anywhere: bool = False


@dataclass(frozen=True, slots=True)
class Resources:
    """What one worker has: bytes of resident memory, and threads.

    `floor` is what its process held before it became a worker, and what does not count: 0 but for a process
    that somebody else uses as well.
    """

    memory: int
    threads: int
    floor: int = 0


class Done(NamedTuple):
    """A task that ended, and what it returned."""

    task: Task
    result: Mapping[str, Any]


class TaskRunner(Protocol):
    """Runs tasks on workers."""

    @property
    def workers(self) -> int:
        """How many tasks run at once: so the work is cut into several times as many."""
        ...

    def ready(self, entry: str, task: Task, resources: Resources) -> None:
        """Let workers get ready for what comes, while the caller does something else: each may be given this
        task, which makes nothing, and whose end nobody waits for."""
        ...

    def run(self, entry: str, tasks: Iterable[Task], resources: Resources) -> Iterator[Done]:
        """Run all tasks by `entry`, one of `entries.ENTRIES`; each is given back as it ends, in any order.

        Tasks are taken from the iterable as workers get free. A worker that died is replaced, and its task
        run again, a few times. An error that a task raised is raised here; what other tasks have committed
        stays.
        """
        ...

    def close(self) -> None:
        """Let go of the workers."""
        ...
