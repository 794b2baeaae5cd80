"""Records that wait on disk: rows of a few numbers, appended by any thread, read back in blocks.

In: arrays of uint64, shape (n, columns). Out: the same rows, in the order in which they were appended. Held
in memory: one block while reading. The file has no name: it vanishes with the process, however it ends.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from krill.dedup.spill import read_all, write_all
from krill.dedup.streams import HashStream
from krill.storage.atomic import storage_errors


class RecordFile:
    """A file of rows; also a `HashStream` if it has two columns."""

    def __init__(self, folder: Path, columns: int = 2) -> None:
        self._folder = folder
        self._columns = columns
        self._rows = 0
        self._lock = threading.Lock()
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115  closed by __exit__

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the disk back."""
        self._file.close()

    @property
    def count(self) -> int:
        return self._rows

    @property
    def descriptor(self) -> int:
        """The open file."""
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
