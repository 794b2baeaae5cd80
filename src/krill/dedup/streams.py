"""The two ends of dedup: numbers of all units as one stream in, keep bits and other results cut into units
out.

In: files of raw little-endian uint64, one per unit: pairs (hashes), or some for each document (bands). Out:
files of packed bits, lowest bit first, or of records, one per unit, each written under a temporary name,
synced and renamed. Held in memory: one block, whatever the units' sizes are.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from krill.storage.atomic import AtomicFile, undo_on_error
from krill.storage.commits import damaged, reading_artifact

HASH_BYTES = 16


class HashStream(Protocol):
    """Hashes in input order that can be read several times."""

    @property
    def count(self) -> int: ...

    def blocks(self, records: int) -> Iterator[NDArray[np.uint64]]:
        """All hashes, shape (n, 2), `records` at a time but for the last; each is valid until the next."""


def bytes_of(array: NDArray[Any]) -> memoryview:
    """The memory of a contiguous array, for reading into and writing from."""
    return array.reshape(-1).view(np.uint8).data


class UnitHashes:
    """The hash files of all units, end to end; `prior` ones come before them."""

    def __init__(self, files: Sequence[Path], prior: Sequence[Path] = ()) -> None:
        self._files = [*prior, *files]
        sizes = [records_in(file, HASH_BYTES) for file in self._files]
        self.prior = sum(sizes[: len(prior)])
        self.counts = sizes[len(prior) :]
        self.count = sum(sizes)

    def blocks(self, records: int) -> Iterator[NDArray[np.uint64]]:
        for block in number_blocks(self._files, 2 * records):
            yield block.reshape(-1, 2)


class BandRecords:
    """Band files of all units as records (document, band), `bands` for each document, documents rising from
    `first`."""

    def __init__(
        self, files: Sequence[Path], bands: int, prior: Sequence[Path] = (), *, first: int = 0
    ) -> None:
        self._files = [*prior, *files]
        self._bands = bands
        self._first = first
        sizes = [records_in(file, 8 * bands) for file in self._files]
        self.prior = sum(sizes[: len(prior)])
        self.counts = sizes[len(prior) :]
        self.documents = sum(sizes)

    @property
    def count(self) -> int:
        return self.documents * self._bands

    def blocks(self, records: int) -> Iterator[NDArray[np.uint64]]:
        first = self._first * self._bands
        buffer = np.empty((min(records, self.count), 2), np.uint64)
        for values in number_blocks(self._files, records):
            block = buffer[: len(values)]
            block[:, 0] = np.arange(first, first + len(values), dtype=np.uint64)
            block[:, 0] //= np.uint64(self._bands)
            block[:, 1] = values
            first += len(values)
            yield block


def number_blocks(files: Sequence[Path], size: int) -> Iterator[NDArray[np.uint64]]:
    """All numbers of some files, `size` at a time but for the last; each block is valid until the next."""
    counts = [records_in(file, 8) for file in files]
    buffer = np.empty(min(size, sum(counts)), np.uint64)
    return read_blocks(buffer, ((reading(file), 0, count) for file, count in zip(files, counts, strict=True)))


RecordRange = tuple[AbstractContextManager[int], int, int]
"""An open file as its descriptor, the offset of the first record, and how many records follow."""


def read_blocks(buffer: NDArray[np.uint64], ranges: Iterable[RecordRange]) -> Iterator[NDArray[np.uint64]]:
    """The records of some ranges, end to end, in blocks that fill the buffer but for the last; each block is
    valid until the next."""
    filled = 0
    for opened, offset, count in ranges:
        if not count:
            continue
        with opened as descriptor:
            while count:
                view = buffer[filled : filled + count]
                read_all(descriptor, view, offset)
                filled += len(view)
                offset += view.nbytes
                count -= len(view)
                if filled == len(buffer):
                    yield buffer
                    filled = 0
    if filled:
        yield buffer[:filled]


@contextmanager
def reading(path: Path) -> Iterator[int]:
    """A file that an earlier stage or another worker has written, open for reading at any offset."""
    with reading_artifact(path), path.open("rb", buffering=0) as source:
        try:
            yield source.fileno()
        except EOFError:
            raise damaged(path, "shrank while it was read") from None


def read_all(descriptor: int, array: NDArray[Any], offset: int) -> None:
    view = bytes_of(array)
    while view:
        read = os.preadv(descriptor, [view], offset)
        if read == 0:
            raise EOFError(f"a spill file ends before byte {offset + len(view)}")
        view = view[read:]
        offset += read


def write_all(descriptor: int, array: NDArray[Any], offset: int) -> int:
    """Write the array at `offset`; returns where it ends."""
    view = bytes_of(array)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view = view[written:]
        offset += written
    return offset


def write_keep_files(
    flags: Iterable[NDArray[np.uint8]], counts: Sequence[int], files: Sequence[Path], *, skip: int = 0
) -> int:
    """Cut the stream of flags, but for the first `skip`, into units of `counts` and write their bits; returns
    how many of them are 0."""
    blocks = _without_first(flags, skip)
    block = np.empty(0, np.uint8)
    dropped = 0
    for count, path in zip(counts, files, strict=True):
        bits = _BitFile(path)
        with undo_on_error(bits.abort):
            while count:
                if not len(block):
                    block = next(blocks)
                piece, block = block[:count], block[count:]
                dropped += len(piece) - int(np.count_nonzero(piece))
                count -= len(piece)
                bits.write(piece)
            bits.commit()
    return dropped


def _without_first(blocks: Iterable[NDArray[np.uint8]], skip: int) -> Iterator[NDArray[np.uint8]]:
    for block in blocks:
        if skip < len(block):
            yield block[skip:]
        skip = max(0, skip - len(block))


class _BitFile:
    """A file of packed bits that is written piecewise: a byte is written when its eight flags are there."""

    def __init__(self, path: Path) -> None:
        self._file = AtomicFile(path)
        self._open = np.empty(0, np.uint8)

    def write(self, flags: NDArray[np.uint8]) -> None:
        if len(self._open):
            missing = 8 - len(self._open)
            self._open = np.concatenate((self._open, flags[:missing]))
            flags = flags[missing:]
            if len(self._open) < 8:
                return
            self._file.write(np.packbits(self._open, bitorder="little"))
        whole = len(flags) - len(flags) % 8
        self._file.write(np.packbits(flags[:whole], bitorder="little"))
        self._open = flags[whole:].copy()

    def commit(self) -> None:
        self._file.write(np.packbits(self._open, bitorder="little"))
        self._file.commit()

    def abort(self) -> None:
        self._file.abort()


class UnitRecords:
    """Files of records, one per unit, written piecewise in input order; each is whole or absent."""

    def __init__(self, counts: Sequence[int], files: Sequence[Path]) -> None:
        self._units = iter(list(zip(counts, files, strict=True)))
        self._file: AtomicFile | None = None
        self._missing = 0

    def write(self, records: NDArray[Any]) -> None:
        """Append records; however they are cut, each unit gets its count."""
        while len(records):
            while not self._missing:
                if not self._next_unit():
                    raise ValueError("there are more records than documents")
            assert self._file is not None
            piece, records = records[: self._missing], records[self._missing :]
            self._file.write(bytes_of(piece))
            self._missing -= len(piece)

    def finish(self) -> None:
        """All records were given; units without any get their files as well."""
        while self._next_unit():
            pass

    def abort(self) -> None:
        if self._file is not None:
            self._file.abort()

    def _next_unit(self) -> bool:
        """Commit the unit that is open, which is full, and begin the next, if there is one."""
        if self._file is not None:
            self._file.commit()
            self._file = None
        unit = next(self._units, None)
        if unit is None:
            return False
        self._missing, path = unit
        self._file = AtomicFile(path)
        return True


def records_in(file: Path, size: int) -> int:
    with reading_artifact(file):
        total = file.stat().st_size
    if total % size:
        raise damaged(file, f"has `{total}` bytes, not a multiple of {size}")
    return total // size
