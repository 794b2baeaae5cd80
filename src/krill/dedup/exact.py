"""Exact dedup within a share of memory: of documents with equal hashes, the first one wins.

In: the hashes of each unit's documents, in input order. Out: a keep bit for each document. Held in memory:
while the hashes of all documents fit the share's table, that table; beyond, the hashes are split on disk
into partitions by some of their bits, so that each partition fits a thread's table.

Equal hashes share a partition, and a partition keeps the order of the input; so each is answered on its own,
on any thread, and the result does not depend on how the share was laid out. A table counts distinct hashes
only: a partition that is large because one document is repeated needs no more splitting. One that has too
many distinct hashes is split again by its next bits, down to the last of the 128, where all are equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from krill import _native
from krill.dedup.spill import HASH_BITS, Digit, Spill
from krill.dedup.streams import HASH_BYTES, HashStream, UnitHashes, write_keep_files
from krill.threads import ordered_map

# Hashes that a table is given at once: 0.4 ms of work, beside which Python's part of a call is small.
READ_RECORDS = 16_384
# A read block, its flags, and the same flags cut into bits.
READ_BYTES = READ_RECORDS * (HASH_BYTES + 2)
# A block while it is split: the hashes, and their partitioned copy, whose last huge page may be an eighth of
# it; while it is joined, the hashes and two flags.
SPLIT_BYTES_PER_RECORD = HASH_BYTES + HASH_BYTES * 9 // 8
# Native tables are made of pages of this size, whole ones.
TABLE_UNIT = 2 * 1024 * 1024
# Larger blocks give longer slices; 16 MB in 256 partitions are slices of 64 KB, long enough for any disk.
MAX_SPLIT_RECORDS = 1 << 20
MAX_WIDTH = 8
# Bookkeeping of one thread that is not in the figures above: counts of partitions, small objects.
SLACK = 64 * 1024

MIN_SHARE = 5 * 1024 * 1024
"""The least share that resolves any number of documents: a table of 4 MiB and its read block.

Measured with it: 50 million random hashes took 5 s and 4.9 MB above the base, on two cores (8 s and 31.3 MB
with 32 MB; writing and syncing the keep bits of 2,000 units took 7 s more in both). With less, the slices of
a split block, 9 KB for each of 256 partitions here, would get shorter than what a disk reads at once.
"""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a share is used. It decides where hashes wait, never which survive."""

    threads: int
    table_bytes: int
    """One thread's table."""
    whole_table_bytes: int
    """The table when one thread does all."""
    read_records: int
    split_records: int
    """A block when the one stream of all units is split; no other thread works then."""
    resplit_records: int
    """A block when a thread splits its partition again, while others use their part of the share."""
    max_width: int

    @classmethod
    def of(cls, share: int, threads: int) -> Layout:
        """The layout that keeps all threads within `share` together."""
        threads = max(1, min(threads, share // MIN_SHARE))
        part = share // threads - SLACK
        whole = share - SLACK
        return cls(
            threads=threads,
            table_bytes=(part - READ_BYTES) // TABLE_UNIT * TABLE_UNIT,
            whole_table_bytes=(whole - READ_BYTES) // TABLE_UNIT * TABLE_UNIT,
            read_records=READ_RECORDS,
            split_records=min(whole // SPLIT_BYTES_PER_RECORD, MAX_SPLIT_RECORDS),
            resplit_records=min(part // SPLIT_BYTES_PER_RECORD, MAX_SPLIT_RECORDS),
            max_width=MAX_WIDTH,
        )


def resolve_exact(
    hash_files: Sequence[Path],
    keep_files: Sequence[Path],
    *,
    share: int,
    spill: Path,
    threads: int,
    prior: Sequence[Path] = (),
) -> int:
    """Write the keep bits of each unit; returns the number of duplicates.

    `hash_files` holds 16 bytes for each document, one file per unit in input order; `prior` such files of
    documents that count as seen before. `share` is the most that is held in memory, `MIN_SHARE` at least;
    what doesn't fit goes to unnamed files in `spill`.
    """
    if share < MIN_SHARE:
        raise ValueError(f"a share of {share} bytes is below the least, {MIN_SHARE}")
    return resolve_with(Layout.of(share, threads), hash_files, keep_files, spill=spill, prior=prior)


def resolve_with(
    layout: Layout,
    hash_files: Sequence[Path],
    keep_files: Sequence[Path],
    *,
    spill: Path,
    prior: Sequence[Path] = (),
) -> int:
    """`resolve_exact` with the memory laid out by the caller."""
    stream = UnitHashes(hash_files, prior)
    if stream.count <= keys_in(layout.whole_table_bytes):
        flags = _in_memory(stream, layout.whole_table_bytes, layout)
    else:
        flags = _on_disk(stream, 0, layout, layout.split_records, spill)
    return write_keep_files(flags, stream.counts, keep_files, skip=stream.prior)


def table_bytes(documents: int) -> int:
    """The share with which so many documents are resolved in memory."""
    tables = math.ceil(table_for(documents) / TABLE_UNIT)
    return max(MIN_SHARE, tables * TABLE_UNIT + READ_BYTES + SLACK)


def spill_bytes(documents: int) -> int:
    """Disk that so many documents take at most if they don't fit: hash and flag, twice if split twice."""
    return 2 * documents * (HASH_BYTES + 1)


def _in_memory(stream: HashStream, capacity: int, layout: Layout) -> Iterator[NDArray[np.uint8]]:
    """Flags of a stream whose distinct hashes fit a table of `capacity` bytes; else raises `TableFull`."""
    table = _native.HashSet(min(capacity, table_for(stream.count)))
    for block in stream.blocks(layout.read_records):
        yield table.insert(block)


def _on_disk(
    stream: HashStream, shift: int, layout: Layout, block_records: int, folder: Path
) -> Iterator[NDArray[np.uint8]]:
    """Flags of a stream that is split by the bits from `shift` up."""
    digit = Digit(shift, _width(stream.count, layout, HASH_BITS - shift))
    with Spill(stream, digit, block_records=block_records, folder=folder) as spill:
        spill.split()
        _native.trim()  # blocks that were split are not held while tables are filled

        def answer(partition: int) -> None:
            part = spill.partition(partition)
            answer_partition(part, part.write_flags, shift + digit.width, layout, folder)

        # Only the first split spreads over threads: below it each partition is one thread's affair.
        threads = layout.threads if shift == 0 else 1
        if threads == 1:
            for partition in range(digit.partitions):
                answer(partition)
        else:
            work = range(digit.partitions)
            for _ in ordered_map(answer, work, threads=threads, bytes_in_flight=len(work), size=lambda _: 1):
                pass
        yield from spill.join()


def answer_partition(
    partition: HashStream,
    store: Callable[[Iterator[NDArray[np.uint8]]], None],
    shift: int,
    layout: Layout,
    folder: Path,
) -> None:
    """Store the flags of one partition, whose hashes agree in all bits below `shift`. `store` is called again
    from the beginning if a table is too small."""
    try:
        store(_in_memory(partition, layout.table_bytes, layout))
        return
    except _native.TableFull:
        pass  # and leave this clause first: the error's traceback holds the table, whose memory is needed
    store(_on_disk(partition, shift, layout, layout.resplit_records, folder))


def _width(count: int, layout: Layout, bits_left: int) -> int:
    """Bits that make partitions small enough for a thread's table, a twentieth spared for chance."""
    needed = 1.05 * count / keys_in(layout.table_bytes)
    width = max(1, math.ceil(math.log2(needed)) if needed > 1 else 1)
    return min(width, layout.max_width, bits_left)


def keys_in(capacity: int) -> int:
    """Keys that a `HashSet` of so many bytes takes: four for five slots."""
    slots = capacity // HASH_BYTES
    return slots - (slots + 4) // 5


def table_for(keys: int) -> int:
    """The bytes of a `HashSet` that takes so many keys."""
    return (keys + keys // 4 + 2) * HASH_BYTES
