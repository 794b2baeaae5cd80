"""`qa prepare` on an engine: this process reads, and finds ids that come twice; workers make the features.

In: a job. Out: the tables and the records that `make_units` makes, byte for byte. Held in memory: a hash of
each question's id, and the unit that is read; in a worker the tokenizer, and what a unit takes while it is
made. What waits for a worker is in files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any, Final

import orjson

from krill.budget import Meter, Plan
from krill.budget.process import metered_process
from krill.config.engine import EngineConfig
from krill.engines import Resources, Stage, WorkerSpec, run_stages
from krill.engines.worker import CountedProgress, WorkerRun, load_run
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
from krill.storage.atomic import make_folder, write_bytes
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
    make_folder(stages)
    write_bytes(tokenizer, job.tokenizer.content)
    settings = {
        "stages": str(stages),
        "dataset": str(run.dataset.absolute()),
        "shape": asdict(job.shape),
        "tokenizer": str(tokenizer),
        "fingerprint": job.tokenizer.fingerprint,
        "layout": job.tokenizer.layout.to_json(),
    }
    progress.begin("features", job.source.bytes)
    spec = WorkerSpec.of_run(KIND, run, Resources(meter.limit, threads), settings)
    source = unit_inputs(job, ids=plan.share(IDS))
    stage = MakeUnits(settings, job.tokenizer, meter, progress, source)
    facts = run_stages(config, spec, [stage], progress)
    progress.end("features")
    return {**totals_of(job, (record for _, record in stage.log)), "engine": facts}


def open_run(address: str, identity: str, resources: Resources, workers: int, held: ExitStack) -> WorkerRun:
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
    return WorkerRun([MakeUnits(spec, tokenizer, meter, progress)], progress)


class MakeUnits(Stage):
    """Makes the features of units; a task is the number of one.

    The driver, which has the `source`, reads it as tasks are asked for, and keeps the paragraphs of each unit
    in a commit log; workers find them there.
    """

    one_thread = True

    def __init__(
        self,
        spec: Mapping[str, Any],
        tokenizer: QaTokenizer,
        meter: Meter,
        progress: Progress,
        source: Iterable[UnitInput] | None = None,
    ) -> None:
        super().__init__("features", lambda name: CommitLog(Path(spec["stages"]) / name))
        self._dataset = Path(spec["dataset"])
        self._shape = Shape(**spec["shape"])
        self._tokenizer = tokenizer
        self._meter = meter
        self._progress = progress
        self._source = source

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
            elif unit.number not in waiting:
                questions = (question.id for paragraph in unit.paragraphs for question in paragraph.questions)
                files = waiting.begin(unit.number, _PARAGRAPHS)
                files.write(_PARAGRAPHS, paragraphs_json(unit.paragraphs))
                first = next(questions, "")
                files.commit({"counts": unit.counts, "read_bytes": unit.read_bytes, "first": first})
            yield unit.number

    def describe(self, tasks: Sequence[int]) -> str:
        first = self.waiting.record(tasks[0])["first"]
        return f"features, unit {tasks[0] + 1:,}, from question `{first}`"

    def run(self, tasks: Iterable[int]) -> None:
        log, waiting, tokenizer = self.log, self.waiting, self._tokenizer
        for number in tasks:
            plan = self._meter.plan([making_need(tokenizer)])
            known, paragraphs = waiting.record(number), read_paragraphs(waiting.path(number, _PARAGRAPHS))
            for paragraph in paragraphs:
                check_fits(paragraph, plan.share(UNITS), tokenizer)
            record = make_record(number, paragraphs, known["counts"], tokenizer, self._shape, self._dataset)
            log.commit(number, record)
            self._progress.advance(known["read_bytes"])


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
