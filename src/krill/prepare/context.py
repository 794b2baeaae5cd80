"""What all stages of a run share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from krill.budget import Meter, Plan
from krill.config import KrillConfig
from krill.corpus import Corpus
from krill.flow import ordered_map
from krill.prepare.disk import DiskCap
from krill.prepare.progress import Progress
from krill.prepare.run_folder import RunFolder
from krill.text import Step

Group = TypeVar("Group")
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Context:
    """One run: its config, its input, its bytes, its place on disk, and who watches."""

    config: KrillConfig
    corpus: Corpus
    steps: Sequence[Step]
    plan: Plan
    meter: Meter
    threads: int
    folder: RunFolder
    progress: Progress
    disk: DiskCap

    def map(
        self, work: Callable[[Item], Result], items: Iterable[Item], *, in_flight: int, size: Callable[[Item], int]
    ) -> Iterator[Result]:
        """`ordered_map` with this run's threads and meter."""
        return ordered_map(
            work, items, threads=self.threads, bytes_in_flight=in_flight, size=size, throttle=self.meter
        )

    def map_grouped(
        self,
        work: Callable[[Item], Result],
        groups: Iterable[tuple[Group, Iterable[Item]]],
        *,
        in_flight: int,
        size: Callable[[Item], int],
    ) -> Iterator[tuple[Group, Result | None]]:
        """`map` over the items of all groups; after a group's results comes the group with None: its end."""

        def flat() -> Iterator[tuple[Group, Item | None]]:
            for group, items in groups:
                for item in items:
                    yield group, item
                yield group, None

        def run(pair: tuple[Group, Item | None]) -> tuple[Group, Result | None]:
            group, item = pair
            return group, None if item is None else work(item)

        def weigh(pair: tuple[Group, Item | None]) -> int:
            return 0 if pair[1] is None else size(pair[1])

        return self.map(run, flat(), in_flight=in_flight, size=weigh)
