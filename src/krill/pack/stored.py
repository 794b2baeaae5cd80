"""Packed rows kept in plain files, to be read in another order.

A shard of rows is three raw little-endian files: the tokens, the lengths of documents' pieces as int32, and
for each row two int64, where it begins in the other two; one more pair says where they end. Held in memory:
the rows at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from krill.pack.permutation import Permutation
from krill.storage.commits import damaged

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from krill.pack.rows import Rows

TOKENS: Final = "tokens"
PIECES: Final = "pieces"
BEGINNINGS: Final = "beginnings"
_PAIR: Final = 16


def stored_row_files(rows: Iterator[Rows]) -> Iterator[tuple[str, NDArray[Any]]]:
    """What goes into each file, in turn, for rows that come some at a time."""
    import numpy as np

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
        import numpy as np

        self.tokens = tokens
        self._paths = paths
        self._first_rows = np.concatenate(([0], np.cumsum(shard_rows, dtype=np.int64)))
        self._dtype = np.dtype(dtype)
        self._order = order

    @property
    def rows(self) -> int:
        return int(self._first_rows[-1])

    def read(self, first: int, count: int, most: int) -> Iterator[Rows]:
        """Rows `first` to `first + count` of the new order, at most `most` at a time."""
        import numpy as np

        files = {name: _Files([path(name) for path in self._paths]) for name in (TOKENS, PIECES, BEGINNINGS)}
        for start in range(first, first + count, most):
            rows = self._order(np.arange(start, min(start + most, first + count), dtype=np.int64))
            shards = self._first_rows.searchsorted(rows, "right") - 1
            pairs = (
                files[BEGINNINGS]
                .read(
                    shards, (rows - self._first_rows[shards]) * _PAIR, np.full(len(rows), 2 * _PAIR), np.int64
                )
                .reshape(-1, 2, 2)
            )
            tokens, offsets = self._read(files[TOKENS], shards, pairs[:, :, 0], self._dtype)
            lengths, seq_offsets = self._read(files[PIECES], shards, pairs[:, :, 1], np.dtype(np.int32))
            yield tokens, offsets, lengths, seq_offsets.astype(np.int32)

    def _read(
        self, files: _Files, shards: NDArray[np.int64], ends: NDArray[np.int64], dtype: np.dtype[Any]
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The values between two ends in each row's shard, and where rows begin among them."""
        import numpy as np

        counts = ends[:, 1] - ends[:, 0]
        offsets = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        width = dtype.itemsize
        return files.read(shards, ends[:, 0] * width, counts * width, dtype), offsets


class _Files:
    """One file of each shard, read in any order by one thread."""

    def __init__(self, paths: list[Path]) -> None:
        from krill import _native

        self._paths = paths
        self._reader = _native.PieceReader([os.fsencode(path) for path in paths])

    def read(
        self, files: NDArray[np.int64], offsets: NDArray[np.int64], sizes: NDArray[np.int64], dtype: Any
    ) -> NDArray[Any]:
        """Pieces of the files, in bytes, one after the other."""
        import numpy as np

        from krill import _native

        out = np.empty(int(sizes.sum()) // np.dtype(dtype).itemsize, dtype)
        try:
            self._reader.read(files.astype(np.uint32), offsets, sizes, out.view(np.uint8))
        except _native.UnreadableFile as error:
            file, reason = error.args
            raise damaged(self._paths[file], f"can't be read: {reason}") from None
        return out
