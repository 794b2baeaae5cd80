"""Sequences in an order that is computed: window after window of the stream, or all of it at once.

In: a stream of sequences. Out: any of them by its number in the shuffled order. A *window* is as many
sequences as the shuffle buffer holds; the order inside it is a keyed permutation of (seed, epoch, window). So
nothing about a half-used buffer has to be saved: it is read again and permuted again. A sequence never leaves
its window: neighbours end up a third of a window apart on average. Held in memory: the window, and the order
of up to 16,384 of its sequences.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from krill.errors import BudgetError
from krill.loading.stream.options import ORDERED_AT_ONCE
from krill.loading.stream.tokens import BEGINNING, Cursor, SequenceStream
from krill.pack.permutation import Permutation

# Sequences read between two checks whether all of them will fit.
_CHECK_EVERY: Final = 4096


class WindowOrder:
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


class ShuffleBuffer:
    """One window of the stream at a time, in the given matrix; `seeds` key the order, None leaves it.

    The sequences from `first` to `last` of the shuffled order are in memory.
    """

    def __init__(
        self, stream: SequenceStream, rows: NDArray[Any], seeds: tuple[int, ...] | None, window: int
    ) -> None:
        self._stream = stream
        self._rows = rows
        self._seeds = seeds
        self._window = window - 1
        self._begins = stream.cursor()
        self.first = self.last = 0  # of an empty window
        self.advance()

    def take(self, first: int, last: int) -> NDArray[Any]:
        """The sequences at these numbers, all in memory, as rows that the caller owns."""
        rows: NDArray[Any] = self._rows[self._order(first - self.first, last - self.first)]
        return rows

    def advance(self) -> bool:
        """Read the following ones instead; False if there are none."""
        begins = self._stream.cursor()
        count = self._stream.fill(self._rows)
        if count == 0:
            return False
        self._begins = begins
        self._window += 1
        self._order = WindowOrder(count, None if self._seeds is None else (*self._seeds, self._window))
        self.first = self._window * len(self._rows)
        self.last = self.first + count
        return True

    def resume_at(self, number: int) -> tuple[int, Cursor]:
        """The window to begin with, and where that is, so that the sequence at `number` comes next."""
        if number < self.last:
            return self._window, self._begins
        return self._window + 1, self._stream.cursor()


class HeldSequences:
    """The same of all sequences, which are in memory, in one order over all of them."""

    first = 0

    def __init__(self, rows: NDArray[Any], seeds: tuple[int, ...] | None) -> None:
        self._rows = rows
        self._order = WindowOrder(len(rows), None if seeds is None else (*seeds, 0))
        self.last = len(rows)

    def take(self, first: int, last: int) -> NDArray[Any]:
        rows: NDArray[Any] = self._rows[self._order(first, last)]
        return rows

    def advance(self) -> bool:
        return False

    def resume_at(self, number: int) -> tuple[int, Cursor]:
        return 0, BEGINNING


Sequences = ShuffleBuffer | HeldSequences


def hold_all(
    stream: SequenceStream,
    rows: NDArray[Any],
    expected: Callable[[int], int],
    refusal: Callable[[int], BudgetError],
) -> NDArray[Any]:
    """All sequences of a stream, or an error as soon as it is clear that `rows` can't take them.

    `expected` tells, of the number of sequences read so far, about how many there are. It may be far off, so
    only twice of what fits is taken for too many; beyond that, what doesn't fit is found when it comes.
    """
    filled = 0
    while filled < len(rows):
        took = stream.fill(rows[filled : filled + _CHECK_EVERY])
        filled += took
        if took < _CHECK_EVERY:
            break
        if expected(filled) > 2 * len(rows):
            raise refusal(expected(filled))
    spare = np.empty((1, rows.shape[1]), rows.dtype)
    if filled == len(rows) and stream.fill(spare):
        raise refusal(max(filled + 1, expected(filled)))
    return rows[:filled]
