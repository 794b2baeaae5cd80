"""Bloom dedup: a table of fixed size, which takes a few documents for copies that are not.

In: the hashes of each unit's documents, in input order. Out: a keep bit for each document. Held in memory:
the filter, whose size follows from the number of documents that it is made for and from the stated rate, and
one block of hashes. A copy is always found. A document that is not a copy is dropped with a probability that
grows as the filter fills, and reaches the stated rate when it holds as many documents as it was made for.

The filter has blocks of 512 bits, one cache line; each hash sets some bits of one block. Blocks are filled
unevenly, so that the rate is worked out over how many hashes a block may hold, and the filter made as much
larger as that takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from krill import _native
from krill.dedup.streams import UnitHashes, write_keep_files
from krill.dedup.tables import HASH_TABLES, READ_RECORDS

BLOCK_BITS = 512
MOST_BITS = 64


def dedup_bloom(
    hash_files: Sequence[Path],
    keep_files: Sequence[Path],
    *,
    expected_documents: int,
    false_positive_rate: float,
    prior: Sequence[Path] = (),
) -> int:
    """Write the keep bits of each unit; returns the number of documents that are not kept.

    Files are as those of `dedup_exact`. The rate holds for as many documents as expected, `prior` ones
    included.
    """
    stream = UnitHashes(hash_files, prior)
    bits, load = filter_shape(false_positive_rate)
    filter_ = _native.BloomFilter(filter_blocks(expected_documents, load), bits)

    def flags() -> Iterator[NDArray[np.uint8]]:
        for block in stream.blocks(READ_RECORDS):
            yield filter_.insert(block)

    return write_keep_files(flags(), stream.counts, keep_files, skip=stream.prior)


def bloom_bytes(expected_documents: int, rate: float) -> int:
    _, load = filter_shape(rate)
    return (
        filter_blocks(expected_documents, load) * BLOCK_BITS // 8
        + HASH_TABLES.read_bytes
        + HASH_TABLES.reserved
    )


def false_positives(load: float, bits: int) -> float:
    """The share of new hashes that are taken for seen, if blocks hold `load` hashes on average, each of which
    sets `bits` bits, drawn one by one. How many a block holds is Poisson-distributed."""
    held = np.arange(int(load + 12 * math.sqrt(load) + 12) + 1)
    log_factorials = np.cumsum(np.log(np.maximum(held, 1)))
    probability = np.exp(held * math.log(load) - load - log_factorials)
    filled = 1 - (1 - 1 / BLOCK_BITS) ** (bits * held)
    return float(probability @ np.polynomial.polynomial.polyval(filled, _distinct(bits)))


@cache
def _distinct(bits: int) -> list[float]:
    """The probability that so many draws from a block's bits give 0, 1, ... different ones."""
    chances = [1.0]
    for _ in range(bits):
        grown = [0.0] * (len(chances) + 1)
        for different, chance in enumerate(chances):
            grown[different] += chance * different / BLOCK_BITS
            grown[different + 1] += chance * (1 - different / BLOCK_BITS)
        chances = grown
    return chances


def filter_blocks(expected_documents: int, load: float) -> int:
    return max(1, math.ceil(expected_documents / load))


@cache
def filter_shape(rate: float) -> tuple[int, float]:
    """The bits that a hash sets and the hashes that a block may hold: as many as the rate allows."""
    if not 0 < rate < 1:
        raise ValueError(f"a rate is above 0 and below 1, not {rate}")
    # Uneven blocks need fewer bits than a filter in one piece, which does best with log2(1 / rate).
    most = min(math.ceil(-math.log2(rate)) + 1, MOST_BITS)
    best = max((_load(rate, bits), bits) for bits in range(max(1, most // 2), most + 1))
    return best[1], best[0]


def _load(rate: float, bits: int) -> float:
    """The most hashes for a block at which the rate holds, by bisection of the logarithm."""
    low, high = -50.0, math.log(BLOCK_BITS)
    for _ in range(40):
        middle = (low + high) / 2
        if false_positives(math.exp(middle), bits) <= rate:
            low = middle
        else:
            high = middle
    return math.exp(low)
