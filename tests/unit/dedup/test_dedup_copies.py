"""The largest groups of equal documents are the reference's, or those of which there is no doubt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from krill.dedup.copies import LEAST_COPIES, MOST_COUNTED, Blocks, largest_copies
from oracles.dedup import reference_largest
from properties import tried

# Two of them with neighbouring first halves, two with the same second half.
HASHES = np.random.default_rng(5).integers(0, 2**64, (60, 2), np.uint64)
HASHES[1, 0], HASHES[3, 1] = HASHES[0, 0] + 1, HASHES[2, 1]


def first_of(documents: Sequence[int]) -> list[int]:
    """For each document the number of the first that is equal."""
    seen: dict[int, int] = {}
    return [seen.setdefault(document, number) for number, document in enumerate(documents)]


def blocks_of(documents: Sequence[int], seen: int, size: int) -> Blocks:
    """Hashes behind the first `seen` documents, `size` at a time."""
    kept = np.array([first == number for number, first in enumerate(first_of(documents))], np.bool_)[seen:]
    hashes = HASHES[np.array(documents[seen:], np.int64)]

    def blocks() -> Iterator[tuple[NDArray[np.uint64], NDArray[np.bool_]]]:
        for first in range(0, len(hashes), size):
            yield hashes[first : first + size], kept[first : first + size]

    return blocks


def expected(documents: Sequence[int], seen: int) -> list[tuple[int, list[int]]]:
    found = reference_largest(first_of(documents), seen)
    return [(size, list(first)) for size, first in found if size >= LEAST_COPIES]


MANY = st.lists(st.integers(0, 59), max_size=400)


@tried(200)
@given(MANY, st.integers(0, 50), st.integers(1, 100))
def test_they_are_the_references(documents: list[int], seen: int, size: int) -> None:
    seen = min(seen, len(documents))
    assert largest_copies(blocks_of(documents, seen, size)) == expected(documents, seen)


@tried(200)
@given(MANY, st.integers(0, 50), st.integers(1, 100), st.integers(1, 12))
def test_where_some_are_forgotten_the_first_of_the_reference_are_left(
    documents: list[int], seen: int, size: int, most: int
) -> None:
    seen = min(seen, len(documents))
    found = largest_copies(blocks_of(documents, seen, size), most)
    assert found == expected(documents, seen)[: len(found)]
    assert found == largest_copies(blocks_of(documents, seen, size + 7), most)  # blocks make no difference


def test_a_group_that_is_most_of_all_copies_is_found_among_very_many() -> None:
    """Pairs, more than are counted, around a group that has a tenth of all copies."""
    pairs = np.random.default_rng(7).integers(0, 2**64, (3 * MOST_COUNTED, 2), np.uint64)
    large = np.broadcast_to(np.uint64(9), (len(pairs) // 9, 2))
    copies = np.concatenate([pairs, large])
    np.random.default_rng(8).shuffle(copies)
    hashes = np.concatenate([pairs, np.full((1, 2), 9, np.uint64), copies])
    kept = np.arange(len(hashes)) < len(pairs) + 1

    def blocks() -> Iterator[tuple[NDArray[np.uint64], NDArray[np.bool_]]]:
        for first in range(0, len(hashes), 1000):
            yield hashes[first : first + 1000], kept[first : first + 1000]

    ((size, first),) = largest_copies(blocks)
    assert size == len(large) + 1
    assert first == [len(pairs), *(len(pairs) + 1 + np.flatnonzero((copies == 9).all(axis=1))[:3])]
