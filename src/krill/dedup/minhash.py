"""MinHash dedup within a share of memory: of documents that are near-duplicates, the first one is kept.

In: a column of documents; then the bands of each unit's documents, in input order. Out: `bands` numbers of 64
bits for each document; then a keep bit for each and, if wanted, its cluster. Held in memory: a few kilobytes
beside the numbers; then no more than the share that was given, and beyond it files in the spill folder.

Two documents that share the part *s* of their shingles (runs of `ngram` words) agree in a given band with the
probability s^rows, and in at least one with 1 - (1 - s^rows)^bands. What counts as a word is
`oracles.dedup.reference_words`: lower case, no diacritics, no punctuation, every number a 0. A document of
fewer words than a shingle has is one shingle.

1. Bands are grouped: documents with an equal band form a group, and each has an edge to the group's smallest.
2. With `verify`, an edge stays only if the two documents truly share enough of their shingles.
3. Documents that edges connect, over however many others, are a cluster; its smallest document is kept.

None of it depends on the order in which groups or edges are found, so the result is the same for every share
and any number of threads; and for tasks that need nothing but files, each within its share:

1. Split, a task for each group of consecutive units: its records (document, band) by partition, in one file.
2. Answer, a task for each partition: the edges that its bands make, in one file.
3. Cluster, one task: documents that edges connect; the smallest is kept.

Documents that were seen before form groups of their own, which come first: their numbers are the smallest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from krill import _native
from krill.corpus.buffers import text_buffers
from krill.dedup.components import MEMBER_BYTES, Clusters, bitmap_bytes, find_clusters, least_range_share
from krill.dedup.largest import LargestClusters
from krill.dedup.shuffle import (
    SegmentStream,
    ShufflePlan,
    plan_shuffle,
    width_of,
    write_segment_index,
    write_split,
)
from krill.dedup.spill import RecordFile
from krill.dedup.streams import HASH_BYTES, BandRecords, UnitRecords, bytes_of, write_keep_files
from krill.dedup.tables import GROUP_TABLES, SLACK, TableLayout, visit_groups, visit_partition
from krill.dedup.verify import Verify, verified_edges
from krill.storage.atomic import atomic_writer
from krill.storage.commits import damaged

BANDS = 14
ROWS = 8
NGRAM = 5
HASH_VERSION = 1
"""Numbers made by another version can't be compared; it goes up with any change of words, shingles or
hashes."""

CLUSTER_RECORD = np.dtype([("cluster", "<u8"), ("size", "<u4")])
"""A document in a cluster file, 12 bytes: the number of the cluster's first document, counted over all units
in input order, and how many documents of this run the cluster has."""

FEW_BANDS_BYTES = 16 * 1024 * 1024

SEEN_BEFORE = 2**64 - 1
"""The cluster of a document that is connected to one that was seen before."""


@dataclass(frozen=True, slots=True)
class MinHash:
    """Bands of documents; 14 x 8 with 5-word shingles finds what shares about 0.72 of its shingles."""

    bands: int = BANDS
    rows: int = ROWS
    ngram: int = NGRAM

    def bands_of(self, text: pa.Array) -> NDArray[np.uint64]:
        """The bands of each document, shape (documents, bands)."""
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


@dataclass(frozen=True, slots=True)
class MinhashResult:
    duplicates: int
    """Documents that are not kept."""
    clusters: int
    """Clusters that they are in."""
    largest: int
    """Documents of this run in the largest of them."""
    sizes: tuple[int, ...] = field(default=(), compare=False)
    """How many clusters whose first document is of this run have how many documents: entry k counts those
    with 2^(k-1) to 2^k - 1."""
    shown: tuple[tuple[int, tuple[int, ...]], ...] = field(default=(), compare=False)
    """The largest of these: how many documents, and the numbers of the first."""


def dedup_minhash(
    band_files: Sequence[Path],
    keep_files: Sequence[Path],
    *,
    bands: int,
    share: int | TableLayout,
    spill: Path,
    threads: int,
    prior: Sequence[Path] = (),
    verify: Verify | None = None,
    cluster_files: Sequence[Path] | None = None,
) -> MinhashResult:
    """Write the keep bits of each unit and, to `cluster_files`, a `CLUSTER_RECORD` for each document.

    `band_files` hold `bands` numbers of 64 bits for each document, one file per unit in input order; `prior`
    such files of documents that count as seen before. `share` is the most that is held in memory, at least
    `minhash_min_share` of them; what doesn't fit goes to unnamed files in `spill`.
    """
    layout = GROUP_TABLES.layout(share, threads)
    stream = BandRecords(band_files, bands, prior)
    with ExitStack() as files:
        edges = files.enter_context(RecordFile(spill))
        if verify is None:
            _find_edges(stream, layout, spill, edges)
        else:
            verified_edges(stream, verify, edges, layout, spill)
        clusters = find_clusters(edges, stream.documents, stream.prior, layout, spill)
        return write_clusters(clusters, stream.counts, stream.prior, keep_files, cluster_files)


def minhash_min_share(documents: int) -> int:
    """The least share that so many documents need: with very many, ranges of labels grow longer."""
    return max(GROUP_TABLES.min_share, least_range_share(documents))


def minhash_memory_share(documents: int, bands: int) -> int:
    """The share with which so many documents need no file for their bands."""
    return max(GROUP_TABLES.share_for(documents * bands), _clusters_share(documents))


def minhash_useful_share(documents: int, bands: int) -> int:
    """The most that still helps: clusters in memory, and bands as well if there are few of them. A million
    documents took 0.8 to 1.1 s with any share from 8 to 400 MB: bands that are split on disk are looked up in
    tables that fit the processor's caches."""
    return max(_clusters_share(documents), min(minhash_memory_share(documents, bands), FEW_BANDS_BYTES))


def minhash_spill_bytes(documents: int, bands: int, share: int) -> int:
    """Disk that so many documents take at most within `share`, besides their band files: an edge for each
    band and, where bands don't fit in memory, the bands themselves, split; twice if they are split again."""
    records = documents * bands * HASH_BYTES
    return records if minhash_memory_share(documents, bands) <= share else 3 * records


def _clusters_share(documents: int) -> int:
    members = bitmap_bytes(documents) + documents * MEMBER_BYTES
    return max(GROUP_TABLES.min_share, members + GROUP_TABLES.read_bytes + SLACK)


def _find_edges(stream: BandRecords, layout: TableLayout, folder: Path, edges: RecordFile) -> None:
    """An edge from every document to the smallest of each of its groups."""

    def visit(records: NDArray[np.uint64], least: NDArray[np.uint64]) -> None:
        found = edges_of(records, least)
        if len(found):
            edges.append(found)

    visit_groups(stream, layout, folder, visit, ascending=True)


def edges_of(records: NDArray[np.uint64], least: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """An edge for each record (document, band) whose document is not the smallest of the band's group."""
    documents = records[:, 0]
    others = np.flatnonzero(documents != least)
    return np.column_stack((documents[others], least[others]))


def write_clusters(
    clusters: Clusters,
    counts: Sequence[int],
    prior: int,
    keep_files: Sequence[Path],
    cluster_files: Sequence[Path] | None,
) -> MinhashResult:
    """Write which documents are kept, and perhaps the clusters, of units with `counts` documents after
    `prior` ones."""
    records = None if cluster_files is None else UnitRecords(counts, cluster_files)
    found, shown = np.zeros(64, np.int64), LargestClusters()
    try:
        duplicates = write_keep_files(_flags(clusters, prior, records, found, shown), counts, keep_files)
        if records is not None:
            records.finish()
    except BaseException:
        if records is not None:
            records.abort()
        raise
    largest = int(np.flatnonzero(found).max(initial=-1))
    sizes = tuple(found[: largest + 1].tolist())
    return MinhashResult(duplicates, clusters.count, clusters.largest, sizes, shown.found(prior))


def _flags(
    clusters: Clusters,
    prior: int,
    records: UnitRecords | None,
    found: NDArray[np.int64],
    shown: LargestClusters,
) -> Iterator[NDArray[np.uint8]]:
    """Flags of the documents that are kept, without prior ones; clusters go to `records` on the way, and
    `found` counts them by the binary digits of their sizes, `shown` has the largest."""
    first = 0
    for smallest, sizes in clusters.labels():
        shown.add(first, smallest, sizes, prior)
        own = slice(max(0, prior - first), None)
        numbers = np.arange(first, first + len(smallest), dtype=np.uint64)[own]
        first += len(smallest)
        if records is not None:
            block = np.empty(len(numbers), CLUSTER_RECORD)
            block["cluster"] = smallest[own] - np.uint64(prior)
            block["cluster"][smallest[own] < prior] = SEEN_BEFORE
            block["size"] = sizes[own]
            records.write(block)
        kept = smallest[own] == numbers
        of_clusters = sizes[own][kept]
        _, digits = np.frexp(of_clusters[of_clusters > 1].astype(np.float64))
        found += np.bincount(digits, minlength=len(found))
        yield kept.view(np.uint8)


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
