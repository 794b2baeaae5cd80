"""Tables of keys within a share of memory: how the share is used, and what is done beyond it.

In: a stream of records and the function that answers a partition of it. Out: the partitions, each answered.
Held in memory: while the keys fit, one table of all of them; beyond, records are split on disk into
partitions by some of the key's bits, so that the keys of each partition fit a thread's table.

Equal keys share a partition, and a partition keeps the order of the stream; so each is answered on its own,
on any thread, and the result does not depend on how the share was laid out. A table counts distinct keys
only: a partition that is large because one key is repeated needs no more splitting. One that has too many
distinct keys is split again by its next bits, down to the last, where all are equal.

`visit_groups` is such a table for records (number, key): each record meets the least number of its group, the
records with the same key. For exact dedup, see `exact.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from krill import _native
from krill.dedup.spill import KeyBits, Partition, Spill
from krill.dedup.streams import HASH_BYTES, HashStream
from krill.threads import ordered_map

# Records that a table is given at once: 0.4 ms of work, beside which Python's part of a call is small.
READ_RECORDS = 16_384
# Native tables are made of pages of this size, whole ones.
TABLE_UNIT = 2 * 1024 * 1024
# Larger blocks give longer slices; 16 MB in 256 partitions are slices of 64 KB, long enough for any disk.
MAX_SPLIT_RECORDS = 1 << 20
# Bookkeeping of one thread that is not in the figures below: counts of partitions, small objects.
SLACK = 64 * 1024


@dataclass(frozen=True, slots=True)
class TableLayout:
    """How a share is used. It decides where records wait, never what is found."""

    share: int
    threads: int
    table_bytes: int
    """One thread's table."""
    whole_table_bytes: int
    """The table when one thread does all."""
    split_records: int
    """A block when the one stream is split; no other thread works then."""
    resplit_records: int
    """A block when a thread splits its partition again, while others use their part of the share."""
    max_width: int
    key_bits: int
    read_records: int = READ_RECORDS
    """A block that is looked up."""


class TableKind(NamedTuple):
    """What tables of one kind hold of a record, from which the layout of a share follows."""

    key_bits: int
    max_width: int
    """Bits by which a stream is split at once, at most."""
    min_share: int
    """The least share that takes any number of records."""
    read_bytes: int
    """A block that is looked up, and what is made of it."""
    split_bytes_per_record: int
    reserved: int
    """What a thread holds besides."""
    max_resplit_records: int

    def layout(self, share: int | TableLayout, threads: int = 1) -> TableLayout:
        """The layout that keeps all threads within `share` together; one that is given stays as it is."""
        if isinstance(share, TableLayout):
            return share
        if share < self.min_share:
            raise ValueError(f"a share of {share} bytes is below the least, {self.min_share}")
        threads = max(1, min(threads, share // self.min_share))
        part, whole = share // threads - self.reserved, share - self.reserved
        return TableLayout(
            share=share,
            threads=threads,
            table_bytes=(part - self.read_bytes) // TABLE_UNIT * TABLE_UNIT,
            whole_table_bytes=(whole - self.read_bytes) // TABLE_UNIT * TABLE_UNIT,
            split_records=min(self._split_records(whole), MAX_SPLIT_RECORDS),
            resplit_records=min(self._split_records(part), self.max_resplit_records),
            max_width=self.max_width,
            key_bits=self.key_bits,
        )

    def block_records(self, share: int) -> int:
        return (share - self.reserved) // self.split_bytes_per_record

    def split_sizes(self, share: int) -> dict[str, int]:
        """For `write_split`: the records of a group that is split in memory, and of a block on disk."""
        return {
            "block_records": self.block_records(share),
            "spill_records": self.layout(share).split_records,
        }

    def share_for(self, keys: int) -> int:
        """The share with which so many keys fit one table."""
        table = -(-table_bytes_for(keys) // TABLE_UNIT) * TABLE_UNIT
        return max(self.min_share, table + self.read_bytes + self.reserved)

    def _split_records(self, room: int) -> int:
        return room // self.split_bytes_per_record // 2 * 2  # even, as `BothWays` needs it


HASH_TABLES = TableKind(
    key_bits=128,
    max_width=8,
    # A table of 4 MiB and its read block. Measured with it: 50 million random hashes took 5 s and 4.9 MB
    # above the base, on two cores (8 s and 31.3 MB with 32 MB; writing and syncing the keep bits of 2,000
    # units took 7 s more in both). With less, the slices of a split block, 9 KB for each of 256 partitions
    # here, would get shorter than what a disk reads at once.
    min_share=5 * 1024 * 1024,
    # A read block, its flags, and the same flags cut into bits.
    read_bytes=READ_RECORDS * (HASH_BYTES + 2),
    # The hashes, and their partitioned copy, whose last huge page may be an eighth of it; while a block is
    # joined, the hashes and two flags.
    split_bytes_per_record=HASH_BYTES + HASH_BYTES * 9 // 8,
    reserved=SLACK,
    max_resplit_records=MAX_SPLIT_RECORDS,
)
"""Hashes of 128 bits, which is all that a record is."""

GROUP_BYTES_PER_RECORD = 96
"""A record that is read, its least number, what is made of both, and the same once more while it is
written."""

GROUP_TABLES = TableKind(
    key_bits=64,
    # Ten bits leave slices of 4 KB in a block of 4 MB: a second split would cost more than short slices do.
    max_width=10,
    # A table of 4 MiB and what is made of a block.
    min_share=8 * 1024 * 1024,
    read_bytes=READ_RECORDS * GROUP_BYTES_PER_RECORD,
    # As it stands in files, as a record, and its partitioned copy, whose last huge page may be an eighth of
    # it.
    split_bytes_per_record=HASH_BYTES + HASH_BYTES + HASH_BYTES * 9 // 8,
    # And what the allocator may keep of earlier blocks: those below its threshold, as the least share has
    # them.
    reserved=SLACK + TABLE_UNIT,
    # Several threads split again at once, in one heap: their blocks are short, so that little is kept of
    # them.
    max_resplit_records=1 << 15,
)
"""Records of a number and a key of 64 bits."""


def keys_in(capacity: int) -> int:
    """Keys that a native table of so many bytes takes: four for five slots."""
    slots = capacity // HASH_BYTES
    return slots - (slots + 4) // 5


def table_bytes_for(keys: int) -> int:
    """The bytes of a native table that takes so many keys."""
    return (keys + keys // 4 + 2) * HASH_BYTES


@contextmanager
def answered_partitions(
    stream: HashStream,
    shift: int,
    layout: TableLayout,
    folder: Path,
    answer: Callable[[Partition, int], None],
) -> Iterator[Spill]:
    """The stream split by the key's bits from `shift` up, with each partition answered. `answer` also gets
    the number of low bits in which all keys of the partition agree."""
    bits = KeyBits(shift, _width(stream.count, layout, layout.key_bits - shift))
    block_records = layout.split_records if shift == 0 else layout.resplit_records
    with Spill(stream, bits, block_records=block_records, folder=folder) as spill:
        spill.split()
        _native.trim()  # blocks that were split are not held while tables are filled

        def work(number: int) -> None:
            answer(spill.partition(number), shift + bits.width)

        # Only the first split spreads over threads: below it each partition belongs to one thread.
        threads = layout.threads if shift == 0 else 1
        numbers = range(bits.partitions)
        if threads == 1:
            for number in numbers:
                work(number)
        else:
            for _ in ordered_map(
                work, numbers, threads=threads, bytes_in_flight=len(numbers), size=lambda _: 1
            ):
                pass
        yield spill


def _width(count: int, layout: TableLayout, bits_left: int) -> int:
    """Bits that make partitions small enough for a thread's table, a twentieth spared for chance."""
    needed = 1.05 * count / keys_in(layout.table_bytes)
    width = max(1, math.ceil(math.log2(needed)) if needed > 1 else 1)
    return min(width, layout.max_width, bits_left)


Visit = Callable[[NDArray[np.uint64], NDArray[np.uint64]], None]
"""Takes records and the least number of each one's group; called by several threads at once, in no order."""


def visit_groups(
    stream: HashStream, layout: TableLayout, folder: Path, visit: Visit, *, ascending: bool = False
) -> None:
    """Visit all records (number, key) together with the least numbers of their groups.

    If numbers never fall along the stream (`ascending`), the first of a group is its least, and one pass
    does; else each table is filled before it is asked.
    """
    if stream.count <= keys_in(layout.whole_table_bytes):
        _visit_in_memory(stream, layout.whole_table_bytes, layout, visit, ascending=ascending)
    else:
        visit_on_disk(stream, 0, layout, folder, visit, ascending=ascending)


def visit_partition(
    partition: HashStream, shift: int, layout: TableLayout, folder: Path, visit: Visit, *, ascending: bool
) -> None:
    """The same for a partition, whose keys agree in all bits below `shift`."""
    try:
        _visit_in_memory(partition, layout.table_bytes, layout, visit, ascending=ascending)
        return
    except _native.TableFull:
        pass  # and leave this clause first: the error's traceback holds the table, whose memory is needed
    visit_on_disk(partition, shift, layout, folder, visit, ascending=ascending)


def _visit_in_memory(
    stream: HashStream, capacity: int, layout: TableLayout, visit: Visit, *, ascending: bool
) -> None:
    """Records whose keys fit a table of `capacity` bytes; else raises `TableFull`. What was visited until
    then is visited again later, which changes nothing: the same numbers come."""
    table = _native.MinTable(min(capacity, table_bytes_for(stream.count)))
    if not ascending:
        for block in stream.blocks(layout.read_records):
            table.fold(block)
    for block in stream.blocks(layout.read_records):
        visit(block, table.fold(block))


def visit_on_disk(
    stream: HashStream, shift: int, layout: TableLayout, folder: Path, visit: Visit, *, ascending: bool
) -> None:
    def answer(partition: Partition, shift: int) -> None:
        visit_partition(partition, shift, layout, folder, visit, ascending=ascending)

    with answered_partitions(stream, shift, layout, folder, answer):
        pass
