"""What one task has counted, in a file: words in sorted segments, then which segments there are.

The file tells all of itself, so that a task that was run twice may write it twice: its words are the same,
though not its segments. Held in memory: the segments' places.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from krill.storage.atomic import TEMPORARY_SUFFIX, fsync_dir, storage_errors
from krill.storage.commits import damaged, reading_artifact

SHARDS: Final = 64
"""By which the native counter parts words; a segment holds words of one."""

COUNTED: Final = "words"
"""What the file is called among a task's artifacts."""

_ROW: Final = 24
_MARK: Final = 0x7364726F772E726B
_COPIED_AT_ONCE: Final = 1 << 20


@contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """A path to write to, whose file gets its name when the body ends; the body syncs what it writes."""
    with scratch_beside(path) as temporary:
        yield temporary
        with storage_errors(path):
            temporary.replace(path)
        fsync_dir(path.parent)


@contextmanager
def scratch_beside(path: Path) -> Iterator[Path]:
    """A path for what nobody needs after the body; a run that goes on sweeps away what a killed one left."""
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}{TEMPORARY_SUFFIX}")
    try:
        yield temporary
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def append_index(path: Path, segments: NDArray[np.uint64], size: int) -> int:
    """Finish the file into whose first `size` bytes a counter has spilled `segments`; returns its bytes."""
    tail = np.array([[len(segments), size, _MARK]], np.uint64)
    index = np.concatenate([segments, tail]).astype("<u8").tobytes()
    with storage_errors(path), path.open("r+b") as file:
        file.truncate(size)
        file.seek(size)
        file.write(index)
        file.flush()
        os.fsync(file.fileno())
    return size + len(index)


class Gathered:
    """The segments of some shards, of any number of files, one after the other in the file `spill`."""

    def __init__(self, spill: Path, shards: range) -> None:
        self._spill = spill
        self._shards = shards
        self._segments: list[NDArray[np.uint64]] = []
        self.size = 0
        with storage_errors(spill):
            self._file = spill.open("wb")

    def close(self) -> None:
        """Nothing more is added."""
        with storage_errors(self._spill):
            self._file.close()

    @property
    def segments(self) -> NDArray[np.uint64]:
        """Rows of shard, begin, end."""
        return np.concatenate(self._segments) if self._segments else np.empty((0, 3), np.uint64)

    def add(self, path: Path) -> None:
        """The segments of one more file."""
        with reading_artifact(path), path.open("rb", buffering=0) as file:
            segments = _read_index(file, path)
            wanted = (segments[:, 0] >= self._shards.start) & (segments[:, 0] < self._shards.stop)
            segments = segments[wanted]
            moved = segments.copy()
            for begin, end, first, last in _neighbours(segments):
                moved[first:last, 1:] = segments[first:last, 1:] - begin + self.size
                self._copy(file, path, begin, end)
        self._segments.append(moved)

    def _copy(self, file: BinaryIO, path: Path, begin: int, end: int) -> None:
        file.seek(begin)
        while begin < end:
            some = file.read(min(_COPIED_AT_ONCE, end - begin))
            if not some:
                raise damaged(path, "is shorter than it was")
            with storage_errors(self._spill):
                self._file.write(some)
            begin += len(some)
            self.size += len(some)


def _read_index(file: BinaryIO, path: Path) -> NDArray[np.uint64]:
    whole = file.seek(0, os.SEEK_END)
    count, size, mark = _rows(file, whole - _ROW, 1)[0].tolist() if whole >= _ROW else (0, 0, 0)
    if mark != _MARK or whole != size + (count + 1) * _ROW:
        raise damaged(path, "does not end as it was written")
    return _rows(file, size, count)


def _rows(file: BinaryIO, begin: int, count: int) -> NDArray[np.uint64]:
    file.seek(begin)
    content = bytearray()
    while len(content) < count * _ROW and (some := file.read(count * _ROW - len(content))):
        content += some
    return np.frombuffer(content, "<u8").reshape(-1, 3).astype(np.uint64)


def _neighbours(segments: NDArray[np.uint64]) -> Iterator[tuple[int, int, int, int]]:
    """Segments that follow each other in the file: where their bytes begin and end, and which they are."""
    breaks = np.flatnonzero(segments[1:, 1] != segments[:-1, 2]) + 1
    edges = [0, *breaks.tolist(), len(segments)]
    for first, last in pairwise(edges):
        if first < last:
            yield int(segments[first, 1]), int(segments[last - 1, 2]), first, last
