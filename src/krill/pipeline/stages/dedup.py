"""Dedup, the stage `resolve`: which of the scanned documents survive.

In: the hashes or bands of each unit, and files of what counts as seen before. Out: for each unit a file of
keep bits and, if wanted, one of clusters, all in one commit. Held in memory: the method's share of the plan,
whatever the number of documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from krill.budget import Need
from krill.dedup import Verify, dedup_bloom, dedup_exact, dedup_minhash
from krill.dedup.copies import largest_copies
from krill.dedup.datatrove_minhash import dedup_with_datatrove
from krill.engines import StageReport
from krill.pipeline.context import Context
from krill.pipeline.dedup_needs import (
    DEDUP_TABLE,
    compared,
    dedup_disk,
    dedup_needs,
    index_needs,
    minhash_of,
)
from krill.pipeline.distributions import Distributions
from krill.pipeline.needs import Sizing
from krill.pipeline.prediction import ExpectedInput, StageCost
from krill.pipeline.seen_before import EarlierRuns, against_files, hash_files
from krill.pipeline.stages.base import PipelineStage
from krill.pipeline.stages.scan import BANDS, HASHES, Scan
from krill.pipeline.surviving_units import CLUSTERS, KEEP, SurvivingUnits, read_keep
from krill.pipeline.twins import Twins
from krill.storage import CommitLog

RESOLVE: Final = "resolve"
# Bytes per second, measured on the machine in docs/benchmarks.md: exact duplicates take 16 bytes a document,
# MinHash eight for each band.
_RATE: Final = 60e6


class Dedup(PipelineStage):
    """Finds out which of the documents of `scan` survive, in one task.

    Not kept are copies of earlier ones, of those of `against`, and of what the `earlier` runs kept. Where
    lines or paragraphs are compared, the bits are theirs, and `Trim` removes them.
    """

    def __init__(
        self,
        context: Context,
        scan: Scan,
        against: Scan | None = None,
        earlier: EarlierRuns | None = None,
    ) -> None:
        super().__init__(context, RESOLVE)
        self.scan = scan
        self._against = against
        self._earlier = earlier
        self.settings = context.config.preprocess.dedup
        self._clusters = self.settings.method == "minhash" and self.settings.clusters

    @staticmethod
    def needs(sizing: Sizing) -> Iterator[Need]:
        yield from dedup_needs(sizing.config, None if sizing.sizes is None else sizing.sizes.text_bytes)
        yield from index_needs(sizing.config)

    @staticmethod
    def predict(expected: ExpectedInput) -> StageCost | None:
        dedup, text = expected.config.preprocess.dedup, expected.total("text_bytes")
        if dedup.method == "none":
            return None
        documents = expected.total("documents") if dedup.level == "document" else compared(dedup, text)
        noted = dedup_disk(dedup, documents, text)
        shared = dedup.method != "bloom" and dedup.verify is None
        return StageCost(RESOLVE, noted / _RATE / (expected.workers if shared else 1), noted)

    def units(self) -> SurvivingUnits:
        """All units, with the documents that survive."""
        corpus, steps = self.context.corpus, self.context.steps
        return SurvivingUnits(corpus, steps, self.scan.log, self.log, clusters=self._clusters)

    def records(self) -> CommitLog:
        return self.scan.log

    def twins(self) -> Twins:
        """Finds the kept documents that duplicates are copies of."""
        minhash = minhash_of(self.settings)
        name, width = (HASHES, 2) if minhash is None else (BANDS, minhash.bands)
        return Twins(self.scan.log, self.log, name, width, every=minhash is None)

    def shown_clusters(self) -> list[tuple[int, list[int]]]:
        """The largest clusters: the documents of each, and the numbers of the first. MinHash has found them
        on the way; equal documents are counted here."""
        if minhash_of(self.settings) is None:
            return largest_copies(self.twins().hashes)
        return [(size, documents) for size, documents in self.log.record(0).get("shown", ())]

    def seen_before(self) -> list[str]:
        """Files of what is not to be kept again, as tasks name them."""
        context = self.context
        files: list[Path] = []
        if self._earlier is not None:
            files += self._earlier.pinned(context.folder.stages)
        against = context.log("against") if self._against is None else self._against.log
        files += against_files(context.config, against, context.folder.stages)
        return [context.task_path(path) for path in files]

    def tasks(self) -> Iterable[list[str]]:
        return [] if 0 in self.log else [self.seen_before()]

    def missing(self, tasks: Iterable[Any]) -> Iterator[Any]:
        return iter(()) if 0 in self.log else iter(tasks)

    def run(self, tasks: Iterable[Any]) -> None:
        for seen_before in tasks:
            prior = [self.context.path_of(name) for name in seen_before]
            keep_files, cluster_files = self.unit_files(self.scan.log.units())
            found = _resolved(self.context, self.scan, prior, keep_files, cluster_files)
            self.log.commit(0, found, [*keep_files, *(cluster_files or ())])

    def unit_files(self, units: Sequence[int]) -> tuple[list[Path], list[Path] | None]:
        """Where the keep bits of these units go, and their clusters, if these are wanted."""
        log = self.log
        keep_files = [log.place(unit, KEEP) for unit in units]
        return keep_files, [log.place(unit, CLUSTERS) for unit in units] if self._clusters else None

    def finish(self) -> StageReport:
        found = self.log.record(0)
        size = sum(self.context.folder.files.sizes(hash_files(self.settings, self.scan.log)))
        self.context.progress.advance(size)
        facts = {name: value for name, value in found.items() if name != "shown"}
        report = StageReport(bytes=size, documents=self.scan.documents, outputs={"duplicates": facts})
        if self.settings.level == "document":
            report.counts = {"duplicate": found["duplicates"]}
            report.kept = self.scan.documents - found["duplicates"]
            report.by_source = self._by_source()
        return report

    def _by_source(self) -> dict[int, dict[str, int]]:
        dropped = Distributions()
        for unit, record in self.scan.log:
            kept = int(read_keep(self.log.path(unit, KEEP), record["documents"]).sum(dtype="int64"))
            dropped.add_counts(self.source_of(unit), {"duplicate": record["documents"] - kept})
        return dropped.counts

    def describe(self, tasks: Sequence[Any]) -> str:
        return self.name


def _resolved(
    context: Context,
    scan: Scan,
    prior: Sequence[Path],
    keep_files: Sequence[Path],
    cluster_files: Sequence[Path] | None,
) -> dict[str, Any]:
    dedup, scanned, units = context.config.preprocess.dedup, scan.log, scan.units()
    files = hash_files(dedup, scanned)
    context.folder.files.fetch([*files, *prior])
    spill = context.folder.stages / "resolve-spill"
    share = context.plan.share(DEDUP_TABLE)
    if dedup.method == "exact":
        return {
            "duplicates": dedup_exact(
                files, keep_files, share=share, spill=spill, threads=context.threads, prior=prior
            )
        }
    if dedup.method == "bloom":
        assert dedup.expected_documents is not None
        return {
            "duplicates": dedup_bloom(
                files,
                keep_files,
                expected_documents=dedup.expected_documents,
                false_positive_rate=dedup.false_positive_rate,
                prior=prior,
            )
        }
    minhash = minhash_of(dedup)
    assert minhash is not None
    if dedup.implementation == "datatrove":
        counts = [record["documents"] for _, record in scanned]
        return asdict(dedup_with_datatrove(minhash, counts, keep_files, read_unit=_texts(units), spill=spill))
    found = dedup_minhash(
        files,
        keep_files,
        bands=minhash.bands,
        share=share,
        spill=spill,
        threads=context.threads,
        prior=prior,
        verify=None if dedup.verify is None else Verify(dedup.verify, _texts(units), dedup.ngram),
        cluster_files=cluster_files,
    )
    return asdict(found)


def _texts(units: SurvivingUnits) -> Callable[[int], Iterator[pa.Array]]:
    """The text columns of the k-th scanned unit."""
    positions = list(units.tasks())

    def texts(unit: int) -> Iterator[pa.Array]:
        for block in units.blocks(positions[unit]):
            yield block.read()[0].column("text")

    return texts
