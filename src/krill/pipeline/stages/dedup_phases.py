"""Dedup in phases that several workers share, by hash partition.

In: the hashes or bands of each unit. Out: the keep bits of every unit, the same as one process would write.

1. *split*: a worker takes some neighbouring units and sorts its hashes or bands by partition.
2. *answer*: a worker takes one partition of all of them, and finds out which document came first, or which
   are connected.
3. *join* puts the answers of some units back into the order of documents; of near-duplicates one worker makes
   clusters, out of the edges alone.

Held in memory: a worker's share. What is decided here once, such as the number of partitions, never shapes
the result. Methods that need one table, or read texts again, are one task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from krill.dedup import (
    MIN_SHARE,
    ShufflePlan,
    answer_bands,
    answer_hashes,
    cluster_edges,
    cut_groups,
    join_hashes,
    plan_bands,
    plan_hashes,
    split_bands,
    split_hashes,
)
from krill.engines import StageReport
from krill.pipeline.context import Context
from krill.pipeline.dedup_needs import DEDUP_TABLE, minhash_of
from krill.pipeline.seen_before import hash_files
from krill.pipeline.stages.base import PipelineStage
from krill.pipeline.stages.dedup import RESOLVE, Dedup
from krill.storage import CommitLog

PLAN: Final = "resolve-plan"
SPLIT: Final = "resolve-split"
ANSWER: Final = "resolve-answer"
_HASH_BYTES = 16
_BAND_BYTES = 8
_LEAST_NEAR_SHARE = 8 * 1024 * 1024

PhaseResult = tuple[dict[str, Any], Sequence[Path]]
"""A task's record, and the files that were made with it."""


def dedup_phases(dedup: Dedup, workers: int) -> list[PipelineStage]:
    """The stages before `dedup` that do its work, so that nothing is left to it but to say what was found.

    None for methods that need one table or read texts again: these are one task.
    """
    settings = dedup.settings
    if settings.method == "bloom" or settings.verify is not None or settings.implementation == "datatrove":
        return []
    last = (
        ClusterPhase(dedup, "resolve-clusters")
        if settings.method == "minhash"
        else JoinPhase(dedup, "resolve-join")
    )
    return [DedupPlan(dedup, workers), SplitPhase(dedup, SPLIT), AnswerPhase(dedup, ANSWER), last]


class DedupPlan(PipelineStage):
    """Cuts the work, once for all attempts of a run."""

    def __init__(self, dedup: Dedup, workers: int) -> None:
        super().__init__(dedup.context, PLAN, part_of=RESOLVE)
        self._dedup = dedup
        self._workers = workers

    def tasks(self) -> Iterable[Any]:
        return [] if 0 in self._dedup.log else [[self._workers, self._dedup.seen_before()]]

    def missing(self, tasks: Iterable[Any]) -> Iterator[Any]:
        return iter(()) if 0 in self.log else iter(tasks)

    def run(self, tasks: Iterable[Any]) -> None:
        for workers, seen_before in tasks:
            prior = [self.context.path_of(name) for name in seen_before]
            self.log.commit(0, _cut(self.context, self._dedup.scan.log, prior, workers))

    def describe(self, tasks: Sequence[Any]) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class DedupCut:
    """How the work was cut: groups of files, of which the first are of documents seen before."""

    width: int
    groups: Sequence[Sequence[str]]
    """Files of each group, as seen from the stages' folder; units' follow those of documents seen before."""
    firsts: Sequence[int]
    """The number of each group's first document."""
    units: Sequence[Sequence[int]]
    """The units of each group; none where documents were seen before."""
    counts: Sequence[int]
    """Documents of each unit."""
    prior: int

    @property
    def partitions(self) -> int:
        return ShufflePlan(self.width, 1).partitions


class DedupPhase(PipelineStage):
    """One of the phases; a task is the number of a group of units, or of a partition."""

    def __init__(self, dedup: Dedup, name: str) -> None:
        super().__init__(dedup.context, name, part_of=RESOLVE)
        self._dedup = dedup
        self._minhash = minhash_of(dedup.settings)
        self._spill = dedup.context.folder.stages / "resolve-spill"

    def tasks(self) -> Iterable[int]:
        return () if 0 in self._dedup.log else self._numbers(self._cut())

    def run(self, tasks: Iterable[Any]) -> None:
        """As many at once as there are threads and room."""
        todo = list(tasks)
        if not todo:
            return
        context, log, cut = self.context, self.log, self._cut()
        share = context.plan.share(DEDUP_TABLE)
        least = MIN_SHARE if self._minhash is None else _LEAST_NEAR_SHARE
        threads = max(1, min(context.threads, share // least, len(todo)))

        def one(task: int) -> tuple[int, PhaseResult]:
            return task, self._work(cut, task, log.place(task, "records"), share // threads)

        for task, (record, files) in context.map(one, todo, in_flight=threads, size=lambda _: 1):
            log.commit(task, record, files)

    def _numbers(self, cut: DedupCut) -> range:
        """The numbers of all tasks."""
        raise NotImplementedError

    def _work(self, cut: DedupCut, number: int, out: Path, share: int) -> PhaseResult:
        """Do one of them, with so many bytes of memory."""
        raise NotImplementedError

    def _cut(self) -> DedupCut:
        return DedupCut(**self.context.log(PLAN).record(0))

    def _paths(self, cut: DedupCut, group: int) -> list[Path]:
        """The hashes or bands of a group's documents, to be read."""
        paths = [self.context.path_of(name) for name in cut.groups[group]]
        self.context.folder.files.fetch(paths)
        return paths

    def _records(self, phase: str, count: int) -> list[Path]:
        """What the tasks of an earlier phase wrote."""
        log = self.context.log(phase)
        return [log.path(number, "records") for number in range(count)]


class SplitPhase(DedupPhase):
    def _numbers(self, cut: DedupCut) -> range:
        return range(len(cut.groups))

    def _work(self, cut: DedupCut, number: int, out: Path, share: int) -> PhaseResult:
        files = self._paths(cut, number)
        if self._minhash is None:
            records = split_hashes(files, out, width=cut.width, share=share, spill=self._spill)
        else:
            records = split_bands(
                files,
                out,
                bands=self._minhash.bands,
                first_document=cut.firsts[number],
                width=cut.width,
                share=share,
                spill=self._spill,
            )
        return {"records": records}, [out]


class AnswerPhase(DedupPhase):
    def _numbers(self, cut: DedupCut) -> range:
        return range(cut.partitions)

    def _work(self, cut: DedupCut, number: int, out: Path, share: int) -> PhaseResult:
        answer = answer_hashes if self._minhash is None else answer_bands
        split = self._records(SPLIT, len(cut.groups))
        return {"records": answer(split, number, out, share=share, spill=self._spill)}, [out]


class LastPhase(DedupPhase):
    """The phase that makes the keep bits; at its end the work of `Dedup` is done."""

    def finish(self) -> StageReport:
        if 0 not in self._dedup.log:
            self._dedup.log.commit(0, self._found())
        if not self.context.shared:  # what was only needed to get here; other ranks may not be as far
            for name in (SPLIT, ANSWER):
                self.context.log(name).clear()
        return StageReport()

    def _found(self) -> dict[str, Any]:
        """What the tasks of this phase found."""
        raise NotImplementedError


class JoinPhase(LastPhase):
    def _numbers(self, cut: DedupCut) -> range:
        return range(sum(not units for units in cut.units), len(cut.groups))

    def _work(self, cut: DedupCut, number: int, out: Path, share: int) -> PhaseResult:
        keep_files, _ = self._dedup.unit_files(cut.units[number])
        files, answers = self._paths(cut, number), self._records(ANSWER, cut.partitions)
        duplicates = join_hashes(files, number, answers, keep_files, share=share, spill=self._spill)
        return {"duplicates": duplicates}, keep_files

    def _found(self) -> dict[str, Any]:
        log = self.log
        return {"duplicates": sum(log.record(number)["duplicates"] for number in self.tasks())}


class ClusterPhase(LastPhase):
    def _numbers(self, cut: DedupCut) -> range:
        return range(1)

    def _work(self, cut: DedupCut, number: int, out: Path, share: int) -> PhaseResult:
        keep_files, cluster_files = self._dedup.unit_files([unit for group in cut.units for unit in group])
        found = cluster_edges(
            self._records(ANSWER, cut.partitions),
            cut.counts,
            keep_files,
            prior=cut.prior,
            share=share,
            spill=self._spill,
            threads=self.context.threads,
            cluster_files=cluster_files,
        )
        return asdict(found), [*keep_files, *(cluster_files or ())]

    def _found(self) -> dict[str, Any]:
        return dict(self.log.record(0))


def _cut(context: Context, scanned: CommitLog, prior: Sequence[Path], workers: int) -> dict[str, Any]:
    dedup = context.config.preprocess.dedup
    files = hash_files(dedup, scanned)
    units = scanned.units()
    share = context.plan.share(DEDUP_TABLE)
    minhash = minhash_of(dedup)
    size = _HASH_BYTES if minhash is None else _BAND_BYTES * minhash.bands
    before = [found // size for found in context.folder.files.sizes(prior)]
    counts = [found // size for found in context.folder.files.sizes(files)]
    documents = sum(before) + sum(counts)
    if minhash is None:
        shuffle = plan_hashes(documents, share=share, workers=workers)
    else:
        shuffle = plan_bands(documents, minhash.bands, share=share, workers=workers)
    of_prior, of_units = cut_groups(before, shuffle.group), cut_groups(counts, shuffle.group)
    sizes = [sum(before[index] for index in group) for group in of_prior]
    sizes += [sum(counts[index] for index in group) for group in of_units]
    groups = [[context.task_path(prior[index]) for index in group] for group in of_prior]
    groups += [[context.task_path(files[index]) for index in group] for group in of_units]
    return {
        "width": shuffle.width,
        "groups": groups,
        "firsts": [0, *accumulate(sizes)][: len(sizes)],
        "units": [[] for _ in of_prior] + [[units[index] for index in group] for group in of_units],
        "counts": counts,
        "prior": sum(before),
    }
