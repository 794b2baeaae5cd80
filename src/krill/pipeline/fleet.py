"""Stages done by many workers: their parts become tasks of an engine.

In: the parts of a stage. Out: the same files as if this process had done them. Held in memory: the tasks
under way, and the list of parts.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from krill.config import KrillConfig, to_dict
from krill.corpus.documents import file_and_offset
from krill.engines import Engine, Resources, Task
from krill.pipeline.context import Context, Places
from krill.pipeline.shared_resolve import PLAN, remove_phases, resolve_in_phases
from krill.storage.atomic import storage_errors
from krill.storage.files import LOCAL
from krill.tokenizer.open import tokenizer_files

if TYPE_CHECKING:
    from krill.pipeline.stage_work import Parts, StageWork

ORDERS = "worker.json"
"""What a worker must know of the run, beside `run.json`."""
TOKENIZER = "tokenizer"
"""The folder beside the stages in which workers find the tokenizer, where they share none with the driver."""

READY = "ready"
"""The stage of a worker that only loads what it will need."""

# Tasks for each worker into which the rest of a stage could be cut: all end at about the same time.
_SHARES = 2
# Units in a task at most: a worker commits one while it makes the next.
_MOST_UNITS = 8
_OF_UNITS = ("scan", "against", "trim", "encode")


class Fleet(Protocol):
    """Does the work of stages somewhere else."""

    def do(self, stage: str, parts: Parts, work: StageWork) -> None:
        """Do all parts of a stage that are not committed."""
        ...

    def resolve(self, work: StageWork) -> None:
        """Find out who survives deduplication."""
        ...

    def facts(self) -> Mapping[str, Any]:
        """What the manifest says of it."""
        ...


class Run(Places, Protocol):
    """The run as whoever started it holds it."""

    @property
    def address(self) -> str:
        """Where a worker finds it."""
        ...

    def note(self, name: str, value: Any) -> None:
        """Leave something for the workers."""
        ...


class EngineFleet:
    """Workers of an engine, which see the run's folders under the same paths, or its object store."""

    def __init__(self, engine: Engine, name: str, context: Context, run: Run, identity: str) -> None:
        self._engine = engine
        self._name = name
        self._context = context
        self._address = run.address
        self._identity = identity
        self._resources = Resources(context.plan.limit, context.threads)
        self._tasks = 0
        self._peak = 0
        self._anywhere = run.files is not LOCAL
        run.note(ORDERS, orders(context, anywhere=self._anywhere))
        engine.ready("preprocess", Task(READY, self._payload(READY, []), self._anywhere), self._resources)

    def do(self, stage: str, parts: Parts, work: StageWork) -> None:
        """See `Fleet`."""
        todo = work.missing(stage, parts)
        sizes = task_sizes(stage, len(parts), self._engine.workers)
        bundles = bundled(stage, todo, sizes, self._context.config, work)
        tasks = (self._task(stage, bundle, work) for bundle in bundles)
        for _, result in self._engine.run("preprocess", tasks, self._resources):
            self._tasks += 1
            self._peak = max(self._peak, result["peak"])
            self._context.disk.add(result["kept"])
            self._context.progress.advance(result["bytes"])

    def resolve(self, work: StageWork) -> None:
        """See `Fleet`."""
        resolve_in_phases(self._context, work, self.do, self._engine.workers)
        remove_phases(self._context)

    def facts(self) -> Mapping[str, Any]:
        """See `Fleet`."""
        return {
            "name": self._name,
            "workers": self._engine.workers,
            "tasks": self._tasks,
            "worker_peak": self._peak,
        }

    def _payload(self, stage: str, parts: Sequence[Any]) -> dict[str, Any]:
        return {"work": self._address, "identity": self._identity, "stage": stage, "parts": parts}

    def _task(self, stage: str, parts: Sequence[Any], work: StageWork) -> Task:
        payload = self._payload(stage, parts)
        if not work.scans and stage in ("encode", "text"):
            positions = parts if stage == "encode" else [unit for _, units in parts for unit in units]
            units = work.scanned_units()
            payload["units"] = [unit.to_json() for unit in map(units.unit, positions) if unit is not None]
        return Task(told(stage, parts, self._context), payload, self._anywhere)


def orders(context: Context, *, anywhere: bool) -> dict[str, Any]:
    """What a worker is told of the run: paths, if it shares them, else what it finds in the object store."""
    settings = to_dict(context.config)
    if anywhere:
        return {"settings": settings, "tokenizer": _send_tokenizer(context)}
    return {
        "settings": settings,
        "stages": os.fspath(context.folder.stages.absolute()),
        "dataset": os.fspath(context.folder.dataset.absolute()),
    }


def _send_tokenizer(context: Context) -> list[str]:
    """Put the tokenizer's files where workers find them; their names."""
    if context.config.preprocess.output == "text":
        return []
    files = tokenizer_files(context.config.tokenizer)
    folder = context.folder.stages.parent / TOKENIZER
    with storage_errors(folder):
        folder.mkdir(exist_ok=True)
        copies = [Path(shutil.copyfile(file, folder / file.name)) for file in files]
    context.folder.files.send(copies)
    return [copy.name for copy in copies]


def task_sizes(stage: str, parts: int, workers: int) -> Iterator[int]:
    """How many parts each task has: fewer towards the end, when a worker that is late leaves others idle."""
    while stage in _OF_UNITS and parts > 0:
        size = min(_MOST_UNITS, max(1, parts // (workers * _SHARES)))
        yield size
        parts -= size
    yield from repeat(1)


def bundled(
    stage: str, parts: Iterable[Any], sizes: Iterator[int], config: KrillConfig, work: StageWork
) -> Iterator[list[Any]]:
    """Parts that are done by one worker, one after the other."""
    if stage != "encode":
        yield from _chunks(parts, sizes)
        return
    # A source that gives only so many tokens has to be read in order.
    for dataset, positions in groupby(parts, key=work.dataset_of):
        rationed = config.datasets[dataset].max_tokens is not None
        together = [list(positions)] if rationed else _chunks(positions, sizes)  # noqa: B031  one of both
        yield from together


def _chunks(parts: Iterable[Any], sizes: Iterator[int]) -> Iterator[list[Any]]:
    source = iter(parts)
    while chunk := list(islice(source, next(sizes))):
        yield chunk


def told(stage: str, parts: Sequence[Any], context: Context) -> str:
    """A task in words: its stage and its range."""
    if stage in ("scan", "trim", "encode"):
        return f"{stage}, {_stretch(parts, context)}"
    if stage == "against":
        return f"{stage}, files {parts[0]['files'][0] + 1} to {parts[-1]['files'][-1] + 1}"
    if stage in ("windows", "pack", "shuffle"):
        return f"{stage}, part {parts[0][1]:,} of stream {parts[0][0]}"
    if stage in ("text", "rejected"):
        return f"{stage}, shard {parts[0][0]:,}"
    return stage if stage in ("resolve", PLAN) else f"{stage}, part {parts[0]:,}"


def _stretch(units: Sequence[Any], context: Context) -> str:
    """Where some units begin and end, as far as that is known before they are read: in bytes or rows."""
    files = context.corpus.files
    first, begin = _beginning(units[0])
    place = f"{files[first].path} from {begin:,}"
    if not isinstance(units[-1], Mapping):
        last, begin = _beginning(units[-1])
        beyond = f"{begin:,}" if last == first else f"{begin:,} of {files[last].path}"
        one = len(units) == 1
        return f"{place}, one unit" if one else f"{place} to the end of the unit that begins at {beyond}"
    if units[-1]["unit"] is None:
        return f"{place} to the end of {files[units[-1]['files'][-1]].path}"
    last, _, end = units[-1]["unit"]["parts"][-1]
    beyond = "the end" if end is None else f"{end:,}"
    return f"{place} to {beyond}" if last == first else f"{place} to {beyond} of {files[last].path}"


def _beginning(unit: Any) -> tuple[int, int]:
    return file_and_offset(unit["position"] if isinstance(unit, Mapping) else unit)
