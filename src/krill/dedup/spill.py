"""Records on disk while dedup runs: split into partitions, or in the order in which they were written.

In: a stream of hashes. Out: each partition as a stream of its own, and, when all have been answered, the
flags in the stream's order. Held in memory: one block and its partitioned copy while splitting, one block
while joining, nothing in between.

A block of the stream is written as it is partitioned, in one piece: how many hashes each partition has in
it, then the hashes in the order of partitions. A partition is read back as its slices of all blocks. Flags
have a file of the same geometry, one byte for each hash. So there is neither a file nor a write buffer for
each partition, no index in memory, and no position beside a hash: all of it is arithmetic. Slices are long,
since a block is as large as the share allows.

`RecordFile` is for rows of a few numbers, appended by any thread and read back in blocks. No file here has a
name: they vanish with the process, however it ends.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from io import FileIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from krill import _native
from krill.dedup.streams import HASH_BYTES, HashStream, read_all, read_blocks, write_all
from krill.storage.atomic import storage_errors
from krill.storage.input_file import ClosedOnExit

COUNT_BYTES = 8


def unnamed_file(folder: Path) -> FileIO:
    """A temporary file without a name; the caller closes it."""
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryFile(dir=folder, buffering=0)


class KeyBits(NamedTuple):
    """The bits of a hash that name its partition: `width` of them, above the lowest `shift`."""

    shift: int
    width: int

    @property
    def partitions(self) -> int:
        return 1 << self.width


class Spill(ClosedOnExit):
    """A stream of hashes in partitions, on disk until the context ends."""

    def __init__(self, stream: HashStream, bits: KeyBits, *, block_records: int, folder: Path) -> None:
        self.counts = np.zeros(bits.partitions, np.int64)
        self._stream = stream
        self._bits = bits
        self._block_records = block_records
        self._folder = folder
        with ExitStack() as files:
            self._hashes = files.enter_context(unnamed_file(folder))
            self._flags = files.enter_context(unnamed_file(folder))
            self._files = files.pop_all()

    def close(self) -> None:
        self._files.close()

    def split(self) -> None:
        offset = 0
        for block in self._stream.blocks(self._block_records):
            offset = self._append(block, offset)

    def _append(self, block: NDArray[np.uint64], offset: int) -> int:
        """Write one block at `offset`; returns where it ends. Its copy is gone before the next is made."""
        hashes, counts = _native.partition_hashes(block, *self._bits)
        self.counts += counts
        with storage_errors(self._folder):
            offset = write_all(self._hashes.fileno(), counts, offset)
            return write_all(self._hashes.fileno(), hashes, offset)

    def partition(self, number: int) -> Partition:
        return Partition(self, number)

    def join(self) -> Iterator[NDArray[np.uint8]]:
        flags = np.empty(min(self._block_records, self._stream.count), np.uint8)
        for number, block in enumerate(self._stream.blocks(self._block_records)):
            view = flags[: len(block)]
            read_all(self._flags.fileno(), view, number * self._block_records)
            yield _native.join_flags(block, *self._bits, view)

    def _slices(self, partition: int) -> Iterator[tuple[int, int, int]]:
        """Where a partition's slice of each block stands: offset of its hashes, of its flags, its length."""
        header = self._bits.partitions * COUNT_BYTES
        counts = np.empty(self._bits.partitions, np.int64)
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
        opened = nullcontext(self._spill._hashes.fileno())
        buffer = np.empty((min(records, self.count), 2), np.uint64)
        slices = self._spill._slices(self._number)
        return read_blocks(buffer, ((opened, offset, length) for offset, _, length in slices))

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


class RecordFile(ClosedOnExit):
    """A file of rows; also a `HashStream` if it has two columns."""

    def __init__(self, folder: Path, columns: int = 2) -> None:
        self._folder = folder
        self._columns = columns
        self._rows = 0
        self._lock = threading.Lock()
        self._file = unnamed_file(folder)

    def close(self) -> None:
        self._file.close()

    @property
    def count(self) -> int:
        return self._rows

    @property
    def descriptor(self) -> int:
        return self._file.fileno()

    def append(self, rows: NDArray[np.uint64]) -> int:
        """Write rows at the end; returns the number of the first."""
        with self._lock:
            first = self._rows
            self._rows += len(rows)
        self.write_at(first, rows)
        return first

    def write_at(self, first: int, rows: NDArray[np.uint64]) -> None:
        """Write rows at a place of their own; what is never written is zeros."""
        with storage_errors(self._folder):
            write_all(self.descriptor, np.ascontiguousarray(rows), 8 * self._columns * first)

    def blocks(self, records: int) -> Iterator[NDArray[np.uint64]]:
        """All rows, `records` at a time but for the last; each block is valid until the next."""
        count = self._rows
        buffer = np.empty((min(records, count), self._columns), np.uint64)
        for first in range(0, count, records):
            block = buffer[: count - first]
            read_all(self.descriptor, block, 8 * self._columns * first)
            yield block


class Reversed:
    """Rows of two columns with the columns exchanged."""

    def __init__(self, edges: HashStream) -> None:
        self._edges = edges
        self.count = edges.count

    def blocks(self, records: int) -> Iterator[NDArray[np.uint64]]:
        buffer = np.empty((min(records, self.count), 2), np.uint64)
        for block in self._edges.blocks(records):
            view = buffer[: len(block)]
            view[:] = block[:, ::-1]
            yield view


class BothWays:
    """Rows of two columns, each also with the columns exchanged."""

    def __init__(self, edges: HashStream) -> None:
        self._edges = edges
        self.count = 2 * edges.count

    def blocks(self, records: int) -> Iterator[NDArray[np.uint64]]:
        assert records % 2 == 0, "a row and its reverse stay together"
        buffer = np.empty((min(records, self.count), 2), np.uint64)
        for block in self._edges.blocks(records // 2):
            view = buffer[: 2 * len(block)]
            view[: len(block)] = block
            view[len(block) :] = block[:, ::-1]
            yield view
