"""The contract between a stage and an engine: which tasks there are, and who does them.

A task is what JSON can say: a unit's position, a shard, a range of files. A stage commits each task in a
commit log, which alone says what is done, so a task may be done twice, by anyone, and nothing is lost when a
worker dies. Nothing is held.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

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


class Engine(Protocol):
    """Has the tasks of stages done."""

    @property
    def workers(self) -> int:
        """How many processes share the work."""
        ...

    def run(self, stage: Stage) -> None:
        """Have all tasks of a stage done that are missing."""
        ...

    def facts(self) -> Mapping[str, Any]:
        """What the manifest says of it."""
        ...
