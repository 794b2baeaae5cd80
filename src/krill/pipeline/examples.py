"""Examples: a few documents for each reason for a drop, the same ones wherever and however a run is done.

In: rows that were dropped, each with its reason. Out: of each reason the `MOST_EXAMPLES` whose hashes are
smallest. Held in memory: these, at most `TEXT_BYTES` of text each.

The hash is one of the document's place in the input, so neither the order in which documents come nor who
reads them matters: of several units' examples, the smallest are those of all their documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from krill import _native
from krill.corpus.arrays import as_numpy
from krill.corpus.buffers import text_buffers

MOST_EXAMPLES: Final = 20
MOST_REASONS: Final = 100
"""Of a stage; a user's own filters may give any number."""
TEXT_BYTES: Final = 2048
EXAMPLES: Final = "examples"
"""What a unit's record calls them."""
DROPPED: Final = "dropped"
"""The same of documents of which only the place is known."""
# Constants of SplitMix64.
_GAMMA, _FIRST, _SECOND = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_LARGEST: Final = 2**64


class Example(NamedTuple):
    """A document that was dropped; `bytes` is the size of its text, of which `text` may be the beginning."""

    hash: int
    position: int
    text: str
    bytes: int
    language: str | None = None


def mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of each number: the finalizer of SplitMix64."""
    with np.errstate(over="ignore"):
        values = values + _GAMMA
        values = (values ^ (values >> np.uint64(30))) * _FIRST
        values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))


class DroppedPlace(NamedTuple):
    """Where a document is that was dropped: its row in a block of a unit."""

    hash: int
    unit: int
    block: int
    row: int


class ExampleSet:
    """The examples of each reason so far, or their places: sequences that begin with a hash."""

    def __init__(self) -> None:
        self._found: dict[str, list[Sequence[Any]]] = {}

    def add(self, reason: str, examples: Iterable[Sequence[Any]]) -> None:
        """Of equal hashes, as pieces of one row have, those that come first are kept; of too many reasons,
        those that are first by name."""
        if reason not in self._found and len(self._found) >= MOST_REASONS:
            last = max(self._found)
            if reason > last:
                return
            del self._found[last]
        found = sorted([*self._found.get(reason, ()), *examples], key=lambda example: int(example[0]))
        self._found[reason] = found[:MOST_EXAMPLES]

    def add_all(self, found: Mapping[str, Iterable[Sequence[Any]]]) -> None:
        """Those of a block, or of a unit's record."""
        for reason, examples in found.items():
            self.add(reason, examples)

    def bound(self, reason: str) -> int:
        """Hashes from here on need no look: there are enough below."""
        found = self._found.get(reason, [])
        return int(found[-1][0]) if len(found) == MOST_EXAMPLES else _LARGEST

    def to_json(self) -> dict[str, list[Any]]:
        return {reason: list(map(list, self._found[reason])) for reason in sorted(self._found)}


def examples_of(rejected: Sequence[pa.RecordBatch], known: ExampleSet | None = None) -> dict[str, list[Any]]:
    """The examples among dropped rows; without those that can't be better than what is `known` already."""
    found = ExampleSet()
    for rows in rejected:
        hashes = mixed(as_numpy(rows.column("position"), "uint64"))
        for reason, members in grouped(rows.column("reason")):
            bound = _LARGEST if known is None else known.bound(reason)
            found.add(reason, _best(rows, hashes, members, bound))
    return found.to_json()


def places_of(
    unit: int, block: int, before: int, rows: NDArray[np.int64], bound: int
) -> Iterator[DroppedPlace]:
    """Of rows of a block, those that may be examples: with hashes below `bound`, the smallest. `before` is
    how many rows of the unit precede the block."""
    numbers = rows.astype(np.uint64) + np.uint64(before)
    with np.errstate(over="ignore"):
        hashes = mixed(mixed(np.array([unit], np.uint64)) + numbers)
    below = np.flatnonzero(hashes <= np.uint64(max(bound, 1) - 1))
    for at in below[np.argsort(hashes[below])[:MOST_EXAMPLES]].tolist():
        yield DroppedPlace(int(hashes[at]), unit, block, int(rows[at]))


def example_at(rows: pa.RecordBatch, row: int, hashed: int) -> Example:
    """One document of a batch."""
    offsets, data = text_buffers(rows.column("text"))
    first, last = int(offsets[row]), int(offsets[row + 1])
    text = data[first : min(last, first + TEXT_BYTES)].tobytes().decode("utf-8", "ignore")
    position = int(as_numpy(rows.column("position"), "uint64")[row])
    return Example(hashed, position, text, last - first, _language(rows, row))


def grouped(column: pa.Array) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Each string of a column, and its rows; `np.unique` would load another part of NumPy."""
    hashes = _native.hash_documents(*text_buffers(column))[:, 0]
    order = np.argsort(hashes, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(hashes[order])) + 1):
        if len(rows):
            yield column[int(rows[0])].as_py(), rows


def _best(
    rows: pa.RecordBatch, hashes: NDArray[np.uint64], members: NDArray[np.int64], bound: int
) -> Iterator[Example]:
    order = members[np.argsort(hashes[members], kind="stable")[:MOST_EXAMPLES]]
    for row, hashed in zip(order.tolist(), hashes[order].tolist(), strict=True):
        if hashed < bound:
            yield example_at(rows, row, hashed)


def _language(rows: pa.RecordBatch, row: int) -> str | None:
    at = rows.schema.get_field_index("language")
    if at < 0 or not pa.types.is_large_string(rows.schema.field(at).type):
        return None
    found = rows.column(at)[row].as_py()
    return None if found is None else str(found)[:TEXT_BYTES]
