"""MinHash: the bands in which near-duplicates agree.

In: a column of documents. Out: `bands` numbers of 64 bits for each. Two documents that share the part *s* of
their shingles (runs of `ngram` words) agree in a given band with the probability s^rows, and in at least one
with 1 - (1 - s^rows)^bands. Held in memory: a few kilobytes beside the numbers, whatever a document's length.

What counts as a word is `oracles.dedup.reference_words`: lower case, no diacritics, no punctuation,
every number a 0. A document of fewer words than a shingle has is one shingle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from krill.corpus.buffers import text_buffers

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

BANDS = 14
ROWS = 8
NGRAM = 5
HASH_VERSION = 1
"""Numbers made by another version can't be compared; it goes up with any change of words, shingles or
hashes."""


@dataclass(frozen=True, slots=True)
class MinHash:
    """Bands of documents; 14 x 8 with 5-word shingles finds what shares about 0.72 of its shingles."""

    bands: int = BANDS
    rows: int = ROWS
    ngram: int = NGRAM

    def bands_of(self, text: pa.Array) -> NDArray[np.uint64]:
        """The bands of each document, shape (documents, bands)."""
        from krill import _native

        return _native.minhash_bands(*text_buffers(text), self.bands, self.rows, self.ngram)


def threshold_of(bands: int, rows: int) -> float:
    """The share of shingles in common at which two documents agree in one band on average; of pairs above it
    most are found, of pairs well below it few."""
    return float((1 / bands) ** (1 / rows))


def bands_and_rows(threshold: float, permutations: int = BANDS * ROWS) -> tuple[int, int]:
    """The bands and rows, at most `permutations` together, whose threshold is nearest to the stated one; of
    several, those whose curve is steepest."""
    if not 0 < threshold <= 1:
        raise ValueError(f"a threshold is above 0 and at most 1, not {threshold}")
    pairs = [(permutations // rows, rows) for rows in range(1, permutations + 1)]
    return min(pairs, key=lambda pair: (abs(threshold_of(*pair) - threshold), -pair[1]))
