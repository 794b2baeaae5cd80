"""Files of runs: records of one size in numbered runs, each of which is read without the rest.

In: records, run after run, and how many each run has. Out: one run of one file, or the runs of one number of
many files end to end. Held in memory: one block, and 16 bytes for each file.

These files pass between workers that may be on different machines. The records stand first, then where each
run begins, then what the file is: so a run is found by two small reads at places that are known, however
many runs there are, and a file that was cut off has no end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from krill.dedup.spill import read_all
from krill.dedup.streams import HASH_BYTES, bytes_of
from krill.storage.atomic import AtomicFile
from krill.storage.commits import damaged, reading_artifact

INDEX_BYTES = 8
MARK = int.from_bytes(b"krillrun", "little")
# How many runs there are, the size of a record, the mark.
END_BYTES = 3 * INDEX_BYTES


class Run(NamedTuple):
    """Where a run stands in its file: the offset of its first byte, and how many records it has."""

    offset: int
    length: int


def end_runs(file: AtomicFile, lengths: NDArray[np.int64], record_bytes: int) -> None:
    """Write what follows the records, which have been written run after run."""
    begins = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=begins[1:])
    if begins[-1] * record_bytes != file.tell():
        raise ValueError(f"{begins[-1]} records of {record_bytes} bytes are not {file.tell()} bytes")
    file.write(bytes_of(begins))
    file.write(bytes_of(np.array([len(lengths), record_bytes, MARK], np.int64)))


@contextmanager
def reading(path: Path) -> Iterator[int]:
    """A file that another worker has written, open for reading at any place."""
    with reading_artifact(path), path.open("rb", buffering=0) as source:
        try:
            yield source.fileno()
        except EOFError:
            raise damaged(path, "shrank while it was read") from None


def find_run(path: Path, number: int, record_bytes: int) -> tuple[Run, int]:
    """One run of a file, and how many there are."""
    with reading(path) as source:
        size = os.fstat(source).st_size
        end = np.zeros(3, np.int64)
        if size >= END_BYTES:
            read_all(source, end, size - END_BYTES)
        runs, found_bytes, mark = end.tolist()
        index = size - END_BYTES - INDEX_BYTES * (runs + 1)
        if mark != MARK or found_bytes != record_bytes or not 0 <= index <= size:
            raise damaged(path, f"is no whole file of records of {record_bytes} bytes")
        if number >= runs:
            raise damaged(path, f"has `{runs}` runs, none of number {number}")
        begins = np.empty(2, np.int64)
        read_all(source, begins, index + INDEX_BYTES * number)
    first, after = begins.tolist()
    if not 0 <= first <= after <= index // record_bytes:
        raise damaged(path, f"has a run that is not in it, number {number}")
    return Run(first * record_bytes, after - first), runs


class RunStream:
    """The runs of one number of many files, end to end: a stream of records of two numbers."""

    def __init__(self, files: Sequence[Path], number: int) -> None:
        self._files = files
        self._offsets = np.empty(len(files), np.int64)
        self.lengths = np.empty(len(files), np.int64)
        """How many records each file gives."""
        self.runs = 0
        """How many runs each file has."""
        for place, file in enumerate(files):
            (self._offsets[place], self.lengths[place]), runs = find_run(file, number, HASH_BYTES)
            if place and runs != self.runs:
                raise damaged(file, f"has `{runs}` runs, where others have {self.runs}")
            self.runs = runs
        self.count = int(self.lengths.sum())

    def blocks(self, records: int) -> Iterator[NDArray[np.uint64]]:
        """All records, `records` at a time but for the last; each block is valid until the next."""
        buffer = np.empty((min(records, self.count), 2), np.uint64)
        filled = 0
        for place, file in enumerate(self._files):
            offset, count = int(self._offsets[place]), int(self.lengths[place])
            if not count:
                continue
            with reading(file) as source:
                while count:
                    piece = buffer[filled : filled + count]
                    read_all(source, piece, offset)
                    filled += len(piece)
                    offset += piece.nbytes
                    count -= len(piece)
                    if filled == len(buffer):
                        yield buffer
                        filled = 0
        if filled:
            yield buffer[:filled]
