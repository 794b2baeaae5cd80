"""Columnar files cut at their own chunks (row groups, record batches), so that all threads read one big file.

A unit is one or more chunks. A block is one or more small chunks, read by the thread that parses it; a
chunk that is larger than a block is read by the thread that asks for blocks, in steps. Held in memory: two
numbers per chunk, and while a large chunk is read, one step of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from krill.corpus.blocks import FileBlock, RangedFile, SequentialFile, SizedBlock
from krill.corpus.documents import Documents, FileRange
from krill.corpus.formats import CorpusFile
from krill.corpus.readers import Limits
from krill.corpus.rows import row_blocks, to_documents


@dataclass(frozen=True, slots=True)
class Chunks:
    rows: NDArray[np.int64]
    """The first row of each chunk, then the number of rows."""
    bytes: NDArray[np.int64]
    """What each chunk takes in memory, as far as the file tells."""
    stepwise: NDArray[np.bool_]
    """Chunks that may take more than that, and must be read in steps whatever their size."""

    @classmethod
    def of(cls, rows: ArrayLike, sizes: ArrayLike, stepwise: ArrayLike) -> Chunks:
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(rows, dtype=np.int64)])
        return cls(starts, np.asarray(sizes, np.int64), np.asarray(stepwise, np.bool_))


class ChunkReader(Protocol):
    """One columnar file. Safe to use from any thread."""

    chunks: Chunks

    def read(self, first: int, stop: int) -> pa.RecordBatch:
        """The wanted columns of some chunks, at once."""

    def steps(self, chunk: int) -> Iterator[pa.RecordBatch]:
        """The wanted columns of a chunk, in bounded batches if the format allows."""

    def long_rows(self, step: int) -> Iterator[tuple[int, int]]:
        """About where texts longer than a block are, as far as the places of a grid show them."""


@dataclass(frozen=True, slots=True)
class ChunkBlock(FileBlock):
    """Rows of some small chunks, read when they are parsed."""

    reader: ChunkReader
    first: int
    stop: int

    def _parse(self) -> Documents:
        rows = self.reader.read(self.first, self.stop)
        wanted = rows.slice(self.start - int(self.reader.chunks.rows[self.first]), self.end - self.start)
        offsets = np.arange(self.start, self.end, dtype=np.uint64)
        return to_documents(self.source, self.limits, wanted, offsets)


class RangedRows(RangedFile):
    def __init__(self, file: CorpusFile, limits: Limits, reader: ChunkReader) -> None:
        super().__init__(file, limits, int(reader.chunks.rows[-1]))
        self._reader = reader
        self._chunks = reader.chunks

    @property
    def size(self) -> int:
        return sum(int(self._chunks.bytes[chunk]) for chunk in self._wanted(self._file.start, self._stop))

    def long_records(self, step: int) -> Iterator[tuple[int, int]]:
        return self._reader.long_rows(step)

    def _ranges(self) -> Iterator[FileRange]:
        """Whole chunks up to `unit_bytes`, at least one each."""
        start, size = self._file.start, 0
        for chunk in self._wanted(self._file.start, self._stop):
            first_row = int(self._chunks.rows[chunk])
            if size and size + int(self._chunks.bytes[chunk]) > self._limits.unit_bytes:
                yield FileRange(self._file.ordinal, start, first_row)
                start, size = first_row, 0
            size += int(self._chunks.bytes[chunk])
        if start < self._stop:
            yield FileRange(self._file.ordinal, start, self._stop)

    def _blocks(self, start: int, stop: int) -> Iterator[SizedBlock]:
        """Small chunks together, large ones in steps."""
        small: list[int] = []
        size = 0
        for chunk in self._wanted(start, stop):
            nbytes = int(self._chunks.bytes[chunk])
            large = nbytes > self._limits.block_bytes or bool(self._chunks.stepwise[chunk])
            if small and (large or size + nbytes > self._limits.block_bytes):
                yield self._block(small, start, stop)
                small, size = [], 0
            if large:
                yield from self._steps(chunk, start, stop)
            else:
                small.append(chunk)
                size += nbytes
        if small:
            yield self._block(small, start, stop)

    def _wanted(self, start: int, stop: int) -> Iterator[int]:
        """The chunks that have rows in [start, stop)."""
        rows = self._chunks.rows
        for chunk in range(int(np.searchsorted(rows, start, "right")) - 1, len(rows) - 1):
            if rows[chunk] >= stop:
                return
            if rows[chunk] < rows[chunk + 1]:
                yield chunk

    def _block(self, chunks: list[int], start: int, stop: int) -> ChunkBlock:
        first, behind = chunks[0], chunks[-1] + 1
        start, end = self._clip(first, behind, start, stop)
        size = int(self._chunks.bytes[first:behind].sum())
        last = end == self._stop
        return ChunkBlock(self._file, self._limits, start, end, size, last, self._reader, first, behind)

    def _steps(self, chunk: int, start: int, stop: int) -> Iterator[SizedBlock]:
        start, end = self._clip(chunk, chunk + 1, start, stop)
        batches = rows_between(self._reader.steps(chunk), start - int(self._chunks.rows[chunk]), end - start)
        yield from row_blocks(self._file, self._limits, batches, start, to_end=end == self._stop)

    def _clip(self, first: int, behind: int, start: int, stop: int) -> tuple[int, int]:
        return max(start, int(self._chunks.rows[first])), min(stop, int(self._chunks.rows[behind]))


class StreamedRows(SequentialFile):
    """A remote columnar file: the same chunks, read in order."""

    def __init__(self, file: CorpusFile, limits: Limits, reader: ChunkReader) -> None:
        super().__init__(file, limits)
        self._reader = reader

    def _blocks(self, start: int) -> Iterator[SizedBlock]:
        """Blocks from row `start` on; chunks before it are not read."""
        rows = self._reader.chunks.rows
        stop = int(rows[-1]) if self._file.stop is None else min(self._file.stop, int(rows[-1]))
        first = max(0, int(np.searchsorted(rows, start, "right")) - 1)
        batches = (batch for chunk in range(first, len(rows) - 1) for batch in self._reader.steps(chunk))
        wanted = rows_between(batches, start - int(rows[first]), stop - start)
        yield from row_blocks(self._file, self._limits, wanted, start, to_end=True)


def rows_between(batches: Iterator[pa.RecordBatch], skip: int, count: int | None) -> Iterator[pa.RecordBatch]:
    """`count` rows after the first `skip`; all if None. Reads no further than it must."""
    for batch in batches:
        if count is not None and count <= 0:
            return
        if skip >= batch.num_rows:
            skip -= batch.num_rows
            continue
        wanted = batch.slice(skip, count)
        skip = 0
        if count is not None:
            count -= wanted.num_rows
        yield wanted
