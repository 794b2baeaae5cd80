"""Lists of different lengths in flat arrays: picked, put in order, checked.

Comes in: flat values with where each list begins and how long it is. Goes out: the wanted lists one after the
other, and the `RowBatch` of some rows. Held in memory: what goes out, and eight bytes for each value picked.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from krill.dataset.row_batch import RowBatch
from krill.errors import InputError

Counts = npt.NDArray[np.int64]

MOST_IDS = 2**31


def ends_of(counts: Counts) -> Counts:
    """Where each list begins when they follow each other, and where the last ends."""
    ends = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=ends[1:])
    return ends


def pick_lists(values: npt.NDArray[Any], starts: Counts, counts: Counts) -> npt.NDArray[Any]:
    """The lists that begin at `starts`, one after the other."""
    ends = ends_of(counts)
    # Each value's place: its list's beginning, and how far it is into that list.
    places = np.arange(ends[-1]) + np.repeat(starts - ends[:-1], counts)
    return np.take(values, places)


def row_batch(
    name: str,
    rows: npt.NDArray[np.int64],
    tokens: npt.NDArray[Any],
    lengths: Counts,
    seq_lengths: npt.NDArray[np.int32] | None,
    seq_counts: Counts,
) -> RowBatch:
    """Rows of `lengths` with their pieces; a row that has none stated is one piece, unless it is empty.

    `rows` are their numbers, for messages.
    """
    _check_ids(name, rows, tokens, lengths)
    unstated = seq_counts == 0
    one_piece = unstated & (lengths > 0)
    if seq_lengths is None or unstated.all():
        pieces, counts = lengths[one_piece].astype(np.int32), one_piece.astype(np.int64)
    else:
        _check_sums(name, rows, lengths, seq_lengths, seq_counts)
        counts = seq_counts + one_piece
        pieces = np.empty(int(counts.sum()), np.int32)
        stated = np.repeat(~unstated, counts)
        pieces[stated] = seq_lengths
        pieces[~stated] = lengths[one_piece]
    return RowBatch(tokens, ends_of(lengths), pieces, ends_of(counts).astype(np.int32))


def _check_ids(name: str, rows: npt.NDArray[np.int64], tokens: npt.NDArray[Any], lengths: Counts) -> None:
    """Batches may be int32, where larger ids would come out as others."""
    if tokens.dtype.itemsize <= 2 or len(tokens) == 0 or 0 <= tokens.min() <= tokens.max() < MOST_IDS:
        return
    at = int(np.argmax((tokens < 0) | (tokens >= MOST_IDS)))
    row = int(rows[np.searchsorted(ends_of(lengths), at, side="right") - 1])
    raise InputError(
        f"row {row} of `{name}` has the id `{tokens[at]}`", hint=f"ids are from 0 to below {MOST_IDS:,}"
    )


def _check_sums(
    name: str,
    rows: npt.NDArray[np.int64],
    lengths: Counts,
    seq_lengths: npt.NDArray[np.int32],
    seq_counts: Counts,
) -> None:
    """Where lengths of pieces are stated they are positive and add up to the row's."""
    totals = np.concatenate([[0], np.cumsum(seq_lengths, dtype=np.int64)])
    ends = ends_of(seq_counts)
    sums = totals[ends[1:]] - totals[ends[:-1]]
    wrong = np.flatnonzero((seq_counts > 0) & (sums != lengths))
    if len(wrong):
        row, total, length = (int(each[wrong[0]]) for each in (rows, sums, lengths))
        raise InputError(
            f"`seq_lengths` of row {row} in `{name}` add up to {total}, but the row has {length} tokens",
            hint="remove the column `seq_lengths` if each row is one document",
        )
    if len(seq_lengths) and seq_lengths.min() < 1:
        at = int(np.argmax(seq_lengths < 1))
        row = int(rows[np.searchsorted(ends, at, side="right") - 1])
        raise InputError(
            f"`seq_lengths` of row {row} in `{name}` has the length {int(seq_lengths[at])}",
            hint="write the dataset with lengths of at least 1, or without the column `seq_lengths`",
        )
