"""Scan: read every document once, clean and filter it, and note what finding its copies takes.

Leaves for each unit a file of 128-bit hashes and, for near-duplicates, one of MinHash bands; the surviving
documents themselves, compressed, where reading them again would cost more (input that can only be read from
its beginning, or that has passed filters); and the rejected ones, if they are wanted. The record says how
many documents each block gave and the XOR of their hashes: a later stage that reads the block again knows if
the file has changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from krill.corpus import Block, Corpus, Start, Unit, UnitEnd
from krill.corpus.arrays import as_numpy
from krill.corpus.buffers import text_buffers
from krill.dedup import line_hashes
from krill.pipeline.context import Context
from krill.pipeline.needs import scan_cost
from krill.pipeline.survivors import add_counts, hashes_of, spill, survivors
from krill.storage import CommitLog
from krill.storage.commits import UnitFiles
from krill.text.clean import valid_text

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from krill.dedup import MinHash

Hashed = Literal["document", "paragraph", "line"]

HASHES = "hashes"
BANDS = "bands"
POSITIONS = "positions"
SPILL = "spill"
REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the stages after the scan ask it for."""

    hashes: Hashed | None = None
    """What is hashed: documents, or their lines or paragraphs."""
    minhash: MinHash | None = None
    spill: bool = False
    """Whether survivors are kept of all units; those of sequential files always are."""
    rejected: bool = False
    positions: bool = False
    """Whether it is noted where that stands which is hashed."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """What one block gave: its record, and what goes into each of the unit's files."""

    end: UnitEnd
    bytes_read: int
    documents: int
    text_bytes: int
    counts: Mapping[str, int]
    digest: str | None = None
    hashes: NDArray[np.uint64] | None = None
    bands: NDArray[np.uint64] | None = None
    positions: NDArray[np.uint64] | None = None
    spilled: pa.Buffer | None = None
    rejected: Sequence[pa.Buffer] = ()


def scan(
    context: Context,
    corpus: Corpus,
    log: CommitLog,
    wanted: Wanted,
    starts: Iterable[Start] | None = None,
) -> None:
    """Scan all units of `corpus`, or of these starts, that `log` doesn't have."""

    def spilling(unit: Unit) -> bool:
        return wanted.spill or corpus.files[unit.parts[0].file].sequential

    def work(item: tuple[bool, Block]) -> Scanned:
        return _scan_block(context, item[1], wanted, spilling=item[0])

    def committed(position: int) -> UnitEnd | None:
        return UnitEnd.from_json(log.record(position)["end"]) if position in log else None

    context.make_units(
        (
            (unit, ((spilling(unit), block) for block in blocks))
            for unit, blocks in corpus.walk(committed, starts)
        ),
        lambda unit: UnitScan.begin(log, unit, wanted, spilling=spilling(unit)),
        work,
        in_flight=context.plan.share("blocks being scanned"),
        size=lambda item: scan_cost(item[1].nbytes),
    )


def digest(hashes: NDArray[np.uint64]) -> str:
    """An order-free fingerprint of a block's documents."""
    import numpy as np

    first, second = np.bitwise_xor.reduce(hashes, axis=0).tolist() if len(hashes) else (0, 0)
    return f"{first:016x}{second:016x}"


def text_bytes(batch: pa.RecordBatch) -> int:
    """Bytes of text in a batch."""
    offsets, _ = text_buffers(batch.column("text"))
    return int(offsets[-1] - offsets[0])


def _scan_block(context: Context, block: Block, wanted: Wanted, *, spilling: bool) -> Scanned:
    documents = survivors(block, context.steps, collect=wanted.rejected)
    batch = documents.batch
    text = batch.column("text")
    # Also where nothing compares documents: they tell whether the input has changed since.
    hashes = hashes_of(documents) if wanted.hashes or wanted.minhash else None
    return Scanned(
        UnitEnd.after(block),
        block.size,
        batch.num_rows,
        text_bytes(batch),
        documents.counts,
        None if hashes is None else digest(hashes),
        _hashes(text, wanted.hashes, hashes),
        wanted.minhash.bands_of(text) if wanted.minhash is not None else None,
        _positions(batch, wanted.hashes) if wanted.positions else None,
        spill(batch) if spilling else None,
        [spill(valid_text(rejected)) for rejected in documents.rejected or ()],
    )


def _hashes(
    text: pa.Array, hashed: Hashed | None, of_documents: NDArray[np.uint64] | None
) -> NDArray[np.uint64] | None:
    """What goes into the unit's file of hashes."""
    if hashed is None:
        return None
    return of_documents if hashed == "document" else line_hashes(text, hashed)[0]


def _positions(batch: pa.RecordBatch, hashed: Hashed | None) -> NDArray[np.uint64]:
    """The position of each document, or for each of its lines or paragraphs once more."""
    import numpy as np

    column = batch.column("position")
    positions = as_numpy(column, "uint64").copy()  # a view would hold the whole batch
    if hashed is None or hashed == "document":
        return positions
    return np.repeat(positions, line_hashes(batch.column("text"), hashed)[1])


@dataclass(slots=True)
class UnitScan:
    """The artifacts and the record of the unit being scanned."""

    unit: Unit
    files: UnitFiles
    end: UnitEnd = field(default_factory=lambda: UnitEnd(None))
    blocks: list[dict[str, Any]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=lambda: {"documents": 0, "text_bytes": 0, "bytes_read": 0})

    @classmethod
    def begin(cls, log: CommitLog, unit: Unit, wanted: Wanted, *, spilling: bool) -> UnitScan:
        """Open the files that are wanted of the unit."""
        names = {
            HASHES: wanted.hashes is not None,
            BANDS: wanted.minhash is not None,
            POSITIONS: wanted.positions,
            SPILL: spilling,
            REJECTED: wanted.rejected,
        }
        files = log.begin(unit.position, *(name for name, asked in names.items() if asked))
        return cls(unit, files)

    def add(self, piece: Scanned) -> None:
        """Append what a block gave."""
        block: dict[str, Any] = {"documents": piece.documents}
        if piece.digest is not None:
            block["digest"] = piece.digest
        if piece.hashes is not None:
            self.files.write(HASHES, piece.hashes)
            block["hashes"] = len(piece.hashes)
        if piece.bands is not None:
            self.files.write(BANDS, piece.bands)
        if piece.positions is not None:
            self.files.write(POSITIONS, piece.positions)
        if piece.spilled is not None:
            block["spill"] = [self.files.write(SPILL, piece.spilled), piece.spilled.size, piece.text_bytes]
        if piece.rejected:
            block["rejected"] = [[self.files.write(REJECTED, part), part.size] for part in piece.rejected]
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
