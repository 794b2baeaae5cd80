"""What the stages of preprocessing share: a commit log of the stage's name, and tasks that are its units.

Held in memory: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, repeat
from typing import Any, Protocol

from krill.budget import Need
from krill.corpus.documents import Unit, file_and_offset
from krill.engines import Stage
from krill.pipeline.context import Context
from krill.pipeline.needs import Sizing
from krill.pipeline.prediction import ExpectedInput, StageCost
from krill.pipeline.surviving_units import SurvivingUnits
from krill.storage import CommitLog

# Bundles for each worker into which the rest of a stage could be cut.
_BUNDLES = 2
# Units in a bundle at most: a worker commits one while it makes the next.
_MOST_UNITS = 8


class UnitSource(Protocol):
    """Where a stage finds the documents that were kept so far."""

    def units(self) -> SurvivingUnits: ...

    def records(self) -> CommitLog | None:
        """The records that count them; None where nothing was scanned."""


class PipelineStage(Stage):
    """A stage of preprocessing; its commit log is one of the run's."""

    def __init__(self, context: Context, name: str, *, part_of: str | None = None) -> None:
        super().__init__(name, context.log, part_of=part_of)
        self.context = context

    @staticmethod
    def needs(sizing: Sizing) -> Iterable[Need]:
        """The memory that it asks the plan for."""
        return ()

    @staticmethod
    def predict(expected: ExpectedInput) -> StageCost | None:
        """What it would take; None if this config has no such stage, or it takes next to nothing."""
        return None

    def source_of(self, position: int) -> int:
        """The number of the source that a unit is of."""
        return self.context.corpus.files[file_and_offset(position)[0]].dataset

    def text_bytes(self, records: CommitLog | None) -> int | None:
        """Bytes of text that were kept so far, or of the input where nothing was scanned."""
        if records is not None:
            return sum(int(record["text_bytes"]) for _, record in records)
        corpus = self.context.corpus
        return None if corpus.sequential else corpus.input_bytes


def unit_position(task: Any) -> int:
    """The position of a unit as a task names it: by that, or whole where nothing was scanned."""
    return Unit.from_json(task).position if isinstance(task, Mapping) else int(task)


def bundle_sizes(tasks: int, workers: int) -> Iterator[int]:
    """How many units each bundle has: fewer towards the end, so that all end at about the same time."""
    while tasks > 0:
        size = min(_MOST_UNITS, max(1, tasks // (workers * _BUNDLES)))
        yield size
        tasks -= size
    yield from repeat(1)


def in_bundles(tasks: Iterable[Any], sizes: Iterator[int]) -> Iterator[list[Any]]:
    """The tasks in lists of these sizes."""
    source = iter(tasks)
    while bundle := list(islice(source, next(sizes))):
        yield bundle


def describe_units(context: Context, units: Sequence[Unit | int]) -> str:
    """Where some units begin and end, as far as that is known before they are read: in bytes or rows."""
    files = context.corpus.files

    def beginning(unit: Unit | int) -> tuple[int, int]:
        return file_and_offset(unit.position if isinstance(unit, Unit) else unit)

    first, begin = beginning(units[0])
    place = f"{files[first].path} from {begin:,}"
    last_unit = units[-1]
    if not isinstance(last_unit, Unit):
        last, begin = beginning(last_unit)
        beyond = f"{begin:,}" if last == first else f"{begin:,} of {files[last].path}"
        one = len(units) == 1
        return f"{place}, one unit" if one else f"{place} to the end of the unit that begins at {beyond}"
    part = last_unit.parts[-1]
    beyond = "the end" if part.end is None else f"{part.end:,}"
    return f"{place} to {beyond}" if part.file == first else f"{place} to {beyond} of {files[part.file].path}"
