"""A JSON array of objects: parsed in order, as it is decoded, by the thread that asks for blocks.

Batches are taken only at fixed distances from the file's beginning. So a run that resumes at a block's end
parses what precedes again, throws it away, and stands exactly where the first run stood. Held in memory: a
chunk, and a block of documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from krill.corpus.blocks import ReadyBlock, SizedBlock
from krill.corpus.formats import CorpusFile, Format
from krill.corpus.readers import DocumentReader, Limits
from krill.corpus.streams import CHUNK_BYTES, DecodedStream


class JsonArray:
    """One file that is a JSON array."""

    def __init__(self, file: CorpusFile, limits: Limits) -> None:
        self._file = file
        self._limits = limits

    def blocks(self, start: int) -> Iterator[SizedBlock]:
        """Blocks of the records that were still open at decoded offset `start`, or begin after it."""
        file, limits = self._file, self._limits
        reader = DocumentReader(file, limits, start)
        with DecodedStream(file) as stream:
            _pass_by(reader, stream, start)
            while chunk := stream.read(CHUNK_BYTES):
                reader.feed(chunk, stream.offset - len(chunk))
                if reader.pending_bytes >= limits.block_bytes:
                    end = stream.offset
                    yield ReadyBlock(reader.take(), file.ordinal, start, end, False, end - start)
                    start = end
            if file.stop is None:  # else the array goes on, unread
                reader.finish()
            end = stream.offset
            yield ReadyBlock(reader.take(), file.ordinal, start, end, True, end - start)


def _pass_by(reader: DocumentReader, stream: DecodedStream, until: int) -> None:
    while stream.offset < until:
        chunk = stream.read(min(CHUNK_BYTES, until - stream.offset))
        if not chunk:
            return
        reader.feed(chunk, stream.offset - len(chunk))
        reader.take()


def as_lines_if_so(file: CorpusFile) -> CorpusFile:
    """A `.json` file that does not begin an array holds JSON lines."""
    if file.format is not Format.JSON_ARRAY:
        return file
    with DecodedStream(file) as stream:
        while head := stream.read(CHUNK_BYTES):
            head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
            if head:
                return replace(file, format=Format.JSON_LINES) if head.startswith(b"{") else file
    return replace(file, format=Format.JSON_LINES)
