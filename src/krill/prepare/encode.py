"""Encode: the kept documents of each unit become one run of tokens.

Leaves for each unit a file of ids in the dataset's token type and a file of document lengths. Documents of
fewer than `min_length` tokens, EOS included, are dropped here and counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from krill.flow import CommitLog
from krill.flow.commits import UnitFiles
from krill.pack import TokenRuns
from krill.prepare.context import Context
from krill.prepare.kept import KeptBlock, KeptUnits
from krill.prepare.needs import encode_cost
from krill.prepare.survivors import add_counts
from krill.tokenizer import Encoder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TOKENS = "tokens"
LENGTHS = "lengths"


@dataclass(frozen=True, slots=True)
class _Encoded:
    """What one block gave."""

    ids: NDArray[Any]
    lengths: NDArray[np.uint32]
    bytes_read: int
    counts: Mapping[str, int]
    tokens_dropped: int


def encode(context: Context, log: CommitLog, units: KeptUnits, encoder: Encoder, dtype: str) -> None:
    """Encode all units that `log` doesn't have."""
    min_length = context.config.preprocess.min_length

    def work(block: KeptBlock) -> _Encoded:
        return _encode_block(block, encoder, dtype, min_length)

    def weigh(block: KeptBlock) -> int:
        return encode_cost(block.nbytes)

    todo = ((position, blocks) for position, blocks in units if position not in log)
    in_flight = context.plan.share("blocks being encoded")
    current: _UnitRun | None = None
    try:
        for position, piece in context.map_grouped(work, todo, in_flight=in_flight, size=weigh):
            current = current or _UnitRun(position, log.begin(position, TOKENS, LENGTHS))
            if piece is None:
                context.unit_done(current.commit())
                current = None
            else:
                current.add(piece)
                context.progress.advance(piece.bytes_read)
    finally:
        if current is not None:
            current.files.abort()


def token_runs(log: CommitLog) -> TokenRuns:
    """The finished runs, for packing."""
    import numpy as np

    records = [(unit, record["tokens"], record["documents"]) for unit, record in log]
    units, tokens, documents = zip(*records, strict=True) if records else ((), (), ())
    return TokenRuns(
        log.path, np.array(units, np.uint64), np.array(tokens, np.int64), np.array(documents, np.int64)
    )


def _encode_block(block: KeptBlock, encoder: Encoder, dtype: str, min_length: int) -> _Encoded:
    from krill import _native

    batch, counts = block.read()
    text = batch.column("text")
    read = int(text.nbytes)
    ids, lengths = encoder.encode(text)
    ids = ids.astype(dtype, copy=False)
    keep = lengths >= max(1, min_length)
    if keep.all():
        return _Encoded(ids, lengths, read, counts, 0)
    kept_ids, kept_lengths = _native.select_runs(ids, lengths, keep.view("uint8"))
    too_few = {"too_few_tokens": int(len(lengths) - len(kept_lengths))}
    return _Encoded(kept_ids, kept_lengths, read, {**counts, **too_few}, len(ids) - len(kept_ids))


@dataclass(slots=True)
class _UnitRun:
    """The run of the unit being encoded."""

    position: int
    files: UnitFiles
    documents: int = 0
    tokens: int = 0
    tokens_dropped: int = 0
    bytes_read: int = 0
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, piece: _Encoded) -> None:
        """Append what a block gave."""
        self.files.write(TOKENS, piece.ids)
        self.files.write(LENGTHS, piece.lengths)
        self.documents += len(piece.lengths)
        self.tokens += len(piece.ids)
        self.tokens_dropped += piece.tokens_dropped
        self.bytes_read += piece.bytes_read
        add_counts(self.counts, piece.counts)

    def commit(self) -> int:
        """The unit is done; returns what it keeps on disk."""
        return self.files.commit(
            {
                "documents": self.documents,
                "tokens": self.tokens,
                "tokens_dropped": self.tokens_dropped,
                "bytes_read": self.bytes_read,
                "counts": self.counts,
            }
        )
