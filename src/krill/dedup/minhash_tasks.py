"""MinHash dedup as tasks that need nothing but files: what is kept is what `dedup_minhash` keeps.

In: the band files of units, which are cut into groups of consecutive units. Out: a keep bit for each document
and, if wanted, its cluster. Held in memory by a task: no more than its share, and a path and 16 bytes for
each file that it reads.

1. Split, a task for each group: its records (document, band) by partition, in one file.
2. Answer, a task for each partition: documents with an equal band form a group, and each has an edge to the
   group's smallest; edges in one file.
3. Cluster, one task: documents that edges connect, over however many others; the smallest is kept.

Documents that were seen before form groups of their own, which come first: their numbers are the smallest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from krill import _native
from krill.dedup.components import find_clusters
from krill.dedup.minhash import MinhashResult, edges_of, write_clusters
from krill.dedup.shuffle import (
    SegmentStream,
    ShufflePlan,
    plan_shuffle,
    width_of,
    write_segment_index,
    write_split,
)
from krill.dedup.streams import HASH_BYTES, BandRecords, bytes_of
from krill.dedup.tables import GROUP_TABLES, TableLayout, visit_partition
from krill.storage.atomic import atomic_writer
from krill.storage.commits import damaged


def plan_bands(documents: int, bands: int, *, share: int, workers: int) -> ShufflePlan:
    """How so many documents are spread over workers that have `share` each."""
    shuffle = plan_shuffle(documents * bands, GROUP_TABLES, share=share, workers=workers)
    return ShufflePlan(shuffle.width, max(1, shuffle.group // bands))


def split_bands(
    files: Sequence[Path],
    out: Path,
    *,
    bands: int,
    first_document: int,
    width: int,
    share: int,
    spill: Path,
) -> int:
    """Write the bands of a group's units by partition, 2^`width` of them; returns how many there are.

    `first_document` is the number of documents before the group, those that were seen before included.
    """
    stream = BandRecords(files, bands, first=first_document)
    return write_split(stream, out, width, **GROUP_TABLES.split_sizes(share), spill=spill)


def answer_bands(
    split_files: Sequence[Path], partition: int, out: Path, *, share: int | TableLayout, spill: Path
) -> int:
    """Write the edges that the bands of a partition make; returns how many. `split_files` are those of all
    groups, in input order."""
    _native.trim()  # what the task before has freed is not held through this one
    stream = SegmentStream(split_files, partition)
    shift = width_of(stream.segments) if split_files else 0
    with atomic_writer(out) as file:

        def visit(records: NDArray[np.uint64], least: NDArray[np.uint64]) -> None:
            file.write(bytes_of(edges_of(records, least)))

        visit_partition(stream, shift, GROUP_TABLES.layout(share), spill, visit, ascending=True)
        edges = file.tell() // HASH_BYTES
        write_segment_index(file, np.array([edges]), HASH_BYTES)
    return edges


def cluster_edges(
    edge_files: Sequence[Path],
    counts: Sequence[int],
    keep_files: Sequence[Path],
    *,
    prior: int,
    share: int | TableLayout,
    spill: Path,
    threads: int,
    cluster_files: Sequence[Path] | None = None,
) -> MinhashResult:
    """Write the keep bits of each unit and, to `cluster_files`, a `CLUSTER_RECORD` for each document.

    `edge_files` are those of all partitions, `counts` the documents of each unit, `prior` the number of
    documents that were seen before. `share` is at least `minhash_min_share` of all of them.
    """
    documents = prior + sum(counts)
    edges = _Edges(edge_files, documents)
    clusters = find_clusters(edges, documents, prior, GROUP_TABLES.layout(share, threads), spill)
    return write_clusters(clusters, counts, prior, keep_files, cluster_files)


class _Edges:
    """The edges of all partitions, checked to end at known documents."""

    def __init__(self, files: Sequence[Path], documents: int) -> None:
        self._files = files
        self._documents = documents
        self._stream = SegmentStream(files, 0)
        self.count = self._stream.count

    def blocks(self, records: int) -> Iterator[NDArray[np.uint64]]:
        for block in self._stream.blocks(records):
            largest = int(block.max())
            if largest >= self._documents:
                fact = f"or the file of another partition, has an edge to document `{largest}`"
                raise damaged(self._files[0], f"{fact}; there are {self._documents:,}")
            yield block
