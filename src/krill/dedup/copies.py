"""The largest groups of equal documents among very many, in little memory: exact, or left out.

In: the hashes of all documents with what is kept of them, in input order, twice. Out: the largest groups, of
equal ones the first: how many documents, and the first of them. Held in memory: `MOST_COUNTED` hashes with
their counts, twice while some are added, and one block of hashes.

The first pass counts the hashes of documents that are not kept. When there are too many different ones, the
least frequent are forgotten, and what is left loses as much as the first of those had (Misra and Gries 1982;
in blocks, Agarwal et al. 2012): none of what was forgotten is more frequent than the sum of these losses. The
second pass counts those that are left exactly. A group that is larger than that sum is certainly among the
largest; one that is not is left out. Up to `MOST_COUNTED` different hashes nothing is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from krill.dedup.largest import MOST_CLUSTERS, MOST_DOCUMENTS

MOST_COUNTED: Final = 1 << 13
LEAST_COPIES: Final = 3
"""Documents of a group that is shown: a pair is an example like any other."""
# Bits of a hash by which most others are told apart from those that are counted.
_BITS: Final = 20

Blocks = Callable[[], Iterator[tuple[NDArray[np.uint64], NDArray[np.bool_]]]]
"""Hashes, shape (n, 2), and whether their documents are kept, from the beginning each time."""


def largest_copies(blocks: Blocks, most_counted: int = MOST_COUNTED) -> list[tuple[int, list[int]]]:
    """The size of each group of at least `LEAST_COPIES` whose first document is kept, and the numbers of its
    first documents."""
    hashes, forgotten = _frequent(blocks, most_counted)
    if not len(hashes):
        return []
    dropped, firsts = _counted(blocks, hashes)
    least = max(forgotten, LEAST_COPIES - 2)
    certain = np.flatnonzero((dropped > least) & (firsts[:, 0] >= 0))
    ordered = certain[np.lexsort((firsts[certain, 0], -dropped[certain]))][:MOST_CLUSTERS]
    return [
        (int(dropped[group]) + 1, [int(number) for number in firsts[group] if number >= 0])
        for group in ordered
    ]


def _frequent(blocks: Blocks, most: int) -> tuple[NDArray[np.uint64], int]:
    """The most frequent hashes of documents that are not kept, sorted, and the most that another may have."""
    hashes, counts = np.empty((0, 2), np.uint64), np.empty(0, np.int64)
    forgotten = waiting = 0
    added: list[NDArray[np.uint64]] = []
    for block, kept in blocks():
        dropped = block[~kept]
        while len(dropped):
            added.append(dropped[: most - waiting])
            dropped = dropped[most - waiting :]
            waiting += len(added[-1])
            if waiting == most:
                hashes, counts, lost = _merged(hashes, counts, added, most)
                forgotten += lost
                waiting = 0
                added = []
    hashes, _, lost = _merged(hashes, counts, added, most)
    return hashes, forgotten + lost


def _merged(
    hashes: NDArray[np.uint64], counts: NDArray[np.int64], added: list[NDArray[np.uint64]], most: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64], int]:
    """Sorted hashes and their counts with some more, and what all have lost so that `most` are left."""
    hashes = np.concatenate([hashes, *added])
    counts = np.concatenate([counts, np.ones(len(hashes) - len(counts), np.int64)])
    order = np.lexsort((hashes[:, 1], hashes[:, 0]))
    hashes, counts = hashes[order], counts[order]
    first = np.flatnonzero(np.r_[True, (hashes[1:] != hashes[:-1]).any(axis=1)][: len(hashes)])
    hashes, counts = hashes[first], np.add.reduceat(counts, first) if len(first) else counts
    if len(hashes) <= most:
        return hashes, counts, 0
    lost = int(np.partition(counts, -most - 1)[-most - 1])
    left = counts > lost
    return hashes[left], counts[left] - lost, lost


def _counted(blocks: Blocks, hashes: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many documents with each of these sorted hashes are not kept; and the numbers of the one that is
    kept and of the first others, -1 where there are none."""
    flags = np.zeros(1 << _BITS, np.bool_)
    flags[hashes[:, 0] & np.uint64((1 << _BITS) - 1)] = True
    dropped = np.zeros(len(hashes), np.int64)
    firsts = np.full((len(hashes), MOST_DOCUMENTS), -1, np.int64)
    number = 0
    for block, kept in blocks():
        rows = np.flatnonzero(flags[block[:, 0] & np.uint64((1 << _BITS) - 1)])
        groups = _places(hashes, block[rows])
        rows, groups = rows[groups >= 0], groups[groups >= 0]
        own = kept[rows]
        firsts[groups[own], 0] = number + rows[own]
        rows, groups = rows[~own], groups[~own]
        # Behind those of earlier blocks, in their order.
        order = np.argsort(groups, kind="stable")
        rows, groups = rows[order], groups[order]
        begins = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]][: len(groups)])
        within = np.arange(len(groups)) - np.repeat(begins, np.diff(np.r_[begins, len(groups)]))
        slots = dropped[groups] + within + 1
        early = slots < MOST_DOCUMENTS
        firsts[groups[early], slots[early]] = number + rows[early]
        dropped += np.bincount(groups, minlength=len(hashes))
        number += len(block)
    return dropped, firsts


def _places(hashes: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> NDArray[Any]:
    """Where each hash stands among sorted ones, -1 if it does not. Of two that differ in their second half
    alone, which chance never makes, the later one may not be found."""
    places = np.searchsorted(hashes[:, 0], wanted[:, 0])
    places[places == len(hashes)] = 0
    places[(hashes[places] != wanted).any(axis=1)] = -1
    return places
