"""Runs of tokens to sequences of one length, each beginning `stride` tokens after the one before.

In: token runs, in order. Out: rows of a matrix, and a cursor that tells where the next one begins. Held in
memory: the run at hand and what of those before it has not gone into a sequence yet.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from krill.loading.stream.tokens import Place, TokenRun

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a sequence begins: so many tokens after a block does, perhaps in one of those that follow it."""

    place: Place
    tokens: int


BEGINNING: Final = Cursor(Place(0, 0, 0), 0)


class SequenceStream:
    """Sequences of `length` tokens from a cursor on; `runs` must begin with the block at its place."""

    def __init__(
        self, runs: Generator[TokenRun, None, None], start: Cursor, *, length: int, stride: int, dtype: str
    ) -> None:
        self.counts: Counter[str] = Counter()
        """What was read so far: `documents`, `empty` ones among them, `tokens`, and what else was noted."""
        self._runs = runs
        self._length = length
        self._stride = stride
        self._tokens: NDArray[Any] = np.empty(0, dtype)
        self._begins = 0  # of `_tokens`, counted from the start of the first block
        self._next = start.tokens  # where the next sequence begins, likewise
        self._read = 0  # tokens of all runs that were read
        self._places = deque([(0, start.place)])  # where runs begin that the next sequence may begin in

    def fill(self, rows: NDArray[Any]) -> int:
        """Write the next sequences into the rows of a matrix; fewer than there are rows only at the end."""
        filled = 0
        while filled < len(rows):
            ready = self._ready()
            if ready == 0:
                if not self._read_run():
                    break
                continue
            take = min(ready, len(rows) - filled)
            sequences = sliding_window_view(self._tokens[self._next - self._begins :], self._length)
            rows[filled : filled + take] = sequences[:: self._stride][:take]
            self._next += take * self._stride
            filled += take
        return filled

    def cursor(self) -> Cursor:
        """Where the next sequence begins."""
        while len(self._places) > 1 and self._places[1][0] <= self._next:
            self._places.popleft()
        begins, place = self._places[0]
        return Cursor(place, self._next - begins)

    def close(self) -> None:
        """Stop reading."""
        self._runs.close()

    def _ready(self) -> int:
        """Sequences that lie wholly in what was read."""
        left = self._begins + len(self._tokens) - self._next - self._length
        return left // self._stride + 1 if left >= 0 else 0

    def _read_run(self) -> bool:
        run = next(self._runs, None)
        if run is None:
            return False
        self._places.append((self._read, run.place))
        self._read += len(run.ids)
        self.counts.update(run.counts)
        passed = min(self._next - self._begins, len(self._tokens))
        self._tokens = np.concatenate((self._tokens[passed:], run.ids))
        self._begins += passed
        self.cursor()  # forgets runs that are done with
        return True
