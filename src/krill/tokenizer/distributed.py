"""Counting on an engine: tasks count portions of the input, tasks merge the counts, the driver joins them.

In: a corpus and an engine. Out: the word counts that `count` makes, in another order, which shapes
nothing. Held in memory: a number for each finished task, and one task's payload.

Two rounds. In the first a task counts the words of a portion of the input into a file of its own. In the
second a task takes the words of a few shards of the hash from all of these files and merges them: no word is
in two shards, so what these tasks write is only put one behind the other. Each finished task is recorded,
and a run that was killed goes on behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from krill.config.engine import EngineConfig
from krill.corpus import Corpus
from krill.engines import Resources, Task, TaskRunner, open_engine
from krill.engines.worker_share import one_thread_of
from krill.storage import CommitLog
from krill.storage.atomic import atomic_writer, storage_errors
from krill.storage.commits import reading_artifact
from krill.storage.run import Run
from krill.threads.progress import Progress
from krill.tokenizer import count as counting
from krill.tokenizer.count import WORD_COUNTS, WordCounts, finished_counts, save_finished
from krill.tokenizer.count_tasks import COUNTED, SHARDS, split_input
from krill.tokenizer.options import TrainOptions
from krill.tokenizer.word_counter import boundary_tokens

ENTRY: Final = "tokenizer"
PARTS: Final = 16
"""Tasks that merge counts. Each reads from all files, so there are more only where there is much to merge."""

_MANY_TASKS: Final = 1024
_COUNTS: Final = "counts"
_PARTS: Final = "parts"
_PART: Final = "word-counts"
_COPIED_AT_ONCE: Final = 1 << 20


def count_on(
    config: EngineConfig,
    corpus: Corpus,
    inputs: Sequence[Mapping[str, Any]],
    options: TrainOptions,
    folder: Run,
    *,
    memory: int,
    threads: int,
    counts_folder: Path,
    progress: Progress,
) -> tuple[WordCounts, dict[str, Any]]:
    """Count a corpus on the engine that `config` names; `memory` and `threads` are those of each worker.

    Also returns what the manifest says of the engine.
    """
    finished = finished_counts(counts_folder, progress)
    if finished is not None:
        return finished, {"name": config.name, "tasks": 0}
    engine = open_engine(config)
    assert engine is not None  # `local` needs no tasks
    done = _Done()
    try:
        word_counts = Distributed(
            engine,
            done,
            Resources(memory, threads),
            corpus,
            inputs,
            options,
            counts_folder.absolute(),
            folder.stages.absolute(),
            folder.work.absolute(),
            progress,
        ).count()
        return word_counts, {"name": config.name, "workers": engine.workers, **asdict(done)}
    finally:
        engine.close()


@dataclass(slots=True)
class _Done:
    """What workers have done in this life."""

    tasks: int = 0
    worker_peak: int = 0


@dataclass(frozen=True, slots=True)
class Distributed:
    """How one corpus is counted by others. `stages` and `work` are folders that all of them see."""

    engine: TaskRunner
    done: _Done
    resources: Resources
    corpus: Corpus
    inputs: Sequence[Mapping[str, Any]]
    """The fingerprints of the corpus' files."""
    options: TrainOptions
    folder: Path
    """Where the word counts go."""
    stages: Path
    work: Path
    progress: Progress

    def count(self) -> WordCounts:
        """Count everything that an earlier run of the same has not counted yet."""
        with storage_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        counts, parts = CommitLog(self.stages / _COUNTS), CommitLog(self.stages / _PARTS)
        totals = _Totals()

        def add_counted(record: Mapping[str, Any]) -> None:
            totals.add_counted(record)
            self.progress.advance(record["bytes"])

        self._run(self._count_tasks(counts), counts, self.resources, add_counted)
        merging = range(SHARDS if len(counts) >= _MANY_TASKS else PARTS)
        gathering = self._gather_tasks(counts, parts, merging)
        self._run(gathering, parts, one_thread_of(self.resources), totals.add_part)
        word_counts = self._joined(parts, merging, totals)
        save_finished(self.folder, word_counts, totals.bytes)
        counts.clear()
        parts.clear()
        return word_counts

    def _run(
        self,
        tasks: Iterable[Task],
        log: CommitLog,
        resources: Resources,
        add: Callable[[Mapping[str, Any]], None],
    ) -> None:
        """All tasks that have no record yet; `add` is told what each has found, in any order."""

        def missing() -> Iterator[Task]:
            for task in tasks:
                if task.payload["number"] in log:
                    add(log.record(task.payload["number"]))
                else:
                    yield task

        for task, result in self.engine.run(ENTRY, missing(), resources):
            self.done.tasks += 1
            self.done.worker_peak = max(self.done.worker_peak, result["peak"])
            log.commit(task.payload["number"], dict(result))
            add(result)

    def _count_tasks(self, log: CommitLog) -> Iterator[Task]:
        common = {
            "kind": "count",
            "work": str(self.work),
            "options": asdict(self.options),
            "verify": self.corpus.verify,
            "boundaries": [token.decode() for token in boundary_tokens(self.options, self.corpus.files)],
        }
        for number, portion in enumerate(split_input(self.corpus, counting.UNIT_BYTES)):
            fingerprints = [self.inputs[ordinal]["fingerprint"] for ordinal in portion.ordinals]
            payload = {
                **common,
                "number": number,
                "portion": portion.to_json(),
                "fingerprints": fingerprints,
                "output": str(log.place(number, COUNTED)),
            }
            yield Task(f"count {number + 1:,}, {portion.name}", payload)

    def _gather_tasks(self, counts: CommitLog, parts: CommitLog, merging: range) -> Iterator[Task]:
        each = SHARDS // len(merging)
        for number in merging:
            shards = [number * each, (number + 1) * each]
            payload = {
                "kind": "gather",
                "work": str(self.work),
                "number": number,
                "counts": str(counts.folder),
                "tasks": len(counts),
                "shards": shards,
                "output": str(parts.place(number, _PART)),
            }
            yield Task(f"merge the counts of shards {shards[0]} to {shards[1] - 1}", payload)

    def _joined(self, parts: CommitLog, merging: range, totals: _Totals) -> WordCounts:
        path = self.folder / WORD_COUNTS
        with atomic_writer(path) as word_counts:
            for number in merging:
                part = parts.path(number, _PART)
                with reading_artifact(part), part.open("rb") as file:
                    while some := file.read(_COPIED_AT_ONCE):
                        word_counts.write(some)
        return totals.word_counts(path)


class _Totals:
    """What all tasks have found, added up."""

    def __init__(self) -> None:
        self.bytes = 0
        self._spilled = 0
        self._words = self._occurrences = self._word_bytes = 0
        self._byte_counts = [0] * 256

    def add_counted(self, record: Mapping[str, Any]) -> None:
        """What a task that counted has found."""
        self.bytes += record["bytes"]
        self._spilled += record["size"]

    def add_part(self, record: Mapping[str, Any]) -> None:
        """What a task that merged counts has found."""
        self._words += record["words"]
        self._occurrences += record["occurrences"]
        self._word_bytes += record["word_bytes"]
        self._byte_counts = [
            one + other for one, other in zip(self._byte_counts, record["byte_counts"], strict=True)
        ]

    def word_counts(self, path: Path) -> WordCounts:
        return WordCounts(
            path,
            self._words,
            self._occurrences,
            self._word_bytes,
            tuple(self._byte_counts),
            self._spilled,
        )
