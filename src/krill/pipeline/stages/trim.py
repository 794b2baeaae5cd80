"""Trim: documents without the lines or paragraphs that stood before, where those are deduplicated.

In: the scanned units and a keep bit for each of their pieces. Out: for each unit what is left of its
documents, compressed, in the form in which the scan leaves survivors; documents that have become too short
are dropped and counted. Held in memory: the blocks being trimmed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from krill.corpus import Documents, Unit, UnitEnd
from krill.dedup import keep_lines
from krill.dedup.exact import Level
from krill.engines import StageReport
from krill.pipeline.context import Context
from krill.pipeline.examples import ExampleSet, examples_of
from krill.pipeline.stages.base import PipelineStage, bundle_sizes, describe_units, in_bundles
from krill.pipeline.stages.dedup import Dedup
from krill.pipeline.stages.scan import (
    SCANNING,
    Scan,
    ScannedBlock,
    UnitScan,
    Wanted,
    scan_cost,
    scan_needs,
    scan_report,
)
from krill.pipeline.surviving_units import (
    KEEP,
    SurvivingBlock,
    SurvivingUnits,
    read_keep,
    spill,
    text_bytes,
)
from krill.storage import CommitLog
from krill.text import CleanText

REMOVED = "pieces_removed"
"""Counts lines or paragraphs that were taken out of documents."""

Flagged = tuple[SurvivingBlock, "NDArray[np.uint8]"]


class Trim(PipelineStage):
    """Removes the lines or paragraphs that `dedup` found twice among those of `scan`."""

    def __init__(self, context: Context, scan: Scan, dedup: Dedup) -> None:
        super().__init__(context, "trim")
        self._scan = scan
        self._dedup = dedup

    needs = staticmethod(scan_needs)

    def units(self) -> SurvivingUnits:
        """What is left of all units."""
        return SurvivingUnits(self.context.corpus, self.context.steps, self.log)

    def records(self) -> CommitLog:
        return self.log

    def tasks(self) -> Iterable[int]:
        return self._scan.log.units()

    def bundles(self, tasks: Iterable[Any], workers: int) -> Iterator[list[Any]]:
        return in_bundles(tasks, bundle_sizes(len(self._scan.log), workers))

    def run(self, tasks: Iterable[Any]) -> None:
        context, log = self.context, self.log
        scanned, resolved, units = self._scan.log, self._dedup.log, self._scan.units()
        settings = context.config.preprocess
        level = settings.dedup.level
        assert level != "document"
        wanted = Wanted(spill=True, rejected=settings.rejected, samples=settings.samples)
        known = ExampleSet()
        clean = CleanText(strip=settings.strip, min_chars=settings.min_chars)

        def begin(position: int) -> UnitScan:
            unit = Unit.from_json(scanned.record(position)["unit"])
            return UnitScan.begin(log, unit, wanted, known, spilling=True)

        context.make_units(
            ((position, _flagged(scanned, units, resolved, position)) for position in tasks),
            begin,
            lambda item: _trim_block(*item, clean, level, wanted, known),
            in_flight=context.plan.share(SCANNING),
            nbytes=lambda item: item[0].nbytes,
            cost=scan_cost,
        )

    def finish(self) -> StageReport:
        return scan_report(self.log, self.context.corpus)

    def describe(self, tasks: Sequence[Any]) -> str:
        return f"{self.name}, {describe_units(self.context, tasks)}"

    def input_bytes(self) -> int | None:
        return self.text_bytes(self._scan.log)


def _flagged(
    scanned: CommitLog, units: SurvivingUnits, resolved: CommitLog, position: int
) -> Iterator[Flagged]:
    """The blocks of a unit, each with the flags of its pieces."""
    blocks = scanned.record(position)["blocks"]
    flags = read_keep(resolved.path(position, KEEP), sum(block["hashes"] for block in blocks))
    first = 0
    for seen, block in zip(blocks, units.blocks(position), strict=True):
        yield block, flags[first : first + seen["hashes"]]
        first += seen["hashes"]


def _trim_block(
    block: SurvivingBlock,
    flags: NDArray[np.uint8],
    clean: CleanText,
    level: Level,
    wanted: Wanted,
    known: ExampleSet,
) -> ScannedBlock:
    batch, _ = block.read()
    before = text_bytes(batch)
    at = batch.schema.get_field_index("text")
    text = keep_lines(batch.column(at), flags, level)
    counts = {REMOVED: int((flags == 0).sum())}
    documents = clean.apply(Documents(batch.set_column(at, "text", text), counts, rejected=()))
    left, rejected = documents.batch, documents.rejected or ()
    return ScannedBlock(
        end=UnitEnd(None),
        bytes_read=before,
        documents=left.num_rows,
        text_bytes=text_bytes(left),
        counts=documents.counts,
        spilled=spill(left),
        rejected=[spill(rows) for rows in rejected] if wanted.rejected else (),
        examples=examples_of(rejected, known) if wanted.samples else {},
    )
