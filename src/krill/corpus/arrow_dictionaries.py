"""The dictionaries of an Arrow file: which of them a record batch needs, and what they take.

A stream may replace a dictionary with every batch. A batch needs the last one before it, and the deltas that
were added to that one since; not all that the file has had until then. Held in memory: some numbers for each.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from krill.corpus.arrow_messages import Message


class Dictionaries:
    """Those of one file."""

    def __init__(self, found: Iterable[Message]) -> None:
        self._by_number: dict[int, list[Message]] = {}
        # Of each, where in its list the one stands that it adds to, or itself.
        self._first: dict[int, list[int]] = {}
        for each in found:
            kept = self._by_number.setdefault(each.dictionary, [])
            first = self._first.setdefault(each.dictionary, [])
            first.append(first[-1] if each.delta and first else len(kept))
            kept.append(each)

    def __bool__(self) -> bool:
        return bool(self._by_number)

    @property
    def held_bytes(self) -> int:
        """What a batch that needs the most of each holds: as decoded and, if compressed, as stored."""
        return sum(self._most(number) for number in self._by_number)

    def needed(self, start: int) -> list[tuple[int, int]]:
        """Where the dictionaries lie that a batch at byte `start` needs, in their order."""
        ranges = []
        for number, kept in self._by_number.items():
            behind = bisect_left(kept, start, key=lambda each: each.start)
            if behind:
                ranges += [(each.start, each.end) for each in kept[self._first[number][behind - 1] : behind]]
        return sorted(ranges)

    def _most(self, number: int) -> int:
        most = held = 0
        for at, each in enumerate(self._by_number[number]):
            if self._first[number][at] == at:
                held = 0
            held += each.decoded_bytes + (each.end - each.start if each.compressed else 0)
            most = max(most, held)
        return most
