"""The two ends of dedup: hashes of all units as one stream in, keep bits cut into units out.

In: files of raw little-endian uint64 pairs, one per unit. Out: files of packed bits, lowest bit first, one
per unit, each written under a temporary name, synced and renamed. Held in memory: one block of hashes,
whatever the units' sizes are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from krill.flow.atomic import AtomicFile
from krill.flow.commits import damaged, reading_artifact

HASH_BYTES = 16


class HashStream(Protocol):
    """Hashes in input order that can be read several times."""

    @property
    def count(self) -> int: ...

    def blocks(self, records: int) -> Iterator[NDArray[np.uint64]]:
        """All hashes, shape (n, 2), `records` at a time but for the last; each is valid until the next."""
        ...


def bytes_of(array: NDArray[Any]) -> memoryview:
    """The memory of a contiguous array, for reading into and writing from."""
    return array.reshape(-1).view(np.uint8).data


class UnitHashes:
    """The hash files of all units, end to end."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = files
        self.counts = [_hashes_in(file) for file in files]

    @property
    def count(self) -> int:
        return sum(self.counts)

    def blocks(self, records: int) -> Iterator[NDArray[np.uint64]]:
        buffer = np.empty((min(records, self.count), 2), np.uint64)
        filled = 0
        for file, count in zip(self.files, self.counts, strict=True):
            with reading_artifact(file), file.open("rb", buffering=0) as source:
                while count:
                    piece = buffer[filled : filled + count]
                    if source.readinto(bytes_of(piece)) != piece.nbytes:
                        raise damaged(file, "shrank while it was read")
                    filled += len(piece)
                    count -= len(piece)
                    if filled == len(buffer):
                        yield buffer
                        filled = 0
        if filled:
            yield buffer[:filled]


def write_keep_files(flags: Iterable[NDArray[np.uint8]], counts: Sequence[int], files: Sequence[Path]) -> int:
    """Cut the stream of flags into units of `counts` and write their bits; returns how many flags are 0."""
    blocks = iter(flags)
    block = np.empty(0, np.uint8)
    dropped = 0
    for count, path in zip(counts, files, strict=True):
        bits = _BitFile(path)
        try:
            while count:
                if not len(block):
                    block = next(blocks)
                piece, block = block[:count], block[count:]
                dropped += len(piece) - int(np.count_nonzero(piece))
                count -= len(piece)
                bits.write(piece)
            bits.commit()
        except BaseException:
            bits.abort()
            raise
    return dropped


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


def _hashes_in(file: Path) -> int:
    with reading_artifact(file):
        size = file.stat().st_size
    if size % HASH_BYTES:
        raise damaged(file, f"has `{size}` bytes, not a multiple of {HASH_BYTES}")
    return size // HASH_BYTES
