"""The stage that makes the features of a job, by threads of this process or by an engine's workers.

In: a job. Out: tables and a record for each unit. Held in memory: a hash of each question's id, and the units
in flight; in a worker the tokenizer, and the units that it makes. What waits for a worker is in files: only
the process that reads the questions finds ids that come twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any, Final

import orjson

from krill.budget import Meter, Plan
from krill.budget.process import metered_process
from krill.engines import LocalEngine, Resources, Stage, WorkerSpec, run_stages
from krill.engines.worker import CountedProgress, WorkerRun, load_run
from krill.qa.encoding import QaTokenizer, fingerprint_of, tokenizer_from
from krill.qa.examples import Paragraph, Question
from krill.qa.features import Shape
from krill.qa.layout import FeatureLayout
from krill.qa.needs import IDS, UNITS, held_per_character, making_need
from krill.qa.units import FeatureJob, UnitInput, check_fits, make_record, totals_of, unit_inputs
from krill.storage import CommitLog
from krill.storage.atomic import make_folder, write_bytes
from krill.storage.commits import damaged, reading_artifact
from krill.storage.run import Run
from krill.threads import ordered_map
from krill.threads.progress import Progress

KIND: Final = "qa"
_TOKENIZER: Final = "tokenizer"
_PARAGRAPHS: Final = "paragraphs"
_KNOWN: Final = ("characters", "read_bytes", "counts")
"""What is kept of a unit that waits, beside its paragraphs."""


def make_features(job: FeatureJob, run: Run, plan: Plan, meter: Meter, progress: Progress) -> dict[str, Any]:
    """Make all units of a job that are not there yet; what the manifest says of all, and of the engine.

    `plan` is this process's; each worker of an engine has the meter's limit and threads.
    """
    room, limit = (plan.share(UNITS), plan.limit) if job.engine is None else (None, None)
    source = unit_inputs(job, ids=plan.share(IDS), room=room, limit=limit)
    folders = run.stages.absolute(), run.dataset.absolute()
    stage = MakeUnits(*folders, job.shape, job.tokenizer, meter, progress, source, room)
    progress.begin("features", job.source.bytes)
    engine = {}
    if job.engine is None:
        LocalEngine().run(stage)
    else:
        engine = {"engine": run_stages(job.engine, _worker_spec(job, run, meter), [stage], progress)}
    progress.end("features")
    return {**totals_of(job, (record for _, record in stage.log)), **engine}


def _worker_spec(job: FeatureJob, run: Run, meter: Meter) -> WorkerSpec:
    stages = run.stages.absolute()
    make_folder(stages)
    write_bytes(stages / _TOKENIZER, job.tokenizer.content)
    settings = {
        "stages": str(stages),
        "dataset": str(run.dataset.absolute()),
        "shape": asdict(job.shape),
        "fingerprint": job.tokenizer.fingerprint,
        "layout": job.tokenizer.layout.to_json(),
    }
    return WorkerSpec.of_run(KIND, run, Resources(meter.limit, meter.threads), settings)


def open_run(address: str, identity: str, resources: Resources, workers: int, held: ExitStack) -> WorkerRun:
    _, spec = load_run(address, identity)
    meter = held.enter_context(metered_process(resources.memory, resources.threads, floor=resources.floor))
    stages = Path(spec["stages"])
    path = stages / _TOKENIZER
    with reading_artifact(path):
        content = path.read_bytes()
    layout = FeatureLayout.from_json(spec["layout"])
    if fingerprint_of(content, layout) != spec["fingerprint"]:
        raise damaged(path, "is not as it was written")
    tokenizer, shape, progress = tokenizer_from(content, layout), Shape(**spec["shape"]), CountedProgress()
    return WorkerRun([MakeUnits(stages, Path(spec["dataset"]), shape, tokenizer, meter, progress)], progress)


class MakeUnits(Stage):
    """Makes the features of units; a task is the number of one.

    The process that has the `source` reads it as tasks are asked for. With `room` to make them it holds each
    until then; without, it keeps its paragraphs in a commit log, where workers find them.
    """

    one_thread = True

    def __init__(
        self,
        stages: Path,
        dataset: Path,
        shape: Shape,
        tokenizer: QaTokenizer,
        meter: Meter,
        progress: Progress,
        source: Iterable[UnitInput] | None = None,
        room: int | None = None,
    ) -> None:
        super().__init__("features", lambda name: CommitLog(stages / name))
        self._dataset = dataset
        self._shape = shape
        self._tokenizer = tokenizer
        self._meter = meter
        self._progress = progress
        self._source = source
        self._room = room
        self._read: dict[int, UnitInput] = {}

    @property
    def waiting(self) -> CommitLog:
        return self.open_log("waiting")

    def tasks(self) -> Iterable[int]:
        made, waiting = self.log, self.waiting
        if self._source is None:
            yield from waiting.units()
            return
        for unit in self._source:
            if unit.number in made:
                self._progress.advance(unit.read_bytes)
            elif self._room is not None:
                self._read[unit.number] = unit
            elif unit.number not in waiting:
                questions = (question.id for paragraph in unit.paragraphs for question in paragraph.questions)
                files = waiting.begin(unit.number, _PARAGRAPHS)
                files.write(_PARAGRAPHS, paragraphs_json(unit.paragraphs))
                known = {name: getattr(unit, name) for name in _KNOWN}
                files.commit({**known, "first": next(questions, "")})
            yield unit.number

    def describe(self, tasks: Sequence[int]) -> str:
        first = self.waiting.record(tasks[0])["first"]
        return f"features, unit {tasks[0] + 1:,}, from question `{first}`"

    def run(self, tasks: Iterable[int]) -> None:
        log, tokenizer = self.log, self._tokenizer
        room = self._room or self._meter.plan([making_need(tokenizer)]).share(UNITS)
        held = held_per_character(tokenizer)

        def make(unit: UnitInput) -> int:
            made = unit.number, unit.paragraphs, unit.counts
            log.commit(unit.number, make_record(*made, tokenizer, self._shape, self._dataset))
            return unit.read_bytes

        for read_bytes in ordered_map(
            make,
            self._inputs(tasks, room),
            threads=self._meter.threads,
            bytes_in_flight=room,
            size=lambda unit: unit.characters * held,
            throttle=self._meter,
        ):
            self._progress.advance(read_bytes)

    def _inputs(self, tasks: Iterable[int], room: int) -> Iterator[UnitInput]:
        """What this process has just read, or finds in files: a context that takes too much is refused."""
        waiting = self.waiting
        for number in tasks:
            unit = self._read.pop(number, None)
            if unit is None:
                known = waiting.record(number)
                paragraphs = read_paragraphs(waiting.path(number, _PARAGRAPHS))
                unit = UnitInput(number, paragraphs, *(known[name] for name in _KNOWN))
                for paragraph in paragraphs:
                    check_fits(paragraph, room, self._tokenizer)
            yield unit


def paragraphs_json(paragraphs: list[Paragraph]) -> bytes:
    """Paragraphs as they are kept for a worker."""
    return orjson.dumps([astuple(paragraph) for paragraph in paragraphs])


def read_paragraphs(path: Path) -> list[Paragraph]:
    with reading_artifact(path):
        content = path.read_bytes()
    try:
        found = orjson.loads(content)
        return [
            Paragraph(
                context, [Question(id, text, tuple(map(tuple, answers))) for id, text, answers in questions]
            )
            for context, questions in found
        ]
    except ValueError:
        raise damaged(path, "is not as it was written") from None
