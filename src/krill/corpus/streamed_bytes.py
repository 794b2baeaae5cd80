"""Compressed or remote JSON lines and plain text: decoded in order, cut at record ends, parsed by any thread.

The thread that asks for blocks decompresses; what it hands out are raw bytes of whole records. Where a
block ends depends on where it begins and on the content, never on how decoding was chunked: so a run that
resumes at a block's end sees the same blocks. Held in memory: a block's worth of decoded bytes and a chunk.
"""

from __future__ import annotations

from collections.abc import Iterator

from krill.corpus.blocks import RawBlock, SizedBlock, parse_in_pieces
from krill.corpus.borders import Borders, borders_of
from krill.corpus.formats import CorpusFile
from krill.corpus.readers import Limits, separator_of
from krill.corpus.streams import CHUNK_BYTES, DecodedStream


class StreamedBytes:
    """One file of records that end at a separator, read from its beginning."""

    def __init__(self, file: CorpusFile, limits: Limits) -> None:
        self._file = file
        self._limits = limits
        self._borders = borders_of(separator_of(file, limits))

    def blocks(self, start: int) -> Iterator[SizedBlock]:
        """Blocks from the record at `start` on; what precedes is decoded and thrown away."""
        limit = self._limits.block_bytes
        with DecodedStream(self._file, start) as stream:
            window = Window(stream, start)
            while window.fill(limit + 1):
                if len(window.data) <= limit:
                    end = len(window.data)
                else:
                    end = self._borders.last_end(window.data[:limit], anchored=True)
                if end > 0:
                    offset, data = window.take(end)
                    yield RawBlock(self._file, self._limits, data, offset, last=not window.fill(1))
                else:
                    chunks = window.take_record(self._borders)
                    yield from parse_in_pieces(
                        self._file, self._limits, chunks, ends_file=lambda _: not window.fill(1)
                    )


class Window:
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
        """The next `size` bytes and their offset."""
        offset, data = self._offset, bytes(memoryview(self.data)[:size])
        del self.data[:size]
        self._offset += size
        return offset, data

    def skip_to(self, offset: int) -> None:
        """Throw away what comes before `offset`."""
        while self._offset < offset and self.fill(1):
            self.take(min(offset - self._offset, len(self.data)))

    def take_record(self, borders: Borders) -> Iterator[tuple[int, bytes]]:
        """One record and its separator, in chunks: as many as it takes."""
        overlap = max(0, len(borders.separator) - 1)
        searched = 0
        while (end := borders.first_end(self.data, searched)) < 0:
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
