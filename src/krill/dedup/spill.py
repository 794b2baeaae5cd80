"""Hashes on disk, split into partitions; and one flag for each, joined back into the order they came in.

In: a stream of hashes. Out: each partition as a stream of its own, and, when all have been answered, the
flags in the stream's order. Held in memory: one block and its partitioned copy while splitting, one block
while joining, nothing in between.

A block of the stream is written as it is partitioned, in one piece: how many hashes each partition has in
it, then the hashes in the order of partitions. A partition is read back as its slices of all blocks. Flags
have a file of the same geometry, one byte for each hash. So there is neither a file nor a write buffer for
each partition, no index in memory, and no position beside a hash: all of it is arithmetic. Slices are long,
since a block is as large as the share allows.

Both files have no name: they vanish with the process, however it ends.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from krill import _native
from krill.dedup.streams import HASH_BYTES, HashStream, bytes_of
from krill.storage.atomic import storage_errors

HASH_BITS = 128
COUNT_BYTES = 8


class Digit(NamedTuple):
    """The bits of a hash that name its partition: `width` of them, above the lowest `shift`."""

    shift: int
    width: int

    @property
    def partitions(self) -> int:
        return 1 << self.width


class Spill:
    """A stream of hashes in partitions, on disk until the context ends."""

    def __init__(self, stream: HashStream, digit: Digit, *, block_records: int, folder: Path) -> None:
        self.counts = np.zeros(digit.partitions, np.int64)
        self._stream = stream
        self._digit = digit
        self._block_records = block_records
        self._folder = folder
        with storage_errors(folder), ExitStack() as files:
            folder.mkdir(parents=True, exist_ok=True)
            self._hashes = files.enter_context(tempfile.TemporaryFile(dir=folder, buffering=0))
            self._flags = files.enter_context(tempfile.TemporaryFile(dir=folder, buffering=0))
            self._files = files.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.close()

    def split(self) -> None:
        """Write the whole stream, block after block."""
        offset = 0
        for block in self._stream.blocks(self._block_records):
            offset = self._append(block, offset)

    def _append(self, block: NDArray[np.uint64], offset: int) -> int:
        """Write one block at `offset`; returns where it ends. Its copy is gone before the next is made."""
        hashes, counts = _native.partition_hashes(block, *self._digit)
        self.counts += counts
        with storage_errors(self._folder):
            offset = write_all(self._hashes.fileno(), counts, offset)
            return write_all(self._hashes.fileno(), hashes, offset)

    def partition(self, number: int) -> Partition:
        """The hashes of one partition."""
        return Partition(self, number)

    def join(self) -> Iterator[NDArray[np.uint8]]:
        """The flags of all hashes, in the order of the stream."""
        flags = np.empty(min(self._block_records, self._stream.count), np.uint8)
        for number, block in enumerate(self._stream.blocks(self._block_records)):
            view = flags[: len(block)]
            read_all(self._flags.fileno(), view, number * self._block_records)
            yield _native.join_flags(block, *self._digit, view)

    def _slices(self, partition: int) -> Iterator[tuple[int, int, int]]:
        """Where a partition's slice of each block stands: offset of its hashes, of its flags, its length."""
        header = self._digit.partitions * COUNT_BYTES
        counts = np.empty(self._digit.partitions, np.int64)
        for first in range(0, self._stream.count, self._block_records):
            start = first * HASH_BYTES + first // self._block_records * header
            read_all(self._hashes.fileno(), counts, start)
            before = int(counts[:partition].sum())
            length = int(counts[partition])
            yield start + header + before * HASH_BYTES, first + before, length


class Partition:
    """One partition of a spill: a stream of hashes, and the place for their flags."""

    def __init__(self, spill: Spill, number: int) -> None:
        self._spill = spill
        self._number = number

    @property
    def count(self) -> int:
        return int(self._spill.counts[self._number])

    def blocks(self, records: int) -> Iterator[NDArray[np.uint64]]:
        source = self._spill._hashes.fileno()
        buffer = np.empty((min(records, self.count), 2), np.uint64)
        filled = 0
        for offset, _, length in self._spill._slices(self._number):
            while length:
                piece = buffer[filled : filled + length]
                read_all(source, piece, offset)
                filled += len(piece)
                offset += piece.nbytes
                length -= len(piece)
                if filled == len(buffer):
                    yield buffer
                    filled = 0
        if filled:
            yield buffer[:filled]

    def write_flags(self, blocks: Iterator[NDArray[np.uint8]]) -> None:
        """Store the flags of all hashes of the partition, given in its order."""
        target = self._spill._flags.fileno()
        block = np.empty(0, np.uint8)
        for _, offset, length in self._spill._slices(self._number):
            while length:
                if not len(block):
                    block = next(blocks)
                piece, block = block[:length], block[length:]
                with storage_errors(self._spill._folder):
                    offset = write_all(target, piece, offset)
                length -= len(piece)


def write_all(descriptor: int, array: NDArray[Any], offset: int) -> int:
    """Write the array at `offset`; returns where it ends."""
    view = bytes_of(array)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view = view[written:]
        offset += written
    return offset


def read_all(descriptor: int, array: NDArray[Any], offset: int) -> None:
    """Fill the array from `offset`."""
    view = bytes_of(array)
    while view:
        read = os.preadv(descriptor, [view], offset)
        if read == 0:
            raise EOFError(f"a spill file ends before byte {offset + len(view)}")
        view = view[read:]
        offset += read
