"""What all stages of a run share."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Protocol, TypeVar

from krill import _native
from krill.budget import Meter, Plan
from krill.config import KrillConfig
from krill.corpus import Corpus
from krill.pipeline.disk import DiskCap
from krill.pipeline.needs import block_nbytes
from krill.storage import CommitLog
from krill.storage.commits import RunPaths
from krill.storage.input_file import ClosedOnExit
from krill.text import Step
from krill.text.step import Releases
from krill.threads import ordered_map
from krill.threads.progress import Progress

Group = TypeVar("Group")
Item = TypeVar("Item")
Result = TypeVar("Result")


_IN_COMMIT = 2  # units: one that is synced and one that waits
_UNITS_PER_TRIM = 4


class BlockResult(Protocol):
    """What the work on one block returns."""

    @property
    def bytes_read(self) -> int: ...


Block = TypeVar("Block", bound=BlockResult)
Block_contra = TypeVar("Block_contra", contravariant=True)


class UnitWriter(Protocol[Block_contra]):
    """A unit whose files are being written."""

    def add(self, block: Block_contra, /) -> None:
        """Append the result of a block."""

    def commit(self) -> int:
        """Put the files in place; returns the bytes that they keep on disk."""

    def abort(self) -> None:
        """Leave nothing behind, if it was not committed."""


class Abandoned(Exception):
    """The run ends, and this work with it; never seen outside of the threads."""


@dataclass(frozen=True, slots=True)
class Context(ClosedOnExit):
    """One run: its config, its input, its bytes, its place on disk, and who watches.

    A context manager: at its end no thread works any more. Left alone, an error would keep the frames that
    it passed, and with them the maps that they were going through, until somebody has printed it.
    """

    config: KrillConfig
    corpus: Corpus
    steps: Sequence[Step]
    plan: Plan
    meter: Meter
    threads: int
    folder: RunPaths
    progress: Progress
    disk: DiskCap
    shared: bool = False
    """Whether other processes read and write the same stages meanwhile."""
    _units_done: Iterator[int] = field(default_factory=partial(count, 1))
    _abandoned: threading.Event = field(default_factory=threading.Event)
    _maps: list[Generator[Any, None, None]] = field(default_factory=list)

    def close(self) -> None:
        """Wait until no thread works any more, and let go of what the steps hold outside of this process."""
        for results in self._maps:
            results.close()
        self._maps.clear()
        self.release_steps()

    def release_steps(self) -> None:
        """The steps are not applied for a while: end the processes that they have."""
        for step in self.steps:
            if isinstance(step, Releases):
                step.release()

    def log(self, stage: str) -> CommitLog:
        """What a stage has committed."""
        return CommitLog(self.folder.stages / stage, self.folder.files)

    def task_path(self, path: Path) -> str:
        """A file as a task names it: from the stages' folder where it is in there, which workers may have
        elsewhere; else absolute. What a config or a user wrote is relative to the working directory."""
        stages, path = self.folder.stages.absolute(), path.absolute()
        return str(path.relative_to(stages) if path.is_relative_to(stages) else path)

    def path_of(self, name: str) -> Path:
        """The file that a task names."""
        return self.folder.stages / name

    def check_wanted(self) -> None:
        """For work that takes long: raises when nobody waits for its result any more."""
        if self._abandoned.is_set():
            raise Abandoned

    def unit_done(self, kept_bytes: int) -> None:
        """A unit is committed: count what it keeps on disk, and now and then give back what was freed.

        Without the second, the heap grows by its own unevenness: from 131 to 152 MB over 5 GB of input. Not
        with each unit, as all threads wait meanwhile and then touch the pages anew.
        """
        self.disk.add(kept_bytes)
        self.meter.timeline.keep()
        if next(self._units_done) % _UNITS_PER_TRIM == 0:
            _native.trim()

    def make_units(
        self,
        groups: Iterable[tuple[Group, Iterable[Item]]],
        begin: Callable[[Group], UnitWriter[Block]],
        work: Callable[[Item], Block],
        *,
        in_flight: int,
        nbytes: Callable[[Item], int],
        cost: Callable[[int], int],
    ) -> None:
        """Make a unit of each group, of what `work` gives for its items, and commit all in order; an item of
        so many `nbytes` is held at a `cost` of the bytes in flight.

        Each is committed while the next is being made: to sync a unit takes a tenth of its time. What was
        made and could not be committed is aborted.
        """
        # Those in commit, the next one, and the one that is being made.
        recent: deque[UnitWriter[Block]] = deque(maxlen=_IN_COMMIT + 2)

        def made() -> Iterator[UnitWriter[Block]]:
            unit: UnitWriter[Block] | None = None
            for group, result in self._map_grouped(
                work, groups, in_flight=in_flight, nbytes=nbytes, cost=cost
            ):
                if unit is None:
                    unit = begin(group)
                    recent.append(unit)
                if result is None:
                    yield unit
                    unit = None
                else:
                    unit.add(result)
                    self.progress.advance(result.bytes_read)
                del result  # not to be held while the next block is read

        commits = ordered_map(
            lambda unit: unit.commit(), made(), threads=1, bytes_in_flight=_IN_COMMIT, size=lambda _: 1
        )
        self._maps.append(commits)
        try:
            for kept_bytes in commits:
                self.unit_done(kept_bytes)
        finally:
            commits.close()
            for unit in recent:
                unit.abort()  # nothing is left to abort of one that was committed

    def map(
        self,
        work: Callable[[Item], Result],
        items: Iterable[Item],
        *,
        in_flight: int,
        size: Callable[[Item], int],
    ) -> Iterator[Result]:
        """`ordered_map` with this run's threads and meter."""
        results = ordered_map(
            work,
            items,
            threads=self.threads,
            bytes_in_flight=in_flight,
            size=size,
            throttle=self.meter,
            abandoned=self._abandoned,
        )
        self._maps.append(results)
        return results

    def _map_grouped(
        self,
        work: Callable[[Item], Result],
        groups: Iterable[tuple[Group, Iterable[Item]]],
        *,
        in_flight: int,
        nbytes: Callable[[Item], int],
        cost: Callable[[int], int],
    ) -> Iterator[tuple[Group, Result | None]]:
        """`map` over the items of all groups; after a group's results comes the group with None: its end."""
        full = block_nbytes(self.config)

        def flat() -> Iterator[tuple[Group, Item | None]]:
            for group, items in groups:
                for item in items:
                    yield group, item
                yield group, None

        def run(pair: tuple[Group, Item | None]) -> tuple[Group, Result | None]:
            group, item = pair
            if item is None:
                return group, None
            if nbytes(item) > full:
                _native.trim()  # a long record finds no room in the gaps that other blocks have left
            return group, work(item)

        def weigh(pair: tuple[Group, Item | None]) -> int:
            return 0 if pair[1] is None else cost(nbytes(pair[1]))

        return self.map(run, flat(), in_flight=in_flight, size=weigh)
