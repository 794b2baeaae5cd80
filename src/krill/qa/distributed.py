"""`qa prepare` on an engine: this process reads, and finds ids that come twice; workers make the features.

In: a job. Out: the tables and the records that `make_units` makes, byte for byte. Held in memory: a hash of
each question's id, and the unit that is read; in a worker the tokenizer, and what a unit takes while it is
made. What waits for a worker is in files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import orjson

from krill.budget import Meter, Plan
from krill.budget.process import metered_process
from krill.config.engine import EngineConfig
from krill.engines import LoggedStage, Resources, WorkerSpec, open_engine
from krill.engines.worker import SPEC_FILE, CountedProgress, WorkerRun, load_run
from krill.qa.encoding import QaTokenizer, fingerprint_of, tokenizer_from
from krill.qa.examples import Paragraph, Question
from krill.qa.features import Shape
from krill.qa.layout import FeatureLayout
from krill.qa.units import (
    IDS,
    UNITS,
    FeatureJob,
    UnitInput,
    check_fits,
    make_record,
    making_need,
    totals_of,
    unit_inputs,
)
from krill.storage import CommitLog
from krill.storage.atomic import storage_errors, write_bytes
from krill.storage.commits import damaged, reading_artifact
from krill.storage.run import Run
from krill.threads.progress import Progress

KIND: Final = "qa"
_TOKENIZER: Final = "tokenizer"
_PARAGRAPHS: Final = "paragraphs"


def make_on(
    config: EngineConfig,
    job: FeatureJob,
    run: Run,
    threads: int,
    meter: Meter,
    plan: Plan,
    progress: Progress,
) -> dict[str, Any]:
    """What the manifest says of all units and of the engine; `plan` is this process's.

    Each worker has the meter's limit, and so many threads.
    """
    stages = run.stages.absolute()
    tokenizer = stages / _TOKENIZER
    with storage_errors(stages):
        stages.mkdir(parents=True, exist_ok=True)
    write_bytes(tokenizer, job.tokenizer.content)
    settings = {
        "stages": str(stages),
        "dataset": str(run.dataset.absolute()),
        "shape": asdict(job.shape),
        "tokenizer": str(tokenizer),
        "fingerprint": job.tokenizer.fingerprint,
        "layout": job.tokenizer.layout.to_json(),
    }
    run.note(SPEC_FILE, settings)
    progress.begin("features", job.source.bytes)
    spec = WorkerSpec(KIND, run.address, run.description["identity"], Resources(meter.limit, threads))
    stage = ReadUnits(stages, job, plan.share(IDS), progress)
    with closing(open_engine(config, spec, lambda result: progress.advance(result["bytes"]))) as engine:
        engine.run(stage)
        facts = dict(engine.facts())
    progress.end("features")
    return {**totals_of(job, (record for _, record in stage.log)), "engine": facts}


def open_run(address: str, identity: str, resources: Resources, workers: int, held: ExitStack) -> WorkerRun:
    """The stage as a worker has it."""
    _, spec = load_run(address, identity)
    meter = held.enter_context(metered_process(resources.memory, resources.threads, floor=resources.floor))
    path = Path(spec["tokenizer"])
    with reading_artifact(path):
        content = path.read_bytes()
    layout = FeatureLayout.from_json(spec["layout"])
    if fingerprint_of(content, layout) != spec["fingerprint"]:
        raise damaged(path, "is not as it was written")
    tokenizer = tokenizer_from(content, layout)
    progress = CountedProgress()
    stage = MakeUnits(
        Path(spec["stages"]), Path(spec["dataset"]), Shape(**spec["shape"]), tokenizer, meter, progress
    )
    return WorkerRun([stage], progress)


class UnitStage(LoggedStage):
    """A task is the number of a unit, whose paragraphs are in another commit log until it is made."""

    one_thread = True

    def __init__(self, stages: Path) -> None:
        super().__init__("features", lambda name: CommitLog(stages / name))

    @property
    def waiting(self) -> CommitLog:
        return self.open_log("waiting")

    def tasks(self) -> Iterable[int]:
        return self.waiting.units()

    def run(self, tasks: Iterable[int]) -> None:
        raise NotImplementedError


class ReadUnits(UnitStage):
    """The driver's side: reads the source as tasks are asked for, and keeps what a worker will need."""

    def __init__(self, stages: Path, job: FeatureJob, ids: int, progress: Progress) -> None:
        super().__init__(stages)
        self._job = job
        self._ids = ids
        self._progress = progress

    def tasks(self) -> Iterable[int]:
        made, waiting = self.log, self.waiting
        for unit in unit_inputs(self._job, ids=self._ids):
            if unit.number in made:
                self._progress.advance(unit.read_bytes)
            elif unit.number not in waiting:
                self._keep(unit, waiting)
            yield unit.number

    def describe(self, tasks: Sequence[int]) -> str:
        first = self.waiting.record(tasks[0])["first"]
        return f"features, unit {tasks[0] + 1:,}, from question `{first}`"

    def _keep(self, unit: UnitInput, waiting: CommitLog) -> None:
        questions = (question.id for paragraph in unit.paragraphs for question in paragraph.questions)
        files = waiting.begin(unit.number, _PARAGRAPHS)
        files.write(_PARAGRAPHS, paragraphs_json(unit.paragraphs))
        files.commit({"counts": unit.counts, "read_bytes": unit.read_bytes, "first": next(questions, "")})


class MakeUnits(UnitStage):
    """A worker's side: makes the features of units that are waiting."""

    def __init__(
        self,
        stages: Path,
        dataset: Path,
        shape: Shape,
        tokenizer: QaTokenizer,
        meter: Meter,
        progress: Progress,
    ) -> None:
        super().__init__(stages)
        self._dataset = dataset
        self._shape = shape
        self._tokenizer = tokenizer
        self._meter = meter
        self._progress = progress

    def run(self, tasks: Iterable[int]) -> None:
        log, waiting = self.log, self.waiting
        for number in tasks:
            plan = self._meter.plan([making_need(self._tokenizer)])
            known, path = waiting.record(number), waiting.path(number, _PARAGRAPHS)
            paragraphs = read_paragraphs(path)
            for paragraph in paragraphs:
                check_fits(paragraph, plan.share(UNITS), self._tokenizer)
            record = make_record(
                number, paragraphs, known["counts"], self._tokenizer, self._shape, self._dataset
            )
            log.commit(number, record)
            self._progress.advance(known["read_bytes"])


def paragraphs_json(paragraphs: list[Paragraph]) -> bytes:
    """Paragraphs as they are kept for a worker."""
    return orjson.dumps(
        [
            [
                paragraph.context,
                [[question.id, question.text, question.answers] for question in paragraph.questions],
            ]
            for paragraph in paragraphs
        ]
    )


def read_paragraphs(path: Path) -> list[Paragraph]:
    """Paragraphs that were kept."""
    with reading_artifact(path):
        content = path.read_bytes()
    try:
        return [
            Paragraph(
                context,
                [
                    Question(number, text, tuple((answer, start) for answer, start in answers))
                    for number, text, answers in questions
                ],
            )
            for context, questions in orjson.loads(content)
        ]
    except ValueError:
        raise damaged(path, "is not as it was written") from None
