"""Connected components: which documents are connected by edges, and in which cluster each one is.

In: edges (document, smaller document) on disk. Out: for every document, in order, the smallest document of
its cluster and the cluster's size. Held in memory: while that fits the share, a bit and an eighth for every
document and 8 bytes for each that has an edge; beyond, edges and labels go through files in the spill folder.
Both ways give the same. Documents below `prior` count as seen before: they take part, but sizes leave them
out.

On disk, edges are replaced by shorter ones until every cluster is a star. Two steps take turns. In a large
star, each document hands the least of its neighbours (itself included) to its larger neighbours; in a small
star, to its smaller ones and itself. Neither joins what was apart nor parts what was joined, and when both
leave every edge as it is, every edge ends at the least of its cluster. That takes a number of rounds that
grows with the logarithm of the clusters' diameters. (Kiveris et al., "Connected Components in MapReduce and
Beyond", 2014.)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from krill import _native
from krill.dedup.spill import BothWays, KeyBits, RecordFile, Reversed, Spill
from krill.dedup.streams import HashStream
from krill.dedup.tables import GROUP_BYTES_PER_RECORD, TableLayout, visit_groups
from krill.storage.atomic import undo_on_error

Labels = tuple[NDArray[np.uint64], NDArray[np.uint32]]
"""The smallest document of each one's cluster, and the cluster's size."""

MEMBER_BYTES = 8
# One document of a range: its label and its size, and what indexing and counting make of them.
RANGE_BYTES_PER_DOCUMENT = 48
MOST_RANGES = 4096


def bitmap_bytes(documents: int) -> int:
    """What the bits of so many documents take, and the counts that find a document among them."""
    return (documents // 256 + 1) * 36


def least_range_share(documents: int) -> int:
    """The least share with which labels of so many documents fit, range by range."""
    return 2 * RANGE_BYTES_PER_DOCUMENT * -(-(1 << documents.bit_length()) // MOST_RANGES)


def find_clusters(
    edges: HashStream, documents: int, prior: int, layout: TableLayout, folder: Path
) -> Clusters:
    _native.trim()
    room = layout.share - layout.read_records * GROUP_BYTES_PER_RECORD - bitmap_bytes(documents)
    if room >= 0:
        components = _native.Components(documents)
        for block in edges.blocks(layout.read_records):
            components.mark(block)
        if components.members * MEMBER_BYTES <= room:
            return ClustersInMemory.of(components, edges, documents, prior, layout)
        del components
    return ClustersOnDisk.of(edges, documents, prior, layout, folder)


@dataclass(frozen=True, slots=True)
class ClustersInMemory:
    """`count` clusters have a document that is not kept, the largest has so many documents; `labels` gives
    those of all documents, in order, in blocks of any size, and is walked once."""

    components: _native.Components
    documents: int
    block: int
    count: int
    largest: int

    @classmethod
    def of(
        cls,
        components: _native.Components,
        edges: HashStream,
        documents: int,
        prior: int,
        layout: TableLayout,
    ) -> ClustersInMemory:
        """Join all edges, which were marked before."""
        for block in edges.blocks(layout.read_records):
            components.join(block)
        return cls(components, documents, layout.read_records, *components.count(prior))

    def labels(self) -> Iterator[Labels]:
        for first in range(0, self.documents, self.block):
            yield self.components.labels(first, min(self.block, self.documents - first))


@dataclass(frozen=True, slots=True)
class DocumentRanges:
    """Documents in ranges of equal length, each so short that its labels fit the share."""

    documents: int
    bits: KeyBits

    @classmethod
    def of(cls, documents: int, share: int) -> DocumentRanges:
        bits = max(1, documents.bit_length())
        width = 1
        while width < bits and (1 << (bits - width)) * RANGE_BYTES_PER_DOCUMENT > share:
            width += 1
        if 1 << width > MOST_RANGES:
            raise ValueError(f"a share of {share} bytes is too small for {documents} documents")
        return cls(documents, KeyBits(bits - width, width))

    @contextmanager
    def split(self, records: HashStream, layout: TableLayout, folder: Path) -> Iterator[Spill]:
        """Records (number, document) by the range of their document."""
        with Spill(records, self.bits, block_records=layout.split_records, folder=folder) as spill:
            spill.split()
            yield spill

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """The number of each range, its first document, and how many it has."""
        length = 1 << self.bits.shift
        for number in range(self.bits.partitions):
            first = number * length
            if first < self.documents:
                yield number, first, min(length, self.documents - first)


@dataclass(frozen=True, slots=True)
class ClustersOnDisk:
    """The same by ranges of documents: the smallest ones come from the stars, sizes from counting them."""

    ranges: DocumentRanges
    members: RecordFile
    sized: RecordFile
    layout: TableLayout
    folder: Path
    count: int
    largest: int

    @classmethod
    def of(
        cls, edges: HashStream, documents: int, prior: int, layout: TableLayout, folder: Path
    ) -> ClustersOnDisk:
        ranges = DocumentRanges.of(documents, layout.share // 2)
        members, sized = RecordFile(folder), RecordFile(folder)
        with shrink_to_stars(edges, layout, folder) as stars:
            _write_members(stars, ranges, members, layout, folder)
        clusters, largest = _write_sizes(members, ranges, prior, sized, layout, folder)
        return cls(ranges, members, sized, layout, folder, clusters, largest)

    def labels(self) -> Iterator[Labels]:
        with (
            self.members,
            self.sized,
            self.ranges.split(Reversed(self.members), self.layout, self.folder) as leaders,
            self.ranges.split(Reversed(self.sized), self.layout, self.folder) as sizes,
        ):
            for number, first, length in self.ranges:
                smallest = np.arange(first, first + length, dtype=np.uint64)
                size = np.ones(length, np.uint32)
                for block in leaders.partition(number).blocks(self.layout.read_records):
                    smallest[block[:, 1] - np.uint64(first)] = block[:, 0]
                for block in sizes.partition(number).blocks(self.layout.read_records):
                    size[block[:, 1] - np.uint64(first)] = block[:, 0]
                yield smallest, size


Clusters = ClustersInMemory | ClustersOnDisk


def _write_members(
    stars: RecordFile, ranges: DocumentRanges, members: RecordFile, layout: TableLayout, folder: Path
) -> None:
    """Each document that is not its cluster's smallest, once, with the smallest."""
    with ranges.split(Reversed(stars), layout, folder) as spill:
        for number, first, length in ranges:
            documents = np.arange(first, first + length, dtype=np.uint64)
            leaders = documents.copy()
            for block in spill.partition(number).blocks(layout.read_records):
                leaders[block[:, 1] - np.uint64(first)] = block[:, 0]
            led = np.flatnonzero(leaders != documents)
            members.append(np.column_stack((documents[led], leaders[led])))


def _write_sizes(
    members: RecordFile,
    ranges: DocumentRanges,
    prior: int,
    sized: RecordFile,
    layout: TableLayout,
    folder: Path,
) -> tuple[int, int]:
    """Each document of a cluster with the cluster's size; returns the number of clusters, and the size of the
    largest."""
    clusters = largest = 0
    with ranges.split(members, layout, folder) as spill:
        for number, first, length in ranges:
            followers = np.zeros(length, np.int64)
            is_head = np.zeros(length, bool)
            for block in spill.partition(number).blocks(layout.read_records):
                place = (block[:, 1] - np.uint64(first)).astype(np.int64)
                is_head[place] = True
                followers += np.bincount(place[block[:, 0] >= prior], minlength=length)
            heads = np.flatnonzero(is_head)
            clusters += int(np.count_nonzero(followers[heads]))
            sizes = followers
            sizes[heads] += heads + first >= prior
            largest = max(largest, int(sizes[heads].max(initial=0)))
            sized.append(np.column_stack((heads + first, sizes[heads])).astype(np.uint64))
            for block in spill.partition(number).blocks(layout.read_records):
                size = sizes[(block[:, 1] - np.uint64(first)).astype(np.int64)]
                sized.append(np.column_stack((block[:, 0], size.astype(np.uint64))))
    return clusters, largest


def shrink_to_stars(edges: HashStream, layout: TableLayout, folder: Path) -> RecordFile:
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


def _star(edges: HashStream, layout: TableLayout, folder: Path, *, large: bool) -> tuple[RecordFile, bool]:
    """One step; returns the new edges, and whether any is new."""
    out = RecordFile(folder)
    moved: list[bool] = []

    def visit(records: NDArray[np.uint64], least: NDArray[np.uint64]) -> None:
        new, changed = (_large if large else _small)(records[:, 0], records[:, 1], least)
        if changed:
            moved.append(True)
        if len(new):
            out.append(new)

    stream = BothWays(edges) if large else Reversed(edges)
    with undo_on_error(out.close):
        visit_groups(stream, layout, folder, visit)
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
