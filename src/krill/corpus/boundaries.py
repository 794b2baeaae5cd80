"""Where one record ends and the next begins, found without parsing.

JSON lines end at newlines; documents of plain text at a separator, matched from left to right without
overlap. A cut is exact only at the end of a separator that the reader, coming from the left, would match
too. If a separator can overlap itself (a blank line in three newlines), that depends on what precedes. So
cuts are made behind separators that no earlier one overlaps: these are matched wherever reading began.
`Boundaries` finds them in buffers, `next_boundary` in a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from krill import _native

# Steps to walk back through overlapping separators before matching from the left instead.
_PATIENCE = 64

_FIRST_WINDOW = 1 << 16
_LARGEST_WINDOW = 1 << 20


class Boundaries:
    """The ends of records that `separator` closes; with an empty one there are none."""

    def __init__(self, separator: bytes) -> None:
        self.separator = separator
        self._length = len(separator)
        self._pattern = re.compile(re.escape(separator))
        self._native = _native.Separator(separator)
        self.overlaps_itself = self._native.overlaps_itself

    def first_end(self, buffer: bytes | bytearray, begin: int = 0) -> int:
        """The first boundary in a buffer that begins with a record and has none before `begin`; -1 = none."""
        if not self.separator:
            return -1
        found = buffer.find(self.separator, begin)
        return -1 if found < 0 else found + self._length

    def last_end(self, buffer: bytes | bytearray, *, anchored: bool) -> int:
        """A boundary as late as possible in a buffer that, if `anchored`, begins with a record; -1 = none."""
        if not self.separator:
            return -1
        found = buffer.rfind(self.separator)
        for _ in range(_PATIENCE):
            if found < 0:
                return -1
            overlapped = self._overlapped_from(buffer, found)
            if overlapped < 0:
                decided = anchored or not self.overlaps_itself or found >= self._length - 1
                return found + self._length if decided else -1
            found = overlapped
        if not anchored:
            return -1
        return max((match.end() for match in self._pattern.finditer(buffer)), default=-1)

    def next_certain(self, buffer: bytes, begin: int) -> int:
        """The first boundary behind a separator at or after `begin` that none overlaps; -1 = none."""
        if self.overlaps_itself:
            return self._native.next_certain(buffer, begin)
        return self.first_end(buffer, begin)

    def _overlapped_from(self, buffer: bytes | bytearray, found: int) -> int:
        """The separator before `found` that reaches into it, or -1."""
        if not self.overlaps_itself:
            return -1
        return buffer.rfind(self.separator, max(0, found - self._length + 1), found + self._length - 1)


@cache
def boundaries_of(separator: bytes) -> Boundaries:
    return Boundaries(separator)


def next_boundary(
    boundaries: Boundaries, read: Callable[[int, int], bytes], offset: int, *, start: int, stop: int
) -> int:
    """The first certain boundary at or after `offset`, between `start`, where a record begins, and `stop`.

    It depends on the file alone, and rises with `offset`: so boundaries of a grid cut the records into groups
    of which each record is in exactly one.
    """
    if offset <= start:
        return start
    length = len(boundaries.separator)
    if length == 0:
        return stop
    # The separator may end exactly at `offset`; one that overlaps it begins up to length - 1 before it.
    begin = max(start, offset - length)
    low = max(start, begin - length + 1)
    window = _FIRST_WINDOW
    while low < stop:
        high = min(stop, max(begin, low) + window + 2 * length)
        end = boundaries.next_certain(read(low, high), begin - low)
        if end >= 0:
            return low + end
        if high == stop:
            break
        begin = high - length + 1
        low = max(start, begin - length + 1)
        window = min(window * 4, _LARGEST_WINDOW)
    return stop
