"""Documents, put together again from the rows that they were packed into.

In: batches of rows with `seq_lengths`. Out: where documents end in them, or the documents themselves. Held in
memory: one batch, and of a document that continues in the next batch its tokens so far.

A row's last piece continues in the next row if three things hold: rows are in the order of the documents
(`packing` is `wrapped` or `none`, and `shuffle` is off), the row is full, and the piece does not end with
EOS, which ends every document. Without an EOS nothing can tell, and every piece is a document. So is every
piece of `bfd`, which sorts the pieces of long documents apart. The first row of a source that was packed on
its own never continues what comes before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from krill.dataset.rows import RowBatch
from krill.errors import BudgetError, InputError


@dataclass(frozen=True, slots=True)
class Joining:
    """How documents continue over rows; `eos_id` None: they never do.

    `first_rows` are the ascending numbers of the rows with which sources begin.
    """

    sequence_len: int
    eos_id: int | None
    first_rows: tuple[int, ...] = (0,)

    def continues(self, batch: RowBatch, first_row: int) -> npt.NDArray[np.bool_]:
        """Which rows' last pieces continue in the next row; `first_row` is the batch's first."""
        if self.eos_id is None or batch.rows == 0:
            return np.zeros(batch.rows, np.bool_)
        full = np.diff(batch.offsets) == self.sequence_len
        continued = full & (batch.tokens[batch.offsets[1:] - 1] != self.eos_id)
        before_source = np.array(self.first_rows, np.int64) - 1 - first_row
        continued[before_source[(before_source >= 0) & (before_source < batch.rows)]] = False
        return np.asarray(continued, np.bool_)


@dataclass(frozen=True, slots=True)
class EndedTokens:
    """A batch's tokens and where documents end in them; what follows the last end continues in the next."""

    tokens: npt.NDArray[Any]
    ends: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DocumentBatch:
    """Whole documents: document `i` is `tokens[offsets[i]:offsets[i + 1]]`."""

    tokens: npt.NDArray[Any]
    offsets: npt.NDArray[np.int64]


def ended_tokens(batches: Iterable[RowBatch], joining: Joining) -> Iterator[EndedTokens]:
    first_row = 0
    for batch in batches:
        yield EndedTokens(batch.tokens, _document_ends(batch, first_row, joining))
        first_row += batch.rows


def documents(batches: Iterable[RowBatch], joining: Joining, longest: int) -> Iterator[DocumentBatch]:
    """All documents, whole; one that continues after more than `longest` tokens is refused.

    The last one may have been cut by packing, which drops what does not fill a row.
    """
    begun: npt.NDArray[Any] | None = None
    for batch in ended_tokens(batches, joining):
        tokens, ends = batch.tokens, batch.ends
        if begun is not None:
            tokens, ends = np.concatenate((begun, tokens)), ends + len(begun)
        end = int(ends[-1]) if len(ends) else 0
        if end:
            yield DocumentBatch(tokens[:end], np.concatenate((np.zeros(1, np.int64), ends)))
        begun = tokens[end:].copy() if end < len(tokens) else None
        if begun is not None and len(begun) > longest:
            raise BudgetError(
                f"a document has more than {longest:,} tokens, and a line holds a whole document",
                hint="give a larger --memory, or write a line for each row: --lines rows",
            )
    if begun is not None:
        yield DocumentBatch(begun, np.array([0, len(begun)], np.int64))


def _document_ends(batch: RowBatch, first_row: int, joining: Joining) -> npt.NDArray[np.int64]:
    ends = np.cumsum(batch.seq_lengths, dtype=np.int64)
    last_pieces = batch.seq_offsets[1:].astype(np.int64) - 1
    _check_lengths(batch, first_row, ends, last_pieces)
    ending = np.ones(len(ends), np.bool_)
    ending[last_pieces] = ~joining.continues(batch, first_row)
    return ends[ending]


def _check_lengths(
    batch: RowBatch, first_row: int, ends: npt.NDArray[np.int64], last_pieces: npt.NDArray[np.int64]
) -> None:
    """Refuse rows whose lengths were changed: documents would be cut at random places."""
    empty = np.diff(batch.seq_offsets) < 1
    wrong = empty | (ends[np.where(empty, 0, last_pieces)] != batch.offsets[1:]) if len(ends) else empty
    if wrong.any():
        row = first_row + int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"row {row:,}: its `seq_lengths` don't add up to its tokens",
            hint="`krill validate` names the file; copy it again, or write the dataset with --overwrite",
        )
