"""The order of sequences inside a window: computed a stretch at a time, never stored as a whole.

In: how many sequences, and a key. Out: which of them come at some numbers of the order. Held in memory: the
order of up to 16,384 sequences.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from krill.pack.permutation import Permutation

if TYPE_CHECKING:
    from numpy.typing import NDArray

ORDERED_AT_ONCE: Final = 1 << 14


class Order:
    """The order of `count` sequences: by a key, or as they are if there is none."""

    def __init__(self, count: int, key: tuple[int, ...] | None) -> None:
        self._count = count
        self._permutation = None if key is None else Permutation(count, *key)
        self._first = 0
        self._known: NDArray[np.int64] = np.empty(0, np.int64)

    def __call__(self, first: int, last: int) -> NDArray[np.int64]:
        """The sequences that are number `first` to `last` in the order."""
        if self._permutation is None:
            return np.arange(first, last)
        found = [self._piece(*bounds) for bounds in _cut(first, last, ORDERED_AT_ONCE)]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _piece(self, first: int, last: int) -> NDArray[np.int64]:
        assert self._permutation is not None
        chunk = first - first % ORDERED_AT_ONCE
        if chunk != self._first or not len(self._known):
            numbers = np.arange(chunk, min(chunk + ORDERED_AT_ONCE, self._count))
            self._first, self._known = chunk, self._permutation(numbers)
        return self._known[first - chunk : last - chunk]


def _cut(first: int, last: int, step: int) -> list[tuple[int, int]]:
    """[first, last) at multiples of `step`."""
    borders = [first, *range(first - first % step + step, last, step), last]
    return list(pairwise(borders))
