"""Dedup as tasks on many machines: records change from groups of units to partitions of keys.

In: a stream of records of a group of units. Out: one file with a segment for each partition, in which the
order of the stream stays. Held in memory: the group and its partitioned copy; a group beyond the share goes
through files in the spill folder first. A reader of segments holds one block, and 16 bytes for each file.

Every group is split by the same bits of its keys, so a partition's segments of all groups' files, end to end,
are what a single stream would have given it; the task that answers a partition needs nothing else. Neither
the groups, nor the partitions, nor the share decides which documents are kept; and the file of a group has
the same bytes at any share.

In a file of segments the records come first, then where each segment begins, then what the file is: so a
segment is found by two small reads at known offsets, however many there are, and a file that was cut off has
no end.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from krill import _native
from krill.corpus.buffers import offsets_of
from krill.dedup.spill import KeyBits, Spill
from krill.dedup.streams import HASH_BYTES, HashStream, bytes_of, read_all, read_blocks, reading
from krill.dedup.tables import TableKind, keys_in
from krill.storage.atomic import AtomicFile, atomic_writer
from krill.storage.commits import damaged

MAX_WIDTH = 12
"""The most bits that name a partition; more records than 4,096 partitions take are split again by the
task that answers."""
# A partition's segment of a group is read in one piece; 64 KB are enough for any disk and most networks.
SEGMENT_RECORDS = 4096
COPY_RECORDS = 16_384
INDEX_BYTES = 8
MAGIC = int.from_bytes(b"krillrun", "little")
# How many segments there are, the size of a record, the magic number.
END_BYTES = 3 * INDEX_BYTES


@dataclass(frozen=True, slots=True)
class ShufflePlan:
    """How the documents are spread over tasks: planned once, before the first of them."""

    width: int
    """Bits of a key that name its partition."""
    group: int
    """Documents that a group has at most, if it has more than one unit."""

    @property
    def partitions(self) -> int:
        return 1 << self.width


def plan_shuffle(records: int, kind: TableKind, *, share: int, workers: int) -> ShufflePlan:
    """Partitions whose keys fit a table of a worker's `share`, a twentieth spared for chance, and no fewer
    than workers; groups that are split in memory unless their segments would be too short; `group` in
    records."""
    needed = max(2, workers, 1.05 * records / keys_in(kind.layout(share).table_bytes))
    width = min(math.ceil(math.log2(needed)), MAX_WIDTH)
    group = max(kind.block_records(share), SEGMENT_RECORDS << width)
    return ShufflePlan(width, max(1, min(group, -(-records // workers))))


def cut_groups(counts: Sequence[int], most: int) -> list[range]:
    """Units, by their numbers of documents, in groups of consecutive ones with at most so many documents; one
    unit at least."""
    groups: list[range] = []
    begin = documents = 0
    for unit, count in enumerate(counts):
        if unit > begin and documents + count > most:
            groups.append(range(begin, unit))
            begin, documents = unit, 0
        documents += count
    if begin < len(counts):
        groups.append(range(begin, len(counts)))
    return groups


def write_split(
    stream: HashStream, out: Path, width: int, *, block_records: int, spill_records: int, spill: Path
) -> int:
    """Write the records of a group by partition; returns how many there are. A group of `block_records` at
    most is split in memory, a larger one on disk in blocks of `spill_records`."""
    _native.trim()  # what the task before has freed is not held through this one
    bits = KeyBits(0, width)
    with atomic_writer(out) as file:
        if stream.count <= block_records:
            lengths = _split_in_memory(stream, bits, file)
        else:
            lengths = _split_on_disk(stream, bits, file, spill_records, spill)
        write_segment_index(file, lengths, HASH_BYTES)
    return stream.count


def _split_in_memory(stream: HashStream, bits: KeyBits, file: AtomicFile) -> NDArray[np.int64]:
    """Write the one block of a stream by partition; returns how many records each has."""
    lengths = np.zeros(bits.partitions, np.int64)
    for block in stream.blocks(max(1, stream.count)):
        records, lengths = _native.partition_hashes(block, *bits)
        file.write(bytes_of(records))
    return lengths


def _split_on_disk(
    stream: HashStream, bits: KeyBits, file: AtomicFile, block_records: int, folder: Path
) -> NDArray[np.int64]:
    with Spill(stream, bits, block_records=block_records, folder=folder) as spill:
        spill.split()
        for number in range(bits.partitions):
            for block in spill.partition(number).blocks(COPY_RECORDS):
                file.write(bytes_of(block))
        return spill.counts


def width_of(partitions: int) -> int:
    width = partitions.bit_length() - 1
    if not 1 <= width <= MAX_WIDTH or partitions != 1 << width:
        raise ValueError(f"{partitions} is not a number of partitions")
    return width


class Segment(NamedTuple):
    """Where a segment stands in its file: the offset of its first byte, and how many records it has."""

    offset: int
    length: int


def write_segment_index(file: AtomicFile, lengths: NDArray[np.int64], record_bytes: int) -> None:
    """Write what follows the records, which have been written segment after segment."""
    begins = offsets_of(lengths)
    if begins[-1] * record_bytes != file.tell():
        raise ValueError(f"{begins[-1]} records of {record_bytes} bytes are not {file.tell()} bytes")
    file.write(bytes_of(begins))
    file.write(bytes_of(np.array([len(lengths), record_bytes, MAGIC], np.int64)))


def find_segment(path: Path, number: int, record_bytes: int) -> tuple[Segment, int]:
    """One segment of a file, and how many there are."""
    with reading(path) as source:
        size = os.fstat(source).st_size
        end = np.zeros(3, np.int64)
        if size >= END_BYTES:
            read_all(source, end, size - END_BYTES)
        segments, found_bytes, magic = end.tolist()
        index = size - END_BYTES - INDEX_BYTES * (segments + 1)
        if magic != MAGIC or found_bytes != record_bytes or not 0 <= index <= size:
            raise damaged(path, f"is not a whole file of records of {record_bytes} bytes")
        if number >= segments:
            raise damaged(path, f"has `{segments}` segments, none of number {number}")
        begins = np.empty(2, np.int64)
        read_all(source, begins, index + INDEX_BYTES * number)
    first, after = begins.tolist()
    if not 0 <= first <= after <= index // record_bytes:
        raise damaged(path, f"has a segment that is not in it, number {number}")
    return Segment(first * record_bytes, after - first), segments


class SegmentStream:
    """The segments of one number of many files, end to end: a stream of records of two numbers."""

    def __init__(self, files: Sequence[Path], number: int) -> None:
        self._files = files
        self._offsets = np.empty(len(files), np.int64)
        self.lengths = np.empty(len(files), np.int64)
        """How many records each file gives."""
        self.segments = 0
        """How many segments each file has."""
        for place, file in enumerate(files):
            (self._offsets[place], self.lengths[place]), segments = find_segment(file, number, HASH_BYTES)
            if place and segments != self.segments:
                raise damaged(file, f"has `{segments}` segments, where others have {self.segments}")
            self.segments = segments
        self.count = int(self.lengths.sum())

    def blocks(self, records: int) -> Iterator[NDArray[np.uint64]]:
        """All records, `records` at a time but for the last; each block is valid until the next."""
        buffer = np.empty((min(records, self.count), 2), np.uint64)
        ranges = zip(self._files, map(int, self._offsets), map(int, self.lengths), strict=True)
        return read_blocks(buffer, ((reading(file), offset, length) for file, offset, length in ranges))
