"""Plain text, JSON lines and JSON arrays: records in decoded bytes.

JSON lines end at newlines; documents of plain text at a separator, matched from left to right without
overlap. A cut is exact only at the end of a separator that the reader, coming from the left, would match
too. If a separator can overlap itself (a blank line in three newlines), that depends on what precedes. So
cuts are made behind separators that no earlier one overlaps: these are matched wherever reading began.
`Boundaries` finds them in buffers, `next_boundary` in a file.

Held in memory: for files that are cut anywhere a window around the cut; for those read in order a block's
worth of decoded bytes and a chunk, of a JSON array a block of documents.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from functools import cache

from krill import _native
from krill.budget import format_size
from krill.corpus.blocks import (
    RangeBlock,
    RangedFile,
    RawBlock,
    ReadyBlock,
    SequentialFile,
    SizedBlock,
    parse_in_pieces,
)
from krill.corpus.documents import FileRange
from krill.corpus.formats import CorpusFile
from krill.corpus.readers import DocumentReader, Limits, separator_of
from krill.corpus.remote import REPORT_SECONDS, report
from krill.corpus.streams import CHUNK_BYTES, DecodedStream, RangeReader

# Steps to walk back through overlapping separators before matching from the left instead.
_PATIENCE = 64

_SHORT_RECORD = 1 << 13
_FIRST_WINDOW = 1 << 16
_LARGEST_WINDOW = 1 << 20


class Boundaries:
    """The ends of records that `separator` closes; with an empty one there are none."""

    def __init__(self, separator: bytes) -> None:
        self.separator = separator
        self._length = len(separator)
        self._pattern = re.compile(re.escape(separator))
        self._native = _native.Separator(separator)
        self.overlaps_itself = self._native.overlaps_itself

    def first_end(self, buffer: bytes | bytearray, begin: int = 0) -> int:
        """The first boundary in a buffer that begins with a record and has none before `begin`; -1 = none."""
        if not self.separator:
            return -1
        found = buffer.find(self.separator, begin)
        return -1 if found < 0 else found + self._length

    def last_end(self, buffer: bytes | bytearray, *, anchored: bool) -> int:
        """A boundary as late as possible in a buffer that, if `anchored`, begins with a record; -1 = none."""
        if not self.separator:
            return -1
        found = buffer.rfind(self.separator)
        for _ in range(_PATIENCE):
            if found < 0:
                return -1
            overlapped = self._overlapped_from(buffer, found)
            if overlapped < 0:
                decided = anchored or not self.overlaps_itself or found >= self._length - 1
                return found + self._length if decided else -1
            found = overlapped
        if not anchored:
            return -1
        return max((match.end() for match in self._pattern.finditer(buffer)), default=-1)

    def next_certain(self, buffer: bytes, begin: int) -> int:
        """The first boundary behind a separator at or after `begin` that none overlaps; -1 = none."""
        if self.overlaps_itself:
            return self._native.next_certain(buffer, begin)
        return self.first_end(buffer, begin)

    def _overlapped_from(self, buffer: bytes | bytearray, found: int) -> int:
        """The separator before `found` that reaches into it, or -1."""
        if not self.overlaps_itself:
            return -1
        return buffer.rfind(self.separator, max(0, found - self._length + 1), found + self._length - 1)


@cache
def boundaries_of(separator: bytes) -> Boundaries:
    return Boundaries(separator)


def next_boundary(
    boundaries: Boundaries, read: Callable[[int, int], bytes], offset: int, *, start: int, stop: int
) -> int:
    """The first certain boundary at or after `offset`, between `start`, where a record begins, and `stop`.

    It depends on the file alone, and rises with `offset`: so boundaries of a grid cut the records into groups
    of which each record is in exactly one.
    """
    if offset <= start:
        return start
    length = len(boundaries.separator)
    if length == 0:
        return stop
    # The separator may end exactly at `offset`; one that overlaps it begins up to length - 1 before it.
    begin = max(start, offset - length)
    low = max(start, begin - length + 1)
    window = _FIRST_WINDOW
    while low < stop:
        high = min(stop, max(begin, low) + window + 2 * length)
        end = boundaries.next_certain(read(low, high), begin - low)
        if end >= 0:
            return low + end
        if high == stop:
            break
        begin = high - length + 1
        low = max(start, begin - length + 1)
        window = min(window * 4, _LARGEST_WINDOW)
    return stop


class RangedBytes(RangedFile):
    """Uncompressed and local: cut anywhere, so that all threads read one big file.

    A unit is what begins between two lines of a grid of `unit_bytes`; a block is as many whole records as
    fit. The thread that asks for units or blocks only looks for the ends of records, in small windows around
    the cuts. The one exception is a record longer than a block: it is parsed right here, as it is read.
    """

    def __init__(self, file: CorpusFile, limits: Limits) -> None:
        super().__init__(file, limits, file.bytes)
        self._boundaries = boundaries_of(separator_of(file, limits))

    @property
    def size(self) -> int:
        return self._stop - self._file.start

    def _ranges(self) -> Iterator[FileRange]:
        start, unit = self._file.start, self._limits.unit_bytes
        with RangeReader(self._file) as reader:
            for line in range((start // unit + 1) * unit, self._stop, unit):
                if line <= start:  # in a record that is longer than a unit: where it ends was found before
                    continue
                read = _Search(reader).read
                end = next_boundary(self._boundaries, read, line, start=self._file.start, stop=self._stop)
                if end > start:
                    yield FileRange(self._file.ordinal, start, end)
                    start = end
        if start < self._stop:
            yield FileRange(self._file.ordinal, start, self._stop)

    def long_records(self, step: int) -> Iterator[tuple[int, int]]:
        """Where records longer than a block are that reach over a line of a grid of `step`, in order."""
        last = line = self._file.start
        begun: int | None = None  # where the record begins that goes on behind `last`
        with RangeReader(self._file) as reader:
            while (line := line + step) < self._stop:
                start = self._begin_of_record(reader, max(last, line - step), line)
                if begun is not None and start > last:
                    yield begun, self._end_within(reader, last, start)
                    begun = None
                start = start if begun is None else begun
                stop = min(self._stop, line + self._limits.max_document_bytes)
                end = self._end_within(reader, line, stop)
                goes_on = end == stop < self._stop and self._begin_of_record(reader, end - 1, end) < end
                begun = start if goes_on else None
                if end - start > self._limits.block_bytes:
                    last = end
                    if begun is None:
                        yield start, end
                line += max(0, end - line - 1) // step * step
            if begun is not None:
                yield begun, self._end_within(reader, last, self._stop)

    def _end_within(self, reader: RangeReader, start: int, stop: int) -> int:
        """The first boundary from `start` on, else `stop`, or a place as far away as a document is long."""
        stop = min(stop, start + self._limits.max_document_bytes)
        return next_boundary(self._boundaries, reader.read, start, start=self._file.start, stop=stop)

    def _begin_of_record(self, reader: RangeReader, start: int, line: int) -> int:
        """The last boundary up to `line`, else `start`, or a place as far away as a document is long."""
        start = max(start, line - self._limits.max_document_bytes)
        overlap, window = len(self._boundaries.separator), _SHORT_RECORD
        while self._boundaries.separator:
            # A separator may begin before the window and end in it.
            low = max(self._file.start, start + 1 - overlap, line - window)
            end = self._boundaries.last_end(reader.read(low, line), anchored=False)
            if end >= 0:
                return low + end
            if low <= start:
                break
            window *= 4
        return start

    def _blocks(self, start: int, stop: int) -> Iterator[SizedBlock]:
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
        return RangeBlock.of(self._file, self._limits, start, end, last=self._is_stop(end))

    def _is_stop(self, offset: int) -> bool:
        return offset == self._stop

    def _cut(self, reader: RangeReader, start: int, stop: int) -> int:
        """The last boundary that leaves a block within bounds; `start` if the first record is longer."""
        limit = start + self._limits.block_bytes
        if limit >= stop:
            return stop
        window = _FIRST_WINDOW
        while True:
            low = max(start, limit - window)
            end = self._boundaries.last_end(reader.read(low, limit), anchored=low == start)
            if end >= 0:
                return low + end
            if low == start:
                return start
            window *= 4

    def _end_of_record(self, reader: RangeReader, start: int, stop: int) -> int:
        """The end of a record that is known to reach beyond a block."""
        if not self._boundaries.separator:
            return stop
        overlap = len(self._boundaries.separator) - 1
        low = start + self._limits.block_bytes - overlap
        search = _Search(reader)
        while low + overlap < stop:
            high = min(stop, low + overlap + CHUNK_BYTES)
            end = self._boundaries.first_end(search.read(max(low, start), high))
            if end >= 0:
                return max(low, start) + end
            low = high - overlap
        return stop


def _chunks(reader: RangeReader, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    for offset in range(start, end, CHUNK_BYTES):
        yield offset, reader.read(offset, min(end, offset + CHUNK_BYTES))


class _Search:
    """One search for the end of a record: says where it is when it takes long, as a record may be all of a
    terabyte."""

    def __init__(self, reader: RangeReader) -> None:
        self._reader = reader
        self._reported = time.monotonic()

    def read(self, start: int, end: int) -> bytes:
        now = time.monotonic()
        if now - self._reported >= REPORT_SECONDS:
            self._reported = now
            file = self._reader.file
            report(
                f"`{file.path}` has {format_size(file.bytes)}: looking for the end of a record, at"
                f" {format_size(start)}"
            )
        return self._reader.read(start, end)


class StreamedBytes(SequentialFile):
    """Compressed or remote: decoded in order, cut at record ends, parsed by any thread.

    The thread that asks for blocks decompresses; what it hands out are raw bytes of whole records. Where a
    block ends depends on where it begins and on the content, never on how decoding was chunked: so a run that
    resumes at a block's end sees the same blocks.
    """

    def _blocks(self, start: int) -> Iterator[SizedBlock]:
        boundaries = boundaries_of(separator_of(self._file, self._limits))
        limit = self._limits.block_bytes
        with DecodedStream(self._file, start) as stream:
            window = StreamBuffer(stream, start)
            while window.fill(limit + 1):
                if len(window.data) <= limit:
                    end = len(window.data)
                else:
                    end = boundaries.last_end(window.data[:limit], anchored=True)
                if end > 0:
                    offset, data = window.take(end)
                    last = not window.fill(1)
                    yield RawBlock(self._file, self._limits, offset, offset + end, end, last, data)
                else:
                    chunks = window.take_record(boundaries)
                    yield from parse_in_pieces(
                        self._file, self._limits, chunks, ends_file=lambda _: not window.fill(1)
                    )


class StreamBuffer:
    """The decoded bytes that are read and not yet handed out."""

    def __init__(self, stream: DecodedStream, offset: int) -> None:
        self._stream = stream
        self._offset = offset
        self.data = bytearray()

    def fill(self, size: int) -> bool:
        """Have at least `size` bytes, or all there are; false if there are none."""
        while len(self.data) < size:
            chunk = self._stream.read(CHUNK_BYTES)
            if not chunk:
                break
            self.data += chunk
        return bool(self.data)

    def take(self, size: int) -> tuple[int, bytes]:
        offset, data = self._offset, bytes(memoryview(self.data)[:size])
        del self.data[:size]
        self._offset += size
        return offset, data

    def skip_to(self, offset: int) -> None:
        """Discard what comes before `offset`."""
        while self._offset < offset and self.fill(1):
            self.take(min(offset - self._offset, len(self.data)))

    def take_record(self, boundaries: Boundaries) -> Iterator[tuple[int, bytes]]:
        """One record and its separator, in chunks: as many as it takes."""
        overlap = max(0, len(boundaries.separator) - 1)
        searched = 0
        while (end := boundaries.first_end(self.data, searched)) < 0:
            searched = max(0, len(self.data) - overlap)
            while searched >= CHUNK_BYTES:
                yield self.take(CHUNK_BYTES)
                searched -= CHUNK_BYTES
            known = len(self.data)
            self.fill(known + 1)
            if len(self.data) == known:  # the input ends here, and with it the record
                end = known
                break
        while end > 0:
            yield self.take(min(end, CHUNK_BYTES))
            end -= CHUNK_BYTES


class JsonArray(SequentialFile):
    """A JSON array of objects: parsed in order, as it is decoded, by the thread that asks for blocks.

    Batches are taken only at fixed distances from the file's beginning. So a run that resumes at a block's
    end parses what precedes again, discards it, and stands exactly where the first run stood.
    """

    def _blocks(self, start: int) -> Iterator[SizedBlock]:
        """Blocks of the records that were still open at decoded offset `start`, or begin after it."""
        file, limits = self._file, self._limits
        reader = DocumentReader(file, limits, start)
        with DecodedStream(file) as stream:
            for offset, chunk in stream.chunks(start):
                reader.feed(chunk, offset)
                reader.take()
            for offset, chunk in stream.chunks():
                reader.feed(chunk, offset)
                if reader.pending_bytes >= limits.block_bytes:
                    end = stream.offset
                    yield ReadyBlock(reader.take(), file.ordinal, start, end, False, end - start)
                    start = end
            if file.stop is None:  # else the array goes on, unread
                reader.finish()
            end = stream.offset
            yield ReadyBlock(reader.take(), file.ordinal, start, end, True, end - start)
