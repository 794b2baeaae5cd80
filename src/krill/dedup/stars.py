"""Connected components out of core: edges are replaced by shorter ones until every cluster is a star.

In: edges (document, smaller document) on disk. Out: edges from every document of a cluster to its smallest
one, some of them more than once. Held in memory: no more than the share that was given.

Two steps take turns. In a large star, each document hands the least of its neighbours (itself included) to
its larger neighbours; in a small star, to its smaller ones and itself. Neither joins what was apart nor parts
what was joined, and when both leave every edge as it is, every edge ends at the least of its cluster. That
takes a number of rounds that grows with the logarithm of the clusters' diameters. (Kiveris et al., "Connected
Components in MapReduce and Beyond", 2014.)
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from krill.dedup.groups import GroupLayout, tell_groups
from krill.dedup.records import BothWays, RecordFile, Reversed
from krill.dedup.streams import HashStream


def stars_of(edges: HashStream, layout: GroupLayout, folder: Path) -> RecordFile:
    """The stars of all clusters; the caller closes the file."""
    smaller: RecordFile | None = None
    while True:
        larger, moved = _star(edges if smaller is None else smaller, layout, folder, large=True)
        if smaller is not None:
            smaller.close()
        smaller, moved_again = _star(larger, layout, folder, large=False)
        larger.close()
        if not moved and not moved_again:
            return smaller


def _star(edges: HashStream, layout: GroupLayout, folder: Path, *, large: bool) -> tuple[RecordFile, bool]:
    """One step; returns the new edges, and whether any is new."""
    out = RecordFile(folder)
    moved: list[bool] = []

    def tell(records: NDArray[np.uint64], least: NDArray[np.uint64]) -> None:
        new, changed = (_large if large else _small)(records[:, 0], records[:, 1], least)
        if changed:
            moved.append(True)
        if len(new):
            out.append(new)

    stream = BothWays(edges) if large else Reversed(edges)
    try:
        tell_groups(stream, layout, folder, tell)
    except BaseException:
        out.close()
        raise
    return out, bool(moved)


def _large(
    neighbour: NDArray[np.uint64], document: NDArray[np.uint64], least: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], bool]:
    """Larger neighbours get an edge to the least of the document and all its neighbours."""
    larger = neighbour > document
    least = np.minimum(least, document)[larger]
    return np.column_stack((neighbour[larger], least)), bool((least != document[larger]).any())


def _small(
    neighbour: NDArray[np.uint64], document: NDArray[np.uint64], least: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], bool]:
    """Smaller neighbours, and the document itself, get an edge to the least of them."""
    is_least = neighbour == least
    new = np.column_stack((np.where(is_least, document, neighbour), least))
    return new, not bool(is_least.all())
