"""A stage: a part of a run that is cut into tasks, which any engine has done.

A task is what JSON can say: a unit's position, a shard, a number. A stage commits each task in a commit log,
which alone says what is done, so a task may be done twice, by anyone, and nothing is lost when a worker dies.
Nothing is held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from krill.storage import CommitLog


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
    by_source: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    """The same counts as `counts`, of each source by its number."""
    distributions: Mapping[str, Any] = field(default_factory=dict)
    """How long documents are, by the manifest's names."""
    shortage: tuple[str, str | None] | None = None
    """Why nothing can be made of what is left, and what to do about it."""


class Stage:
    """A subclass says which `tasks` there are and how to `run` some of them.

    Unless it says otherwise, a task is a key of the commit log of the stage's name, and is sent alone.
    """

    one_thread = False
    """Whether a task uses one thread only, so that a worker of several threads does several tasks at once."""

    def __init__(
        self, name: str, open_log: Callable[[str], CommitLog], *, part_of: str | None = None
    ) -> None:
        """`name` is unique in its run; `part_of` is that of a stage that follows, with which it is timed."""
        self.name = name
        self.open_log = open_log
        self.part_of = part_of or name

    @property
    def log(self) -> CommitLog:
        """What is committed now."""
        return self.open_log(self.name)

    def tasks(self) -> Iterable[Any]:
        """All tasks; they follow from the config, the input and what earlier stages have committed."""
        raise NotImplementedError

    def missing(self, tasks: Iterable[Any]) -> Iterator[Any]:
        """Those of the tasks that are not committed now."""
        log = self.log
        return (task for task in tasks if task not in log)

    def bundles(self, tasks: Iterable[Any], workers: int) -> Iterator[list[Any]]:
        """The tasks, or some of them, in lists that one worker does one after the other."""
        return ([task] for task in tasks)

    def run(self, tasks: Iterable[Any]) -> None:
        """Do these tasks, and commit each."""
        raise NotImplementedError

    def finish(self) -> StageReport:
        """The sums of what was committed, when all tasks are; may be called again, and by several workers."""
        return StageReport()

    def describe(self, tasks: Sequence[Any]) -> str:
        """A bundle of tasks, for people."""
        return f"{self.name}, part {tasks[0]:,}"

    def input_bytes(self) -> int | None:
        """How much there is to read, for the progress bar; None if nobody knows."""
        return None
