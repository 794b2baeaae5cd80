"""Resolve in phases that many workers share, by hash partition.

In: what the scan noted of each unit. Out: the keep bits of every unit, the same as one process would write.

1. *split*: a worker takes some neighbouring units and puts what was noted in the order of partitions.
2. *answer*: a worker takes one partition of all of them, and tells who came first, or who hangs together.
3. *join* puts the answers of some units back into the order of documents; of near-duplicates one worker makes
   clusters, out of the edges alone.

Held in memory: a worker's share. What is decided here once, such as the number of partitions, never shapes
the result. Methods that need one table, or read texts again, are one task.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from krill.dedup import (
    MIN_SHARE,
    Shuffle,
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
from krill.pipeline.context import Context
from krill.pipeline.dedup_needs import DEDUP_TABLE, minhash_of
from krill.pipeline.kept import CLUSTERS as UNIT_CLUSTERS
from krill.pipeline.kept import KEEP
from krill.pipeline.resolve import noted_files
from krill.storage import CommitLog

if TYPE_CHECKING:
    from krill.pipeline.stage_work import Parts, StageWork

PLAN = "resolve-plan"
SPLIT = "resolve-split"
ANSWER = "resolve-answer"
JOIN = "resolve-join"
CLUSTERS = "resolve-clusters"
PHASES = (SPLIT, ANSWER, JOIN, CLUSTERS)
_HASH_BYTES = 16
_BAND_BYTES = 8
_LEAST_NEAR_SHARE = 8 * 1024 * 1024

Do = Callable[[str, "Parts", "StageWork"], None]
Made = tuple[dict[str, Any], Sequence[Path]]
"""A part's record, and the files that were made with it."""


def resolve_in_phases(context: Context, work: StageWork, do: Do, workers: int) -> None:
    """Have the phases done, one after the other, and commit what was found."""
    dedup = context.config.preprocess.dedup
    prior = work.prior_names
    if dedup.method == "bloom" or dedup.verify is not None or dedup.implementation == "datatrove":
        do("resolve", [prior], work)
        return
    do(PLAN, [[workers, prior]], work)
    phases = Phases.read(context)
    do(SPLIT, range(len(phases.groups)), work)
    do(ANSWER, range(phases.partitions), work)
    if dedup.method == "minhash":
        do(CLUSTERS, [0], work)
        found = phases.log(CLUSTERS).record(0)
    else:
        own = range(phases.prior_groups, len(phases.groups))
        do(JOIN, own, work)
        found = {"duplicates": sum(phases.log(JOIN).record(group)["duplicates"] for group in own)}
    work.log("resolve").commit(0, found)


def remove_phases(context: Context) -> None:
    """Remove what was only needed to get to the keep bits."""
    for phase in (SPLIT, ANSWER):
        context.log(phase).clear()


@dataclass(frozen=True)
class Phases:
    """What was decided for this run: groups of files, of which the first are of documents seen before."""

    context: Context
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

    @classmethod
    def read(cls, context: Context) -> Phases:
        """What was decided."""
        return cls(context, **context.log(PLAN).record(0))

    @property
    def partitions(self) -> int:
        return Shuffle(self.width, 1).partitions

    @cached_property
    def prior_groups(self) -> int:
        return sum(not units for units in self.units)

    def log(self, phase: str) -> CommitLog:
        """What a phase has committed."""
        return self.context.log(phase)

    def do(self, phase: str, parts: Sequence[int]) -> None:
        """Do these parts of a phase, as many at once as there are threads and room."""
        work = {SPLIT: self._split, ANSWER: self._answer, JOIN: self._join, CLUSTERS: self._clusters}[phase]
        log = self.log(phase)
        share = self.context.plan.share(DEDUP_TABLE)
        least = MIN_SHARE if minhash_of(self.context.config.preprocess.dedup) is None else _LEAST_NEAR_SHARE
        threads = 1 if phase == CLUSTERS else max(1, min(self.context.threads, share // least))
        todo = [part for part in parts if part not in log]

        def one(part: int) -> tuple[int, Made]:
            return part, work(part, log.place(part, "records"), share // threads)

        for part, (record, files) in self.context.map(one, todo, in_flight=threads, size=lambda _: 1):
            log.commit(part, record, files)

    def _split(self, group: int, out: Path, share: int) -> Made:
        files = self._paths(group)
        minhash = minhash_of(self.context.config.preprocess.dedup)
        if minhash is None:
            hashes = split_hashes(files, out, width=self.width, share=share, spill=self._spill)
            return {"records": hashes}, [out]
        records = split_bands(
            files,
            out,
            bands=minhash.bands,
            first_document=self.firsts[group],
            width=self.width,
            share=share,
            spill=self._spill,
        )
        return {"records": records}, [out]

    def _answer(self, partition: int, out: Path, share: int) -> Made:
        answer = answer_hashes if minhash_of(self.context.config.preprocess.dedup) is None else answer_bands
        return {"records": answer(self._made(SPLIT), partition, out, share=share, spill=self._spill)}, [out]

    def _join(self, group: int, out: Path, share: int) -> Made:
        keep_files = self._unit_files(self.units[group], KEEP)
        duplicates = join_hashes(
            self._paths(group), group, self._made(ANSWER), keep_files, share=share, spill=self._spill
        )
        return {"duplicates": duplicates}, keep_files

    def _clusters(self, part: int, out: Path, share: int) -> Made:
        units = [unit for group in self.units for unit in group]
        keep_files = self._unit_files(units, KEEP)
        cluster_files = None
        if self.context.config.preprocess.dedup.clusters:
            cluster_files = self._unit_files(units, UNIT_CLUSTERS)
        found = cluster_edges(
            self._made(ANSWER),
            self.counts,
            keep_files,
            prior=self.prior,
            share=share,
            spill=self._spill,
            threads=self.context.threads,
            cluster_files=cluster_files,
        )
        return asdict(found), [*keep_files, *(cluster_files or ())]

    def _paths(self, group: int) -> list[Path]:
        """What was noted of a group's documents, to be read."""
        paths = [self.context.path_of(name) for name in self.groups[group]]
        self.context.folder.files.bring(paths)
        return paths

    def _made(self, phase: str) -> list[Path]:
        log = self.log(phase)
        count = len(self.groups) if phase == SPLIT else self.partitions
        return [log.path(number, "records") for number in range(count)]

    @property
    def _spill(self) -> Path:
        return self.context.folder.stages / "resolve-spill"

    def _unit_files(self, units: Sequence[int], name: str) -> list[Path]:
        resolved = self.log("resolve")
        return [resolved.place(unit, name) for unit in units]


def decide(context: Context, scanned: CommitLog, prior: Sequence[Path], workers: int) -> None:
    """Cut the work, unless an earlier life of the run did."""
    log = context.log(PLAN)
    if 0 not in log:
        log.commit(0, _decided(context, scanned, prior, workers))


def _decided(context: Context, scanned: CommitLog, prior: Sequence[Path], workers: int) -> dict[str, Any]:
    dedup = context.config.preprocess.dedup
    files = noted_files(dedup, scanned)
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
