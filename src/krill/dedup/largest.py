"""The largest clusters of near-duplicates, and their first documents: exact, in one pass.

In: blocks of labels, the smallest document of each document's cluster and the cluster's size, in order. Out:
of the clusters whose smallest document is of this run, the largest, of equal ones the first. Held in memory:
a few numbers for each of these.

A cluster is found at its smallest document, before all its others; one that is among the largest at the end
has been so ever since, and none of its documents was missed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

MOST_CLUSTERS: Final = 5
MOST_DOCUMENTS: Final = 4


@dataclass(slots=True)
class LargestClusters:
    """The largest so far, by their smallest documents: sizes, and the first documents."""

    _sizes: dict[int, int] = field(default_factory=dict)
    _documents: dict[int, list[int]] = field(default_factory=dict)

    def add(self, first: int, smallest: NDArray[Any], sizes: NDArray[Any], prior: int) -> None:
        """Documents from number `first` on; those below `prior` are not of this run."""
        numbers = np.arange(first, first + len(smallest), dtype=np.uint64)
        least = min(self._sizes.values()) if len(self._sizes) == MOST_CLUSTERS else 1
        heads = np.flatnonzero((smallest == numbers) & (numbers >= prior) & (sizes > least))
        largest = heads[np.argsort(-sizes[heads].astype(np.int64), kind="stable")[:MOST_CLUSTERS]]
        self._sizes |= {first + int(row): int(sizes[row]) for row in largest}
        kept = sorted(self._sizes, key=lambda head: (-self._sizes[head], head))[:MOST_CLUSTERS]
        self._sizes = {head: self._sizes[head] for head in kept}
        self._documents = {head: self._documents.get(head, []) for head in kept}
        for head, documents in self._documents.items():
            missing = MOST_DOCUMENTS - len(documents)
            if missing:
                rows = np.flatnonzero(smallest == head)[:missing]
                documents += [first + int(row) for row in rows]

    def found(self, prior: int) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """The size of each and its first documents, counted from the first of this run."""
        return tuple(
            (size, tuple(document - prior for document in self._documents[head]))
            for head, size in self._sizes.items()
        )
