"""Scan: read every document once, clean it, hash it.

Leaves for each unit a file of 128-bit hashes (when duplicates are asked for) and, for input that can only
be read from its beginning, the surviving documents themselves, compressed, so that later stages needn't
decode it again. The record says how many documents each block gave and the XOR of their hashes: a later
stage that reads the block again knows if the file has changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from krill.corpus import Block, Unit, UnitEnd
from krill.corpus.buffers import text_buffers
from krill.flow import CommitLog
from krill.flow.commits import UnitFiles
from krill.prepare.context import Context
from krill.prepare.needs import scan_cost
from krill.prepare.survivors import add_counts, spill, survivors

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

HASHES = "hashes"
SPILL = "spill"


@dataclass(frozen=True, slots=True)
class _Scanned:
    """What one block gave."""

    end: UnitEnd
    bytes_read: int
    documents: int
    text_bytes: int
    counts: Mapping[str, int]
    hashes: NDArray[np.uint64] | None
    spilled: pa.Buffer | None


def scan(context: Context, log: CommitLog, *, hashing: bool) -> None:
    """Scan all units that `log` doesn't have."""
    sequential = {file.ordinal for file in context.corpus.files if file.sequential}

    def work(item: tuple[bool, Block]) -> _Scanned:
        spilling, block = item
        return _scan_block(context, block, hashing=hashing, spilling=spilling)

    def committed(position: int) -> UnitEnd | None:
        return UnitEnd.from_json(log.record(position)["end"]) if position in log else None

    groups = (
        (unit, ((unit.parts[0].file in sequential, block) for block in blocks))
        for unit, blocks in context.corpus.walk(committed)
    )
    in_flight = context.plan.share("blocks being scanned")
    current: _UnitScan | None = None
    try:
        for unit, piece in context.map_grouped(work, groups, in_flight=in_flight, size=_weight):
            current = current or _UnitScan(
                log, unit, hashing=hashing, spilling=unit.parts[0].file in sequential
            )
            if piece is None:
                context.unit_done(current.commit())
                current = None
            else:
                current.add(piece)
                context.progress.advance(piece.bytes_read)
    finally:
        if current is not None:
            current.abort()


def digest(hashes: NDArray[np.uint64]) -> str:
    """An order-free fingerprint of a block's documents."""
    import numpy as np

    first, second = np.bitwise_xor.reduce(hashes, axis=0).tolist() if len(hashes) else (0, 0)
    return f"{first:016x}{second:016x}"


def hash_text(batch: pa.RecordBatch) -> NDArray[np.uint64]:
    """The 128-bit hash of each document."""
    from krill import _native

    return _native.hash_documents(*text_buffers(batch.column("text")))


def text_bytes(batch: pa.RecordBatch) -> int:
    """Bytes of text in a batch."""
    offsets, _ = text_buffers(batch.column("text"))
    return int(offsets[-1] - offsets[0])


def _weight(item: tuple[bool, Block]) -> int:
    return scan_cost(item[1].nbytes)


def _scan_block(context: Context, block: Block, *, hashing: bool, spilling: bool) -> _Scanned:
    documents = survivors(block, context.steps)
    batch = documents.batch
    return _Scanned(
        UnitEnd.after(block),
        block.size,
        batch.num_rows,
        text_bytes(batch),
        documents.counts,
        hash_text(batch) if hashing else None,
        spill(batch) if spilling else None,
    )


@dataclass(slots=True)
class _UnitScan:
    """The artifacts and the record of the unit being scanned."""

    log: CommitLog
    unit: Unit
    hashing: bool
    spilling: bool
    end: UnitEnd = field(default_factory=lambda: UnitEnd(None))
    blocks: list[dict[str, Any]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=lambda: {"documents": 0, "text_bytes": 0, "bytes_read": 0})
    files: UnitFiles = field(init=False)

    def __post_init__(self) -> None:
        names = [name for name, wanted in ((HASHES, self.hashing), (SPILL, self.spilling)) if wanted]
        self.files = self.log.begin(self.unit.position, *names)

    def add(self, piece: _Scanned) -> None:
        """Append what a block gave."""
        block: dict[str, Any] = {"documents": piece.documents}
        if piece.hashes is not None:
            self.files.write(HASHES, piece.hashes)
            block["digest"] = digest(piece.hashes)
        if piece.spilled is not None:
            block["spill"] = [self.files.write(SPILL, piece.spilled), piece.spilled.size, piece.text_bytes]
        self.blocks.append(block)
        self.end = piece.end
        add_counts(self.counts, piece.counts)
        for name, value in (
            ("documents", piece.documents),
            ("text_bytes", piece.text_bytes),
            ("bytes_read", piece.bytes_read),
        ):
            self.totals[name] += value

    def commit(self) -> int:
        """The unit is done; returns what it keeps on disk."""
        return self.files.commit(
            {
                "unit": self.unit.to_json(),
                "end": self.end.to_json(),
                "blocks": self.blocks,
                "counts": self.counts,
                **self.totals,
            }
        )

    def abort(self) -> None:
        """The unit is not done."""
        self.files.abort()
