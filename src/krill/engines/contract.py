"""The contract between jobs and engines: a stage is cut into tasks, an engine has them done.

A task is what JSON can say: a unit's position, a shard, a number. A stage commits each task in a commit log,
which alone says what is done, so a task may be done twice, by anyone, and nothing is lost when a worker dies.
Nothing is held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from krill.storage import CommitLog

Json = Any
"""Whatever `orjson` can write."""


@dataclass(slots=True)
class StageReport:
    """What the committed records of a stage add up to."""

    bytes: int = 0
    documents: int = 0
    tokens: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    """Documents that were dropped or changed, by reason."""
    kept: int | None = None
    """Documents that are left for the stages after it; None if it drops none."""
    token_counts: Mapping[str, int] = field(default_factory=dict)
    """Tokens that were kept or dropped, by the manifest's names."""
    outputs: Mapping[str, Any] = field(default_factory=dict)
    """What the manifest says of the files that it wrote, by the manifest's names."""
    shortage: tuple[str, str | None] | None = None
    """Why nothing can be made of what is left, and what to do about it."""


class Stage(Protocol):
    """A part of a run that is cut into tasks."""

    @property
    def name(self) -> str:
        """Unique in its run."""
        ...

    @property
    def part_of(self) -> str:
        """The name under which it is timed and shown: its own, or that of a stage that follows it."""
        ...

    @property
    def one_thread(self) -> bool:
        """Whether a task uses one thread only, so that a worker of several does several tasks at once."""
        ...

    def tasks(self) -> Iterable[Json]:
        """All tasks; they follow from the config, the input and what earlier stages have committed."""
        ...

    def missing(self, tasks: Iterable[Json]) -> Iterator[Json]:
        """Those of the tasks that are not committed now."""
        ...

    def bundles(self, tasks: Iterable[Json], workers: int) -> Iterator[list[Json]]:
        """The tasks, or some of them, in lists that one worker does one after the other."""
        ...

    def run(self, tasks: Iterable[Json]) -> None:
        """Do these tasks, and commit each."""
        ...

    def finish(self) -> StageReport:
        """The sums of what was committed, when all tasks are; may be called again, and by several workers."""
        ...

    def describe(self, tasks: Sequence[Json]) -> str:
        """A bundle of tasks, for people."""
        ...

    def input_bytes(self) -> int | None:
        """How much there is to read, for the progress bar; None if nobody knows."""
        ...


class LoggedStage:
    """The parts of `Stage` that are the same for most: a task is a number in the commit log of the stage's
    name, and is done alone."""

    one_thread = False

    def __init__(self, name: str, open_log: Callable[[str], CommitLog]) -> None:
        self.name = name
        self.open_log = open_log

    @property
    def part_of(self) -> str:
        return self.name

    @property
    def log(self) -> CommitLog:
        """What is committed now."""
        return self.open_log(self.name)

    def missing(self, tasks: Iterable[Any]) -> Iterator[Any]:
        log = self.log
        return (task for task in tasks if task not in log)

    def bundles(self, tasks: Iterable[Any], workers: int) -> Iterator[list[Any]]:
        return ([task] for task in tasks)

    def finish(self) -> StageReport:
        return StageReport()

    def describe(self, tasks: Sequence[Any]) -> str:
        return f"{self.name}, part {tasks[0]:,}"

    def input_bytes(self) -> int | None:
        return None


class Engine(Protocol):
    """Has the tasks of stages done."""

    @property
    def workers(self) -> int:
        """How many processes share the work."""
        ...

    @property
    def shared(self) -> bool:
        """Whether other processes walk through the stages at their own pace, so that nothing may go early."""
        ...

    def run(self, stage: Stage) -> None:
        """Have all tasks of a stage done that are missing."""
        ...

    def facts(self) -> Mapping[str, Any]:
        """What the manifest says of it."""
        ...

    def close(self) -> None:
        """Let go of the workers."""
        ...


@dataclass(frozen=True, slots=True)
class Resources:
    """What one worker has: bytes of resident memory, and threads.

    `floor` is what its process held before it became a worker, and what does not count: 0 but for a process
    that somebody else uses as well.
    """

    memory: int
    threads: int
    floor: int = 0


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What a worker must know to open a run: its kind (one of `worker.KINDS`), where it is, and that it is
    this one. `anywhere` says that no folder has to be shared for it."""

    kind: str
    address: str
    identity: str
    resources: Resources
    anywhere: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """What is sent to a worker: some tasks of a stage; `name` says to people which."""

    name: str
    stage: str
    tasks: Sequence[Any]


class Done(NamedTuple):
    """A task that ended, and what it returned."""

    task: Task
    result: Mapping[str, Any]


class TaskRunner(Protocol):
    """Sends tasks to workers."""

    @property
    def workers(self) -> int:
        """How many run at once: so the work is cut into several times as many."""
        ...

    def ready(self, spec: WorkerSpec) -> None:
        """Let workers open the run, while the caller does something else; nobody waits for it."""
        ...

    def run(self, spec: WorkerSpec, tasks: Iterable[Task], resources: Resources) -> Iterator[Done]:
        """Run all tasks; each is given back as it ends, in any order.

        Tasks are taken from the iterable as workers get free. A worker that died is replaced, and its task
        run again, a few times. An error that a task raised is raised here; what other tasks have committed
        stays.
        """
        ...

    def close(self) -> None: ...
