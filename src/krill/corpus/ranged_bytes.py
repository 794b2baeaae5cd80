"""Uncompressed JSON lines and plain text: cut anywhere, so that all threads read one big file.

A unit is what begins between two lines of a grid of `unit_bytes`; a block is as many whole records as fit.
The thread that asks for units or blocks only looks for record borders, in small windows around the cuts.
The one exception is a record longer than a block: it is parsed right here, as it is read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from krill.budget import format_size
from krill.corpus.blocks import RangeBlock, SizedBlock, parse_in_pieces
from krill.corpus.borders import borders_of, next_border
from krill.corpus.documents import Part
from krill.corpus.formats import CorpusFile
from krill.corpus.readers import Limits, separator_of
from krill.corpus.remote_waiting import SAID_EVERY, say
from krill.corpus.streams import CHUNK_BYTES, RangeReader

_FIRST_WINDOW = 1 << 16


class _Search:
    """One search for a border: says where it is when it takes long, as a record may be all of a terabyte."""

    def __init__(self, reader: RangeReader) -> None:
        self._reader = reader
        self._said = time.monotonic()

    def read(self, start: int, end: int) -> bytes:
        now = time.monotonic()
        if now - self._said >= SAID_EVERY:
            self._said = now
            file = self._reader.file
            say(
                f"`{file.path}` has {format_size(file.bytes)}: looking for the end of a record, at"
                f" {format_size(start)}"
            )
        return self._reader.read(start, end)


class RangedBytes:
    """One file of records that end at a separator."""

    def __init__(self, file: CorpusFile, limits: Limits) -> None:
        self._file = file
        self._limits = limits
        self._borders = borders_of(separator_of(file, limits))
        self._stop = file.bytes if file.stop is None else file.stop

    @property
    def size(self) -> int:
        """Bytes of input that are wanted."""
        return self._stop - self._file.start

    def whole(self) -> Part:
        """All that is wanted."""
        return Part(self._file.ordinal, self._file.start, self._stop)

    def parts(self) -> Iterator[Part]:
        """The file in pieces of about `unit_bytes`, none empty."""
        start, unit = self._file.start, self._limits.unit_bytes
        with RangeReader(self._file) as reader:
            for line in range((start // unit + 1) * unit, self._stop, unit):
                if line <= start:  # in a record that is longer than a unit: where it ends was found before
                    continue
                read = _Search(reader).read
                end = next_border(self._borders, read, line, start=self._file.start, stop=self._stop)
                if end > start:
                    yield Part(self._file.ordinal, start, end)
                    start = end
        if start < self._stop:
            yield Part(self._file.ordinal, start, self._stop)

    def blocks(self, part: Part) -> Iterator[SizedBlock]:
        """Blocks of whole records."""
        start, stop = part.start, self._stop if part.end is None else part.end
        if stop - start <= self._limits.block_bytes:  # most files of a folder: not even opened here
            yield self._block(start, stop)
            return
        with RangeReader(self._file) as reader:
            while start < stop:
                end = self._cut(reader, start, stop)
                if end > start:
                    yield self._block(start, end)
                else:
                    end = self._end_of_record(reader, start, stop)
                    chunks = _chunks(reader, start, end)
                    yield from parse_in_pieces(self._file, self._limits, chunks, ends_file=self._is_stop)
                start = end

    def _block(self, start: int, end: int) -> RangeBlock:
        return RangeBlock(self._file, self._limits, start, end, last=self._is_stop(end))

    def _is_stop(self, offset: int) -> bool:
        return offset == self._stop

    def _cut(self, reader: RangeReader, start: int, stop: int) -> int:
        """The last border that leaves a block within bounds; `start` if the first record is longer."""
        limit = start + self._limits.block_bytes
        if limit >= stop:
            return stop
        window = _FIRST_WINDOW
        while True:
            low = max(start, limit - window)
            end = self._borders.last_end(reader.read(low, limit), anchored=low == start)
            if end >= 0:
                return low + end
            if low == start:
                return start
            window *= 4

    def _end_of_record(self, reader: RangeReader, start: int, stop: int) -> int:
        """The end of a record that is known to reach beyond a block."""
        if not self._borders.separator:
            return stop
        overlap = len(self._borders.separator) - 1
        low = start + self._limits.block_bytes - overlap
        search = _Search(reader)
        while low + overlap < stop:
            high = min(stop, low + overlap + CHUNK_BYTES)
            end = self._borders.first_end(search.read(max(low, start), high))
            if end >= 0:
                return max(low, start) + end
            low = high - overlap
        return stop


def _chunks(reader: RangeReader, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    for offset in range(start, end, CHUNK_BYTES):
        yield offset, reader.read(offset, min(end, offset + CHUNK_BYTES))
