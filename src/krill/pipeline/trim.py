"""Trim: documents without the lines or paragraphs that stood before, where those are deduplicated.

In: the scanned units and a keep bit for each of their pieces. Out: for each unit what is left of its
documents, compressed, in the form in which the scan leaves survivors; documents that have become too short
are dropped and counted. Held in memory: the blocks being trimmed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from krill.corpus import Documents, Unit, UnitEnd
from krill.dedup import keep_lines
from krill.dedup.lines import Level
from krill.pipeline.context import Context
from krill.pipeline.kept import KEEP, KeptBlock, KeptUnits, read_keep
from krill.pipeline.needs import scan_cost
from krill.pipeline.scan import Scanned, UnitScan, Wanted, text_bytes
from krill.pipeline.survivors import spill
from krill.storage import CommitLog
from krill.text import CleanText

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

REMOVED = "pieces_removed"
"""Counts lines or paragraphs that were taken out of documents."""

Flagged = tuple[KeptBlock, "NDArray[np.uint8]"]


def trim(
    context: Context,
    scanned: CommitLog,
    units: KeptUnits,
    resolved: CommitLog,
    log: CommitLog,
    level: Level,
    positions: Sequence[int],
) -> None:
    """Trim those of the units at `positions` that `log` doesn't have."""
    settings = context.config.preprocess
    wanted = Wanted(spill=True, rejected=settings.rejected)
    clean = CleanText(strip=settings.strip, min_chars=settings.min_chars)

    def begin(position: int) -> UnitScan:
        unit = Unit.from_json(scanned.record(position)["unit"])
        return UnitScan.begin(log, unit, wanted, spilling=True)

    def work(item: Flagged) -> Scanned:
        return _trim_block(*item, clean, level, collect=wanted.rejected)

    todo = (
        (position, _flagged(scanned, units, resolved, position))
        for position in positions
        if position not in log
    )
    context.make_units(
        todo,
        begin,
        work,
        in_flight=context.plan.share("blocks being scanned"),
        size=lambda item: scan_cost(item[0].nbytes),
    )


def _flagged(scanned: CommitLog, units: KeptUnits, resolved: CommitLog, position: int) -> Iterator[Flagged]:
    """The blocks of a unit, each with the flags of its pieces."""
    blocks = scanned.record(position)["blocks"]
    flags = read_keep(resolved.path(position, KEEP), sum(block["hashes"] for block in blocks))
    first = 0
    for seen, block in zip(blocks, units.blocks(position), strict=True):
        yield block, flags[first : first + seen["hashes"]]
        first += seen["hashes"]


def _trim_block(
    block: KeptBlock, flags: NDArray[np.uint8], clean: CleanText, level: Level, *, collect: bool
) -> Scanned:
    batch, _ = block.read()
    before = text_bytes(batch)
    at = batch.schema.get_field_index("text")
    text = keep_lines(batch.column(at), flags, level)
    documents = Documents(batch.set_column(at, "text", text), {REMOVED: int((flags == 0).sum())})
    if collect:
        documents = replace(documents, rejected=())
    documents = clean.apply(documents)
    left = documents.batch
    return Scanned(
        end=UnitEnd(None),
        bytes_read=before,
        documents=left.num_rows,
        text_bytes=text_bytes(left),
        counts=documents.counts,
        spilled=spill(left),
        rejected=[spill(rows) for rows in documents.rejected or ()],
    )
