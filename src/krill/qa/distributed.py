"""`qa prepare` on an engine: this process reads, and finds ids that come twice; workers make the features.

In: a job. Out: the tables and the records that `UnitMaker` makes, byte for byte. Held in memory: a hash of
each question's id, and the unit that is read. What waits for a worker is in files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from krill.budget import Meter, Plan
from krill.config.engine import EngineConfig
from krill.engines import Resources, Task, open_engine
from krill.engines.worker_share import one_thread_of
from krill.qa.units import IDS, FeatureJob, UnitInput, totals_of, unit_inputs
from krill.qa.worker import paragraphs_json
from krill.storage import CommitLog
from krill.storage.atomic import storage_errors, write_bytes
from krill.storage.run import Run
from krill.threads.progress import Progress

ENTRY: Final = "qa"
_TOKENIZER: Final = "tokenizer"


def make_on(
    config: EngineConfig,
    job: FeatureJob,
    folder: Run,
    threads: int,
    meter: Meter,
    plan: Plan,
    progress: Progress,
) -> dict[str, Any]:
    """What the manifest says of all units and of the engine; `plan` is this process's.

    Each worker has the meter's limit, and so many threads.
    """
    engine = open_engine(config)
    assert engine is not None  # `local` needs no tasks
    try:
        sent = _Sent(job, folder, plan.share(IDS), progress)
        progress.begin("features", job.source.bytes)
        tasks = peak = 0
        alone = one_thread_of(Resources(meter.limit, threads))
        for task, result in engine.run(ENTRY, sent.tasks(), alone):
            sent.done(task, result["record"])
            tasks, peak = tasks + 1, max(peak, result["peak"])
        progress.end("features")
        facts = {"name": config.name, "workers": engine.workers, "tasks": tasks, "worker_peak": peak}
        return {**totals_of(job, (record for _, record in sent.log)), "engine": facts}
    finally:
        engine.close()


class _Sent:
    """The units of a job as tasks."""

    def __init__(self, job: FeatureJob, folder: Run, ids: int, progress: Progress) -> None:
        self.log = CommitLog(folder.stages / "features")
        self._job = job
        self._ids = ids
        self._progress = progress
        self._waiting = (folder.stages / "waiting").absolute()
        self._common = {
            "work": str(folder.work.absolute()),
            "dataset": str(folder.dataset.absolute()),
            "shape": asdict(job.shape),
            "tokenizer": str(self._waiting / _TOKENIZER),
            "fingerprint": job.tokenizer.fingerprint,
            "layout": job.tokenizer.layout.to_json(),
        }
        with storage_errors(self._waiting):
            self._waiting.mkdir(parents=True, exist_ok=True)
        write_bytes(self._waiting / _TOKENIZER, job.tokenizer.content)

    def tasks(self) -> Iterator[Task]:
        """Those of units that have no record yet."""
        for item in unit_inputs(self._job, ids=self._ids):
            if item.number in self.log:
                self._progress.advance(item.read_bytes)
            else:
                yield self._task(item)

    def done(self, task: Task, record: dict[str, Any]) -> None:
        """Its unit is made."""
        self.log.commit(task.payload["number"], record)
        path = Path(task.payload["paragraphs"])
        with storage_errors(path):
            path.unlink(missing_ok=True)
        self._progress.advance(task.payload["read_bytes"])

    def _task(self, item: UnitInput) -> Task:
        path = self._waiting / f"{item.number:020d}.paragraphs"
        write_bytes(path, paragraphs_json(item.paragraphs))
        payload = {
            **self._common,
            "number": item.number,
            "paragraphs": str(path),
            "counts": item.counts,
            "read_bytes": item.read_bytes,
        }
        first = next((question.id for paragraph in item.paragraphs for question in paragraph.questions), "")
        return Task(f"features, unit {item.number + 1:,}, from question `{first}`", payload)
