"""Real documents with near-duplicates of known similarity, and what brute force says of every pair."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from krill import _native
from krill.corpus.buffers import text_buffers

RATES = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1)


def with_near_duplicates(texts: Sequence[str], copies: int, seed: int = 1) -> list[str]:
    """The texts, and changed copies of some, at each of several rates; in a random order."""
    draw = random.Random(seed)
    words = sorted({word for text in texts[:200] for word in text.split()})
    changed = [
        _changed(text, RATES[number % len(RATES)], words, draw) for number, text in enumerate(texts[:copies])
    ]
    together = [*texts, *changed]
    draw.shuffle(together)
    return together


def _changed(text: str, rate: float, words: Sequence[str], draw: random.Random) -> str:
    """A text in which so many of the words are left out, replaced, or followed by another."""
    out: list[str] = []
    for word in text.split(" "):
        chance = draw.random() / rate
        if chance >= 1:
            out.append(word)
        elif chance >= 2 / 3:
            out += (word, draw.choice(words))
        elif chance >= 1 / 3:
            out.append(draw.choice(words))
    return " ".join(out)


def similar_pairs(texts: Sequence[str], ngram: int, least: float) -> dict[tuple[int, int], float]:
    """The Jaccard similarity of every pair that has at least `least`, by counting what all have in common."""
    shingles, offsets = _native.shingle_sets(*text_buffers(pa.array(texts, pa.large_string())), ngram)
    sizes = np.diff(offsets)
    _, names = np.unique(shingles, return_inverse=True)
    order = np.argsort(names, kind="stable")
    holders = np.repeat(np.arange(len(texts)), sizes)[order]
    counts = np.bincount(names)
    starts = np.cumsum(counts) - counts
    found = {}
    for one in range(len(texts)):
        own = names[offsets[one] : offsets[one + 1]]
        # All places of all its shingles, one range after the other.
        begun = np.cumsum(counts[own]) - counts[own]
        places = np.repeat(starts[own] - begun, counts[own]) + np.arange(counts[own].sum())
        common = np.bincount(holders[places], minlength=len(texts))
        shares = common / (sizes + sizes[one] - common)
        found.update(
            {(one, other): shares[other] for other in np.flatnonzero(shares >= least).tolist() if other > one}
        )
    return found
