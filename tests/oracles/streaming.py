"""The slow, obvious reference of streaming: what `StreamingDataLoader` gives, one token at a time.

In: documents as lists of ids. Out: batches as lists of sequences. Held in memory: everything.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from krill.pack.permutation import Permutation


def reference_sequences(documents: Iterable[list[int]], seq_len: int, stride: int) -> list[list[int]]:
    """The sequences of `seq_len` + 1 tokens that begin every `stride` tokens of all documents in a row."""
    tokens = [token for document in documents for token in document]
    sequences = []
    start = 0
    while start + seq_len + 1 <= len(tokens):
        sequences.append(tokens[start : start + seq_len + 1])
        start += stride
    return sequences


def reference_shuffled(
    sequences: list[list[int]], window: int | None, seed: int, epoch: int
) -> list[list[int]]:
    """Each window of so many sequences in an order of its own; without windows, all of them in one."""
    window = window or max(1, len(sequences))
    shuffled = []
    for number, first in enumerate(range(0, len(sequences), window)):
        part = sequences[first : first + window]
        order = Permutation(len(part), seed, epoch, number)(np.arange(len(part)))
        shuffled += [part[place] for place in order.tolist()]
    return shuffled


def reference_batches(
    sequences: list[list[int]], batch_size: int, rank: int = 0, world: int = 1
) -> list[list[list[int]]]:
    """A rank's batches: every `world`-th one, as long as there is one for each rank."""
    together = batch_size * world
    firsts = range(rank * batch_size, len(sequences) // together * together, together)
    return [sequences[first : first + batch_size] for first in firsts]
