"""Packed rows: what every packing gives, and `wrapped`, the packing that fills every row.

In: token files. Out: so many rows, and any range of them without those before it. Held in memory: the rows
that are asked for at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from krill.pack.token_files import TokenFiles, TokenStream

Rows = tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]
"""Tokens and where rows begin among them, the lengths of documents' pieces and where rows begin there."""


class PackedRows(Protocol):
    """The rows of one stream of documents."""

    @property
    def rows(self) -> int: ...

    @property
    def tokens(self) -> int: ...

    def read(self, first: int, count: int, most: int) -> Iterator[Rows]:
        """Rows `first` to `first + count`, at most `most` at a time."""


@dataclass(frozen=True, slots=True)
class WrappedRows:
    """`wrapped` packing: documents one after the other, cut every `sequence_len` tokens.

    100 % of every row is used and no token is lost but the final short row; documents are cut wherever a row
    ends. Equal to TRL's `wrapped` strategy on one whole batch. Held while reading: the rows at a time, and 24
    bytes for each unit.
    """

    files: TokenFiles
    dtype: str
    sequence_len: int

    @property
    def rows(self) -> int:
        return self.files.total // self.sequence_len

    @property
    def tokens(self) -> int:
        return self.rows * self.sequence_len

    def read(self, first: int, count: int, most: int) -> Iterator[Rows]:
        length = self.sequence_len
        stream = TokenStream(self.files, self.dtype, first * length)
        for done in range(0, count, most):
            rows = min(most, count - done)
            ids, ends = stream.read(rows * length)
            seq_offsets, seq_lengths = piece_lengths(ends, rows, length)
            yield ids, np.arange(rows + 1, dtype=np.int64) * length, seq_lengths, seq_offsets


def piece_lengths(
    document_ends: NDArray[np.int64], rows: int, sequence_len: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The lengths of the pieces that row and document borders make, as list offsets (rows + 1) and values.

    `document_ends` are ascending offsets in (0, rows * sequence_len] at which documents end.
    """
    row_ends = np.arange(1, rows + 1, dtype=np.int64) * sequence_len
    ends = np.sort(np.concatenate((document_ends, row_ends)))
    ends = ends[np.diff(ends, prepend=0) > 0]  # where both end, once
    lengths = np.diff(ends, prepend=0).astype(np.int32)
    offsets = np.zeros(rows + 1, np.int32)
    offsets[1:] = ends.searchsorted(row_ends, side="right")
    return offsets, lengths
