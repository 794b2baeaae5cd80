"""Blocks: bounded pieces of input that any thread can turn into documents.

Reading ahead is not done here: a block is made when it is asked for, and whoever asks bounds how many are
in flight by their `nbytes` (`flow.ordered_map`). Held in memory: a `RawBlock` its bytes, a `ReadyBlock` its
batch, the others nothing until they are parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from krill.corpus.documents import Block, Documents, concat
from krill.corpus.formats import CorpusFile
from krill.corpus.readers import DocumentReader, Limits


class SizedBlock(Block, Protocol):
    """A block as the corpus cuts it: its `size` fills blocks and units, and a unit may end with it or not."""

    @property
    def whole(self) -> bool:
        """Whether it ends where a record does, so that a unit may end here."""
        ...


@dataclass(frozen=True, slots=True)
class ReadyBlock:
    """Documents that had to be parsed in order: the thread that asked for the block has done the work."""

    ready: Documents
    file: int
    start: int
    end: int
    last: bool
    size: int
    whole: bool = True

    @property
    def nbytes(self) -> int:
        return int(self.ready.batch.nbytes)

    def documents(self) -> Documents:
        return self.ready


@dataclass(frozen=True, slots=True)
class RawBlock:
    """Decoded bytes of whole records, taken from a stream."""

    source: CorpusFile
    limits: Limits
    data: bytes
    start: int
    last: bool
    whole: bool = True

    @property
    def file(self) -> int:
        return self.source.ordinal

    @property
    def end(self) -> int:
        return self.start + len(self.data)

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def nbytes(self) -> int:
        return 2 * len(self.data)

    def documents(self) -> Documents:
        return parse(self.source, self.limits, self.data, self.start)


@dataclass(frozen=True, slots=True)
class RangeBlock:
    """A range of a local file with whole records, read when it is parsed."""

    source: CorpusFile
    limits: Limits
    start: int
    end: int
    last: bool
    whole: bool = True

    @property
    def file(self) -> int:
        return self.source.ordinal

    @property
    def size(self) -> int:
        return self.end - self.start

    @property
    def nbytes(self) -> int:
        return 2 * self.size

    def documents(self) -> Documents:
        reader = DocumentReader(self.source, self.limits, self.start)
        reader.read_range(self.start, self.end)
        return reader.take()

    @property
    def cleans(self) -> bool:
        """Whether the documents can be had cleaned and hashed at once: the native reader carries no columns
        through that."""
        return not self.source.source.columns

    def clean_documents(self, strip: bool, min_chars: int) -> Documents:
        """What cleaning leaves of the documents, with their hashes, in one native call."""
        reader = DocumentReader(self.source, self.limits, self.start)
        return reader.read_clean(self.start, self.end, strip, min_chars)


@dataclass(frozen=True, slots=True)
class GroupBlock:
    """Several small blocks in one, so that many small files don't cost a hand-over each."""

    blocks: tuple[SizedBlock, ...]

    @property
    def file(self) -> int:
        return self.blocks[-1].file

    @property
    def start(self) -> int:
        return self.blocks[-1].start

    @property
    def end(self) -> int:
        return self.blocks[-1].end

    @property
    def last(self) -> bool:
        return self.blocks[-1].last

    @property
    def whole(self) -> bool:
        return self.blocks[-1].whole

    @property
    def size(self) -> int:
        return sum(block.size for block in self.blocks)

    @property
    def nbytes(self) -> int:
        return self.size + sum(block.nbytes for block in self.blocks)

    def documents(self) -> Documents:
        return concat([block.documents() for block in self.blocks])


def parse(file: CorpusFile, limits: Limits, data: bytes, start: int) -> Documents:
    """The documents in the bytes of whole records."""
    reader = DocumentReader(file, limits, start)
    reader.feed(data, start)
    reader.finish()
    return reader.take()


def parse_in_pieces(
    file: CorpusFile, limits: Limits, chunks: Iterable[tuple[int, bytes]], *, ends_file: Callable[[int], bool]
) -> Iterator[ReadyBlock]:
    """A stretch of whole records too long for a block, parsed as it comes: bounded batches, in order.

    `chunks` are (offset, bytes), each continuing the one before; `ends_file` is asked about the last end.
    """
    reader: DocumentReader | None = None
    start = end = 0
    for offset, chunk in chunks:
        if reader is None:
            reader = DocumentReader(file, limits, offset)
            start = offset
        elif reader.pending_bytes >= limits.block_bytes:
            taken = reader.take()
            if taken.batch.num_rows or taken.counts:
                yield ReadyBlock(taken, file.ordinal, start, end, False, end - start, whole=False)
                start = end
        reader.feed(chunk, offset)
        end = offset + len(chunk)
    if reader is not None:
        reader.finish()
        yield ReadyBlock(reader.take(), file.ordinal, start, end, ends_file(end), end - start)


def gathered(blocks: Iterable[SizedBlock], limit: int) -> Iterator[SizedBlock]:
    """The same blocks, small neighbours as one, up to `limit` bytes of input."""
    waiting: list[SizedBlock] = []
    weight = 0
    for block in blocks:
        if waiting and weight + block.size > limit:
            yield _group(waiting)
            waiting, weight = [], 0
        waiting.append(block)
        weight += block.size
    if waiting:
        yield _group(waiting)


def _group(blocks: list[SizedBlock]) -> SizedBlock:
    return blocks[0] if len(blocks) == 1 else GroupBlock(tuple(blocks))
