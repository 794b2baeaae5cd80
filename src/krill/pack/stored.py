"""Packed rows kept in plain files, to be read in another order.

A shard of rows is three raw little-endian files: the tokens, the lengths of documents' pieces as int32, and
for each row two int64, where it begins in the other two; one more pair says where they end. Held in memory:
the rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from krill.corpus.buffers import offsets_of
from krill.pack.permutation import Permutation
from krill.pack.rows import Rows
from krill.pack.token_files import PieceFiles

TOKENS: Final = "tokens"
PIECES: Final = "pieces"
BEGINNINGS: Final = "beginnings"


def stored_row_files(rows: Iterator[Rows]) -> Iterator[tuple[str, NDArray[Any]]]:
    """What goes into each file, in turn, for rows that come some at a time."""
    at = np.zeros(2, np.int64)
    for tokens, offsets, seq_lengths, seq_offsets in rows:
        beginnings = at + np.stack([offsets[:-1], seq_offsets[:-1]], axis=1)
        at += (len(tokens), len(seq_lengths))
        yield TOKENS, tokens
        yield PIECES, seq_lengths
        yield BEGINNINGS, beginnings
    yield BEGINNINGS, at


class StoredRows:
    """The rows of some shards, in the order that `order` gives them; `shard_rows` is how many each has."""

    def __init__(
        self,
        paths: Sequence[Callable[[str], Path]],
        shard_rows: Sequence[int],
        tokens: int,
        dtype: str,
        order: Permutation,
    ) -> None:
        self.tokens = tokens
        self._paths = paths
        self._first_rows = offsets_of(shard_rows)
        self._dtype = np.dtype(dtype)
        self._order = order

    @property
    def rows(self) -> int:
        return int(self._first_rows[-1])

    def read(self, first: int, count: int, most: int) -> Iterator[Rows]:
        files = {
            name: PieceFiles([path(name) for path in self._paths]) for name in (TOKENS, PIECES, BEGINNINGS)
        }
        for start in range(first, first + count, most):
            rows = self._order(np.arange(start, min(start + most, first + count), dtype=np.int64))
            shards = self._first_rows.searchsorted(rows, "right") - 1
            # Where a row begins in the other two files, and where the next one does.
            pairs = files[BEGINNINGS].read(
                shards, 2 * (rows - self._first_rows[shards]), np.full(len(rows), 4), np.int64
            )
            ends = pairs.reshape(-1, 2, 2)
            tokens, offsets = _read_rows(files[TOKENS], shards, ends[:, :, 0], self._dtype)
            lengths, seq_offsets = _read_rows(files[PIECES], shards, ends[:, :, 1], np.int32)
            yield tokens, offsets, lengths, seq_offsets.astype(np.int32)


def _read_rows(
    files: PieceFiles, shards: NDArray[np.int64], ends: NDArray[np.int64], dtype: Any
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The values between two ends in each row's shard, and where rows begin among them."""
    counts = ends[:, 1] - ends[:, 0]
    return files.read(shards, ends[:, 0], counts, dtype), offsets_of(counts)
