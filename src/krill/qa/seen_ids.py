"""Ids that came before.

In: ids, in order. Out: which of them are new. Held in memory: a 128-bit hash of each, and a table
of them that doubles when it is full; both within the share that is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from krill import _native
from krill.corpus.buffers import text_buffers, text_column_of
from krill.errors import BudgetError

_FIRST_TABLE: Final = 1 << 20
_HASH_BYTES: Final = 16


class SeenIds:
    """A set of ids in at most `most_bytes` bytes."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._hashes: list[npt.NDArray[np.uint64]] = []
        self._table = _native.HashSet(_FIRST_TABLE)

    @staticmethod
    def bytes_for(ids: int) -> int:
        """Memory for so many ids: their hashes, and a table of two to four times their size."""
        return 2 * _FIRST_TABLE + ids * _HASH_BYTES * 4

    def add(self, ids: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Whether each of the ids is new."""
        hashes = _native.hash_documents(*text_buffers(text_column_of(ids)))
        if len(self._table) + len(hashes) > self._table.max_keys:
            self._grow(len(self._table) + len(hashes))
        new = self._table.insert(hashes).astype(bool)
        self._hashes.append(hashes if new.all() else hashes[new])
        return new

    def _grow(self, keys: int) -> None:
        size = self._table.nbytes
        per_key = size / self._table.max_keys
        while size / per_key < keys:
            size *= 2
        held = keys * _HASH_BYTES
        if size + held > self._most:
            raise BudgetError(
                f"the ids of {keys:,} questions take {size + held:,} bytes,"
                f" and the budget leaves {self._most:,}",
                hint="give more --memory",
            )
        self._table = _native.HashSet(size)
        for hashes in self._hashes:
            self._table.insert(hashes)
