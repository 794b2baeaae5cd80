"""Files of HTML: each is one page, whose `url` and `id` are the path of the file.

In: local files, also compressed, or remote ones. Out: blocks of one page each; small ones are gathered.
Held in memory: a page of up to `max_page_bytes`; what is larger is counted, and read no further.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from krill.corpus.blocks import FileBlock, RangedFile, SequentialFile, SizedBlock
from krill.corpus.documents import Documents, FileRange
from krill.corpus.formats import CorpusFile
from krill.corpus.pages import WebPage, checked_page, page_documents
from krill.corpus.readers import Limits
from krill.corpus.streams import CHUNK_BYTES, DecodedStream


@dataclass(frozen=True, slots=True)
class HtmlBlock(FileBlock):
    """A file that is read when it is parsed."""

    @property
    def nbytes(self) -> int:
        return 2 * min(self.size, self.source.source.max_page_bytes)

    def _parse(self) -> Documents:
        return _documents(self.source, _head(self.source))


@dataclass(frozen=True, slots=True)
class ReadHtmlBlock(FileBlock):
    """A file that had to be read in order."""

    data: bytes

    def _parse(self) -> Documents:
        return _documents(self.source, self.data)


class RangedHtml(RangedFile):
    """Local and not compressed: read by the thread that parses it."""

    def __init__(self, file: CorpusFile, limits: Limits) -> None:
        super().__init__(file, limits, file.bytes)

    @property
    def size(self) -> int:
        return self._file.bytes

    def _ranges(self) -> Iterator[FileRange]:
        yield self.whole()

    def _blocks(self, start: int, stop: int) -> Iterator[SizedBlock]:
        yield HtmlBlock(self._file, self._limits, start, stop, self.size, True)


class HtmlFile(SequentialFile):
    """Compressed or remote."""

    def _blocks(self, start: int) -> Iterator[SizedBlock]:
        data = _head(self._file)
        yield ReadHtmlBlock(self._file, self._limits, 0, len(data), len(data), True, data)


def _head(file: CorpusFile) -> bytes:
    """All of a file, or one byte more than a page may have."""
    read = bytearray()
    limit = file.source.max_page_bytes + 1
    with DecodedStream(file) as stream:
        while len(read) < limit and (chunk := stream.read(min(CHUNK_BYTES, limit - len(read)))):
            read += chunk
    return bytes(read)


def _documents(file: CorpusFile, data: bytes) -> Documents:
    name = file.path.encode()
    page = WebPage(0, data, name, b"", name, b"text/html", b"")
    found = checked_page(page, file.source.max_page_bytes)
    if isinstance(found, str):
        return page_documents(file, [], {found: 1})
    return page_documents(file, [found], {})
