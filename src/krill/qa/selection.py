"""Which segments of a long document are taught, if not all.

Comes in: how many segments each document has, and which have the answer. Goes out: where the chosen run
begins. What is drawn depends on seed, epoch and document alone, never on who else is in the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Strategy = Literal["answer_centered", "random_continuous", "first_n"]
STRATEGIES: Final = ("answer_centered", "random_continuous", "first_n")


def choose_begins(
    strategy: Strategy,
    counts: Numbers,
    most: int,
    *,
    answered: Callable[[int], Sequence[int]],
    documents: Numbers,
    key: tuple[int, int],
) -> Numbers:
    """The first segment to take of each document, of which at most `most` are taken in a row.

    `answered` gives the segments with the answer, of the document at a place; `key` is seed and epoch.
    """
    room = np.maximum(counts - most, 0)
    if strategy == "first_n":
        return np.zeros(len(counts), np.int64)
    if strategy == "random_continuous":
        drawn = _mixed(_mixed(np.uint64(key[0] % 2**64), np.uint64(key[1])), documents.astype(np.uint64))
        return (drawn % (room + 1).astype(np.uint64)).astype(np.int64)
    begins = np.zeros(len(counts), np.int64)
    for place in np.flatnonzero(room).tolist():
        segments = answered(place)
        if segments:
            middle = segments[len(segments) // 2]
            begins[place] = min(max(middle - (most - 1) // 2, 0), int(room[place]))
    return begins


def _mixed(
    seed: npt.NDArray[np.uint64] | np.uint64, numbers: npt.NDArray[np.uint64] | np.uint64
) -> npt.NDArray[np.uint64]:
    """Numbers in which nothing of the order of `numbers` is left: the finaliser of SplitMix64."""
    with np.errstate(over="ignore"):
        mixed = np.asarray(seed + (np.asarray(numbers) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15))
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        return np.asarray(mixed ^ (mixed >> np.uint64(31)), np.uint64)
