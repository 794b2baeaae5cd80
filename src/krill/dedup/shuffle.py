"""Dedup as tasks on many machines: records change from groups of units to partitions of keys.

In: a stream of records of a group of units. Out: one file, a run for each partition, in which the order of
the stream stays. Held in memory: the group and its partitioned copy; a group beyond the share goes through
files in the spill folder first.

Every group is split by the same bits of its keys, so a partition's runs of all groups' files, end to end, are
what a single stream would have given it; whoever answers a partition needs nothing else. Neither the groups,
nor the partitions, nor the share decides who survives; and the file of a group has the same bytes at any
share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from krill import _native
from krill.dedup.runs import end_runs
from krill.dedup.spill import Digit, Spill
from krill.dedup.streams import HASH_BYTES, HashStream, bytes_of
from krill.storage.atomic import AtomicFile, atomic_writer

MAX_WIDTH = 12
"""The most bits that name a partition; more records than 4,096 partitions take are split again by whoever
answers."""
# A partition's run of a group is read in one piece; 64 KB are enough for any disk and most networks.
RUN_RECORDS = 4096
COPY_RECORDS = 16_384


@dataclass(frozen=True, slots=True)
class Shuffle:
    """How a run's documents are spread over tasks: settled once, before the first of them."""

    width: int
    """Bits of a key that name its partition."""
    group: int
    """Documents that a group has at most, if it has more than one unit."""

    @property
    def partitions(self) -> int:
        return 1 << self.width


def plan_shuffle(records: int, *, table_keys: int, block_records: int, workers: int) -> Shuffle:
    """Partitions whose keys fit a table, a twentieth spared for chance, and no fewer than workers; groups
    that are split in memory unless their runs would be too short; `group` in records."""
    needed = max(2, workers, 1.05 * records / table_keys)
    width = min(math.ceil(math.log2(needed)), MAX_WIDTH)
    group = max(block_records, RUN_RECORDS << width)
    return Shuffle(width, max(1, min(group, -(-records // workers))))


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
    digit = Digit(0, width)
    with atomic_writer(out) as file:
        if stream.count <= block_records:
            lengths = _split_in_memory(stream, digit, file)
        else:
            lengths = _split_on_disk(stream, digit, file, spill_records, spill)
        end_runs(file, lengths, HASH_BYTES)
    return stream.count


def _split_in_memory(stream: HashStream, digit: Digit, file: AtomicFile) -> NDArray[np.int64]:
    """Write the one block of a stream by partition; returns how many records each has."""
    lengths = np.zeros(digit.partitions, np.int64)
    for block in stream.blocks(max(1, stream.count)):
        records, lengths = _native.partition_hashes(block, *digit)
        file.write(bytes_of(records))
    return lengths


def _split_on_disk(
    stream: HashStream, digit: Digit, file: AtomicFile, block_records: int, folder: Path
) -> NDArray[np.int64]:
    """The same for a stream of any length."""
    with Spill(stream, digit, block_records=block_records, folder=folder) as spill:
        spill.split()
        for number in range(digit.partitions):
            for block in spill.partition(number).blocks(COPY_RECORDS):
                file.write(bytes_of(block))
        return spill.counts


def width_of(partitions: int) -> int:
    """The bits that name one of so many partitions."""
    width = partitions.bit_length() - 1
    if not 1 <= width <= MAX_WIDTH or partitions != 1 << width:
        raise ValueError(f"{partitions} is no number of partitions")
    return width
