"""Where the rows of a CSV file begin, found without parsing their fields.

A newline ends a row unless it is quoted, and a quote opens only at the beginning of a field: so a stretch
that begins with a row can be cut at the end of any of its rows, as Arrow's parser would see them. Held in
memory: the offsets of the rows of a stretch.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class CsvRows:
    """The rows of files with one delimiter."""

    def __init__(self, delimiter: str) -> None:
        opening = rb'(?:\A|(?<=[%s\r\n]))"' % re.escape(delimiter).encode()
        # Two quotes inside are one that is meant; what is never closed reaches to the end.
        self._quoted = re.compile(opening + rb'[^"]*+(?:""[^"]*+)*+(?:"|\Z)')

    def find(self, stretch: bytes, *, final: bool) -> tuple[NDArray[np.int64], int]:
        """Where rows begin in a stretch that begins with one, and where the last of them ends.

        Empty rows are none. Unless the stretch is the file's `final` one, a row has to be seen to end.
        """
        data = np.frombuffer(stretch, np.uint8)
        breaks = self._unquoted(stretch, np.flatnonzero((data == ord("\n")) | (data == ord("\r"))))
        following = np.append(
            data[1:], 0 if final else ord("\n")
        )  # a return at the end may have its newline yet
        breaks = breaks[(data[breaks] == ord("\n")) | (following[breaks] != ord("\n"))]
        ends = breaks + 1
        if final and len(data) and (len(ends) == 0 or ends[-1] < len(data)):
            ends = np.append(ends, len(data))
        if len(ends) == 0:
            return np.empty(0, np.int64), 0
        starts = np.append(np.zeros(1, np.int64), ends[:-1])
        empty = (data[starts] == ord("\n")) | (data[starts] == ord("\r"))
        return starts[~empty], int(ends[-1])

    def _unquoted(self, stretch: bytes, breaks: NDArray[np.int64]) -> NDArray[np.int64]:
        spans = np.array([match.span() for match in self._quoted.finditer(stretch)], np.int64).reshape(-1, 2)
        if len(spans) == 0:
            return breaks
        before = np.searchsorted(spans[:, 0], breaks, "right") - 1
        outside: NDArray[np.bool_] = (before < 0) | (breaks >= spans[before, 1])
        return breaks[outside]
