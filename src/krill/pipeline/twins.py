"""Twins: which kept document a dropped duplicate is a copy of, for the few that are shown.

In: the scan's files of hashes or bands, and who survived. Out: examples of duplicates, and of each the first
kept document that is equal, or shares a band with it, if this run has one. Held in memory: a million flags
and a few thousand documents' numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from krill.pipeline.examples import DroppedPlace, ExampleSet, places_of
from krill.pipeline.surviving_units import KEEP, read_keep
from krill.storage import CommitLog
from krill.storage.commits import reading_artifact

_ROWS: Final = 2**14
# Bits of a number by which most others are told apart from those that are looked for.
_BITS: Final = 20


def duplicate_places(scanned: CommitLog, resolved: CommitLog) -> list[DroppedPlace]:
    """Of the documents that are not kept, those that are examples."""
    chosen = ExampleSet()
    for unit, record in scanned:
        dropped = read_keep(resolved.path(unit, KEEP), record["documents"]) == 0
        first = 0
        for number, block in enumerate(record["blocks"]):
            rows = np.flatnonzero(dropped[first : first + block["documents"]])
            if len(rows):
                chosen.add(KEEP, places_of(unit, number, first, rows, chosen.bound(KEEP)))
            first += block["documents"]
    return [DroppedPlace(*place) for place in chosen.to_json().get(KEEP, ())]


@dataclass(frozen=True, slots=True)
class Twins:
    """Looks through the files `name` of `scanned`: `width` numbers for each document, of which all have to be
    equal (a hash), or any (bands)."""

    scanned: CommitLog
    resolved: CommitLog
    name: str
    width: int
    every: bool

    def of(self, places: Sequence[DroppedPlace]) -> dict[DroppedPlace, DroppedPlace]:
        """The kept document of each duplicate, where there is one."""
        wanted = {place: self._numbers(place) for place in places}
        found: dict[DroppedPlace, DroppedPlace] = {}
        last = max((place.unit for place in places), default=-1)
        for unit in self.scanned.units():
            if unit > last or len(found) == len(wanted):
                break
            for row, numbers in self._candidates(unit, wanted):
                for place, own in wanted.items():
                    if place not in found and self._same(own, numbers):
                        found[place] = self._place(unit, row)
        return found

    def hashes(self) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.bool_]]]:
        """All numbers in the order of documents, and who is kept."""
        for unit, record in self.scanned:
            documents = record["documents"]
            keep = read_keep(self.resolved.path(unit, KEEP), documents).view(np.bool_)
            for first in range(0, documents, _ROWS):
                count = min(_ROWS, documents - first)
                yield self._read(unit, first, count), keep[first : first + count]

    def place_of(self, number: int) -> DroppedPlace:
        """Where a document of this run is; the first has number 0."""
        for unit, record in self.scanned:
            if number < record["documents"]:
                return self._place(unit, number)
            number -= record["documents"]
        raise ValueError("there is no document of this number")

    def _same(self, first: NDArray[np.uint64], second: NDArray[np.uint64]) -> bool:
        equal = first == second
        return bool(equal.all() if self.every else equal.any())

    def _candidates(
        self, unit: int, wanted: Mapping[DroppedPlace, NDArray[np.uint64]]
    ) -> Iterator[tuple[int, NDArray[np.uint64]]]:
        """Kept documents of a unit with a number that some duplicate has, of a hash the first of two."""
        columns = slice(0, 1 if self.every else None)
        known = np.sort(np.concatenate([numbers[columns] for numbers in wanted.values()]))
        flags = np.zeros(1 << _BITS, np.bool_)
        flags[known & np.uint64((1 << _BITS) - 1)] = True
        documents = self.scanned.record(unit)["documents"]
        keep = read_keep(self.resolved.path(unit, KEEP), documents).view(np.bool_)
        for first in range(0, documents, _ROWS):
            numbers = self._read(unit, first, min(_ROWS, documents - first))
            likely = flags[numbers[:, columns] & np.uint64((1 << _BITS) - 1)].any(axis=1)
            rows = np.flatnonzero(likely & keep[first : first + len(numbers)])
            found = numbers[rows, columns]
            nearest = known[np.minimum(np.searchsorted(known, found), len(known) - 1)]
            for row in rows[(nearest == found).any(axis=1)].tolist():
                yield first + row, numbers[row]

    def _numbers(self, place: DroppedPlace) -> NDArray[np.uint64]:
        blocks = self.scanned.record(place.unit)["blocks"]
        before = sum(block["documents"] for block in blocks[: place.block])
        numbers: NDArray[np.uint64] = self._read(place.unit, before + place.row, 1)[0]
        return numbers

    def _read(self, unit: int, first: int, count: int) -> NDArray[np.uint64]:
        path = self.scanned.path(unit, self.name)
        with reading_artifact(path):
            numbers = np.fromfile(path, np.uint64, count * self.width, offset=8 * self.width * first)
        return numbers.reshape(-1, self.width)

    def _place(self, unit: int, row: int) -> DroppedPlace:
        number = 0
        blocks: Sequence[Mapping[str, Any]] = self.scanned.record(unit)["blocks"]
        while row >= blocks[number]["documents"]:
            row -= blocks[number]["documents"]
            number += 1
        return DroppedPlace(0, unit, number, row)
