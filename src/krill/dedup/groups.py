"""Records grouped by their key within a share of memory: each learns the least number of its group.

In: a stream of records (number, key). Out: every record, handed to `tell` in blocks together with the least
numbers of their groups; from several threads and in no order. Held in memory: while the keys fit, one table
of all keys; beyond, records are split on disk into partitions by some of the key's bits, so that a
partition's keys fit a thread's table.

A table counts distinct keys only: a group of any size takes one slot. A partition with too many distinct keys
is split again by its next bits, down to the last of the 64, where one key is left. What the groups are does
not depend on how the share was laid out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from krill import _native
from krill.dedup.exact import MAX_SPLIT_RECORDS, SLACK, TABLE_UNIT, keys_in, table_for
from krill.dedup.spill import Digit, Spill
from krill.dedup.streams import HASH_BYTES, HashStream
from krill.threads import ordered_map

KEY_BITS = 64
READ_RECORDS = 16_384
# A record that is read, its least number, what is made of both, and the same once more while it is written.
READ_BYTES_PER_RECORD = 96
READ_BYTES = READ_RECORDS * READ_BYTES_PER_RECORD
# A record while it is split: as it stands in files, as a record, and its partitioned copy, whose last huge
# page may be an eighth of it.
SPLIT_BYTES_PER_RECORD = HASH_BYTES + HASH_BYTES + HASH_BYTES * 9 // 8
# What the allocator may keep of earlier blocks: those below its threshold, as the least share has them.
KEPT_BLOCK = TABLE_UNIT
# Several threads split again at once, in one heap: their blocks are short, so that little is kept of them.
MAX_RESPLIT_RECORDS = 1 << 15
# Ten bits leave slices of 4 KB in a block of 4 MB: a second split would cost more than short slices do.
MAX_WIDTH = 10

MIN_SHARE = 8 * 1024 * 1024
"""The least share that groups any number of records: a table of 4 MiB and what is made of a block."""

Tell = Callable[[NDArray[np.uint64], NDArray[np.uint64]], None]
"""Takes records and the least number of each one's group; called by several threads at once."""


@dataclass(frozen=True, slots=True)
class GroupLayout:
    """How a share is used. It decides where records wait, never what their groups are."""

    share: int
    threads: int
    table_bytes: int
    """One thread's table."""
    whole_table_bytes: int
    """The table when one thread does all."""
    read_records: int
    """A block that is looked up; as all blocks, of an even number of records."""
    split_records: int
    """A block when the one stream is split; no other thread works then."""
    resplit_records: int
    """A block when a thread splits its partition again, while others use their part of the share."""
    max_width: int

    @classmethod
    def of(cls, share: int, threads: int) -> GroupLayout:
        """The layout that keeps all threads within `share` together."""
        threads = max(1, min(threads, share // MIN_SHARE))
        part, whole = share // threads - SLACK - KEPT_BLOCK, share - SLACK - KEPT_BLOCK
        return cls(
            share=share,
            threads=threads,
            table_bytes=(part - READ_BYTES) // TABLE_UNIT * TABLE_UNIT,
            whole_table_bytes=(whole - READ_BYTES) // TABLE_UNIT * TABLE_UNIT,
            read_records=READ_RECORDS,
            split_records=_split_records(whole),
            resplit_records=min(_split_records(part), MAX_RESPLIT_RECORDS),
            max_width=MAX_WIDTH,
        )


def _split_records(room: int) -> int:
    """The records of a block that is split within `room` bytes: an even number."""
    return min(room // SPLIT_BYTES_PER_RECORD // 2 * 2, MAX_SPLIT_RECORDS)


def tell_groups(
    stream: HashStream, layout: GroupLayout, folder: Path, tell: Tell, *, rising: bool = False
) -> None:
    """Tell every record the least number of its group.

    If numbers never fall along the stream (`rising`), the first of a group is its least, and one walk does;
    else each table is filled before it is asked.
    """
    if stream.count <= keys_in(layout.whole_table_bytes):
        _in_memory(stream, layout.whole_table_bytes, layout, tell, rising=rising)
    else:
        _on_disk(stream, 0, layout, folder, tell, rising=rising)


def _in_memory(stream: HashStream, capacity: int, layout: GroupLayout, tell: Tell, *, rising: bool) -> None:
    """Records whose keys fit a table of `capacity` bytes; else raises `TableFull`. What was told until then
    is told again later, which changes nothing: the same numbers come."""
    table = _native.MinTable(min(capacity, table_for(stream.count)))
    if not rising:
        for block in stream.blocks(layout.read_records):
            table.fold(block)
    for block in stream.blocks(layout.read_records):
        tell(block, table.fold(block))


def _on_disk(
    stream: HashStream, shift: int, layout: GroupLayout, folder: Path, tell: Tell, *, rising: bool
) -> None:
    """Split the stream by the key's bits from `shift` up, and answer each partition."""
    digit = Digit(shift, _width(stream.count, layout, KEY_BITS - shift))
    block_records = layout.split_records if shift == 0 else layout.resplit_records
    with Spill(stream, digit, block_records=block_records, folder=folder) as spill:
        spill.split()
        _native.trim()  # blocks that were split are not held while tables are filled

        def answer(number: int) -> None:
            part = spill.partition(number)
            answer_partition(part, shift + digit.width, layout, folder, tell, rising=rising)

        # Only the first split spreads over threads: below it each partition is one thread's affair.
        threads = layout.threads if shift == 0 else 1
        work = range(digit.partitions)
        if threads == 1:
            for number in work:
                answer(number)
        else:
            for _ in ordered_map(answer, work, threads=threads, bytes_in_flight=len(work), size=lambda _: 1):
                pass


def answer_partition(
    partition: HashStream, shift: int, layout: GroupLayout, folder: Path, tell: Tell, *, rising: bool
) -> None:
    """Tell the records of a partition, whose keys agree in all bits below `shift`."""
    try:
        _in_memory(partition, layout.table_bytes, layout, tell, rising=rising)
        return
    except _native.TableFull:
        pass  # and leave this clause first: the error's traceback holds the table, whose memory is needed
    _on_disk(partition, shift, layout, folder, tell, rising=rising)


def _width(count: int, layout: GroupLayout, bits_left: int) -> int:
    """Bits that make partitions small enough for a thread's table, a twentieth spared for chance."""
    needed = 1.05 * count / keys_in(layout.table_bytes)
    width = max(1, math.ceil(math.log2(needed)) if needed > 1 else 1)
    return min(width, layout.max_width, bits_left)
