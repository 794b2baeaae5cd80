"""Counting on an engine: tasks count portions of the input, tasks merge the counts, the driver joins them.

In: a corpus and an engine. Out: the word counts that `count` makes, in another order, which shapes
nothing. Held in memory: as when everything is counted in one process, the blocks in flight and the
counter within its cap; where counts are merged, the counter's buffers.

Two stages. In the first a task counts the words of a portion of the input into a file of its own. In the
second a task takes the words of a few shards of the hash from all of these files and merges them: no word is
in two shards, so what these tasks write is only put one behind the other. A run that was killed goes on
behind the tasks that are committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from shutil import copyfileobj
from typing import Any, Final

from krill import _native
from krill.budget import Meter
from krill.budget.process import metered_process
from krill.config.engine import EngineConfig
from krill.corpus import Corpus
from krill.corpus.fingerprint import check_same
from krill.engines import Resources, Stage, WorkerSpec, run_stages
from krill.engines.worker import CountedProgress, WorkerRun, load_run
from krill.storage import CommitLog
from krill.storage.atomic import AtomicFile, atomic_writer, make_folder, storage_errors
from krill.storage.commits import reading_artifact
from krill.storage.run import Run
from krill.threads import ordered_map
from krill.threads.progress import Progress
from krill.tokenizer import count as counting
from krill.tokenizer.count import (
    BLOCK_BYTES,
    WORD_COUNTS,
    WordCounts,
    corpus_of,
    finished_counts,
    save_finished,
)
from krill.tokenizer.count_tasks import (
    COUNTED,
    SHARDS,
    append_index,
    collect_segments,
    split_input,
    task_blocks,
    task_input,
)
from krill.tokenizer.needs import TEXT, WORDS, counting_needs, gathering_needs
from krill.tokenizer.options import TrainOptions
from krill.tokenizer.word_counter import BlockCounter, boundary_tokens, damaged_spill, split_points

KIND: Final = "tokenizer"
PARTS: Final = 16
"""Tasks that merge counts. Each reads from all files, so there are more only where there is much to merge."""

_MANY_TASKS: Final = 1024
_PART: Final = "word-counts"
_COPIED_AT_ONCE: Final = 1 << 20


def count_on(
    config: EngineConfig,
    corpus: Corpus,
    options: TrainOptions,
    run: Run,
    *,
    meter: Meter,
    counts_folder: Path,
    progress: Progress,
) -> tuple[WordCounts, dict[str, Any]]:
    """Count a corpus on the engine that `config` names; each worker has the meter's limit and threads.

    Also returns what the manifest says of the engine.
    """
    finished = finished_counts(counts_folder, progress)
    if finished is not None:
        return finished, {"name": config.name, "tasks": 0}
    make_folder(counts_folder)
    stages = run.stages.absolute()
    settings = {
        "stages": str(stages),
        "options": asdict(options),
        "verify": corpus.verify,
        "boundaries": [token.decode() for token in boundary_tokens(options, corpus.files)],
    }
    spec = WorkerSpec.of_run(KIND, run, Resources(meter.limit, meter.threads), settings)
    count = CountWords(settings, meter, progress, corpus, run.description["inputs"])
    merge = MergeCounts(count)
    progress.advance(sum(record["bytes"] for _, record in count.log))
    facts = run_stages(config, spec, [count, merge], progress)
    word_counts = merge.join(counts_folder)
    for log in (count.log, count.portions, merge.log):
        log.clear()
    return word_counts, facts


def open_run(address: str, identity: str, resources: Resources, workers: int, held: ExitStack) -> WorkerRun:
    _, spec = load_run(address, identity)
    meter = held.enter_context(metered_process(resources.memory, resources.threads, floor=resources.floor))
    progress = CountedProgress()
    count = CountWords(spec, meter, progress)
    return WorkerRun([count, MergeCounts(count)], progress)


class CountWords(Stage):
    """Counts the words of portions of the input.

    The driver, which has the corpus, cuts it as tasks are asked for, and keeps each portion in a commit log;
    workers get the number of a portion and find it there.
    """

    def __init__(
        self,
        spec: Mapping[str, Any],
        meter: Meter,
        progress: Progress,
        corpus: Corpus | None = None,
        inputs: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__("counts", lambda name: CommitLog(Path(spec["stages"]) / name))
        special = {"special_tokens": tuple(spec["options"]["special_tokens"])}
        self._options = TrainOptions(**{**spec["options"], **special})
        self._boundaries = tuple(token.encode() for token in spec["boundaries"])
        self._verify = spec["verify"]
        self._corpus = corpus
        self._inputs = inputs
        self.meter = meter
        self._progress = progress

    @property
    def portions(self) -> CommitLog:
        return self.open_log("portions")

    def tasks(self) -> Iterable[int]:
        if self._corpus is None:
            yield from self.portions.units()
            return
        kept = self.portions
        for number, portion in enumerate(split_input(self._corpus, counting.UNIT_BYTES)):
            if number not in kept:
                known = [self._inputs[ordinal] for ordinal in portion.ordinals]
                kept.commit(number, {"portion": portion, "fingerprints": known})
            yield number

    def describe(self, tasks: Sequence[int]) -> str:
        return f"count {tasks[0] + 1:,}, {task_input(self.portions.record(tasks[0])['portion']).name}"

    def input_bytes(self) -> int | None:
        return None if self._corpus is None else self._corpus.input_bytes

    def run(self, tasks: Iterable[int]) -> None:
        log, portions = self.log, self.portions
        for number in tasks:
            output = log.place(number, COUNTED)
            log.commit(number, self.count_portion(portions.record(number), output), [output])

    def count_portion(self, kept: Mapping[str, Any], output: Path) -> dict[str, Any]:
        """Count what one task says into a file; what its record says of that."""
        portion = task_input(kept["portion"])
        for file, known in zip(portion.files, kept["fingerprints"], strict=True):
            check_same(file, known)
        options, boundaries, meter = self._options, self._boundaries, self.meter
        threads = meter.threads
        corpus = corpus_of(portion.files, options, verify=self._verify)
        plan = meter.plan(counting_needs(corpus, threads))
        in_flight = plan.share(TEXT)
        cuts = split_points(options, boundaries, in_flight // (threads + 1))
        with atomic_writer(output) as made:
            counter = BlockCounter(
                options, boundaries, cap_bytes=plan.share(WORDS), threads=threads, spill=made.temporary
            )
            with storage_errors(output):
                sizes = ordered_map(
                    counter.add,
                    task_blocks(portion, corpus, cuts, BLOCK_BYTES),
                    threads=threads,
                    bytes_in_flight=in_flight,
                    size=lambda piece: piece.held,
                    throttle=meter,
                )
                counted = sum(sizes)
                segments = counter.words.checkpoint()
            size = append_index(made, segments, counter.words.spilled_bytes)
        self._progress.advance(counted)
        return {"bytes": counted, "size": size}


class MergeCounts(Stage):
    """Merges what all tasks of `count` have found of some shards: these words are in no other part."""

    one_thread = True

    def __init__(self, count: CountWords) -> None:
        super().__init__("parts", count.open_log)
        self._count = count

    def tasks(self) -> Sequence[int]:
        return range(SHARDS if len(self._count.log) >= _MANY_TASKS else PARTS)

    def describe(self, tasks: Sequence[int]) -> str:
        shards = self._shards(tasks[0])
        return f"merge the counts of shards {shards[0]} to {shards[-1]}"

    def run(self, tasks: Iterable[int]) -> None:
        log = self.log
        for number in tasks:
            output = log.place(number, _PART)
            log.commit(number, self._merge(self._shards(number), output), [output])

    def join(self, folder: Path) -> WordCounts:
        """The word counts in `folder`, when all parts are merged."""
        counted = [record for _, record in self._count.log]
        path, log = folder / WORD_COUNTS, self.log
        merged = [log.record(number) for number in self.tasks()]
        with atomic_writer(path) as word_counts:
            for number in self.tasks():
                part = log.path(number, _PART)
                with reading_artifact(part), part.open("rb") as file:
                    copyfileobj(file, word_counts, _COPIED_AT_ONCE)
        found = WordCounts(
            path,
            sum(record["words"] for record in merged),
            sum(record["occurrences"] for record in merged),
            sum(record["word_bytes"] for record in merged),
            tuple(map(sum, zip(*(record["byte_counts"] for record in merged), strict=True))),
            sum(record["size"] for record in counted),
        )
        save_finished(folder, found, sum(record["bytes"] for record in counted))
        return found

    def _shards(self, number: int) -> range:
        each = SHARDS // len(self.tasks())
        return range(number * each, (number + 1) * each)

    def _merge(self, shards: range, output: Path) -> dict[str, Any]:
        plan = self._count.meter.plan(gathering_needs())
        counts = self._count.log
        files = (counts.path(number, COUNTED) for number in counts.units())
        spill = AtomicFile(output.with_suffix(".spill"))  # removed when they are merged
        try:
            segments = collect_segments(files, shards, spill)
            spilled = str(spill.temporary), segments, spill.tell()
            with atomic_writer(output) as made, storage_errors(output), damaged_spill(output.parent):
                counter = _native.WordCounter("", [], False, plan.share(WORDS), 1, *spilled)
                words, occurrences, word_bytes, byte_counts = counter.write_counts(str(made.temporary))
        finally:
            spill.abort()
        return {
            "words": words,
            "occurrences": occurrences,
            "word_bytes": word_bytes,
            "byte_counts": byte_counts.tolist(),
        }
