"""Blocks: bounded pieces of input that any thread can turn into documents, and the files that give them.

Reading ahead is not done here: a block is made when it is asked for, and the caller bounds how many are
in flight by their `nbytes` (`threads.ordered_map`). Held in memory: a `RawBlock` its bytes, a `ReadyBlock`
its batch, the others nothing until they are parsed.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Protocol, Self

from krill.corpus.documents import Block, Documents, FileRange, concat
from krill.corpus.file_table import FileTable
from krill.corpus.formats import CorpusFile
from krill.corpus.readers import DocumentReader, FilesReader, Limits
from krill.corpus.streams import input_errors, read_in_order

# Names of files that are given to the native reader in one call.
_FILES_AT_ONCE = 256

# What a small block takes besides its bytes: itself, its file, their names.
_OBJECT_BYTES = 500

# Batches that are joined to one: each takes kilobytes besides its rows.
_BATCHES_AT_ONCE = 64


class SizedBlock(Block, Protocol):
    """A block as the corpus cuts it: its `size` fills blocks and units, and a unit may end with it or not."""

    @property
    def whole(self) -> bool:
        """Whether it ends where a record does, so that a unit may end here."""


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
        return 2 * int(self.ready.batch.nbytes)  # its parser has the bytes as well

    def documents(self) -> Documents:
        return self.ready


@dataclass(frozen=True, slots=True)
class FileBlock(ABC):
    """Records of one file, which the thread that parses turns into documents."""

    source: CorpusFile
    limits: Limits
    start: int
    end: int
    size: int
    last: bool

    @property
    def file(self) -> int:
        return self.source.ordinal

    @property
    def whole(self) -> bool:
        return True

    @property
    def nbytes(self) -> int:
        return 2 * self.size  # as they are read, and as documents

    def documents(self) -> Documents:
        with input_errors(self.source):
            return self._parse()

    @abstractmethod
    def _parse(self) -> Documents: ...


@dataclass(frozen=True, slots=True)
class RawBlock(FileBlock):
    """Decoded bytes of whole records, taken from a stream."""

    data: bytes

    def _parse(self) -> Documents:
        reader = DocumentReader(self.source, self.limits, self.start)
        reader.feed(self.data, self.start)
        reader.finish()
        return reader.take()


@dataclass(frozen=True, slots=True)
class RangeBlock(FileBlock):
    """A range of a local file with whole records, read when it is parsed."""

    @classmethod
    def of(cls, file: CorpusFile, limits: Limits, start: int, end: int, *, last: bool) -> Self:
        return cls(file, limits, start, end, end - start, last)

    def _parse(self) -> Documents:
        reader = DocumentReader(self.source, self.limits, self.start)
        reader.read_range(self.start, self.end)
        return reader.take()

    @property
    def cleans(self) -> bool:
        """Whether `clean_documents` can be called: it carries no columns."""
        return not self.source.source.columns

    def clean_documents(self, strip: bool, min_chars: int) -> Documents:
        """What cleaning leaves of the documents, with their hashes, in one native call; and what it dropped,
        without reasons."""
        reader = DocumentReader(self.source, self.limits, self.start)
        return reader.read_clean(self.start, self.end, strip, min_chars)


class FilesBlock:
    """Whole small files of one source and format, as numbers: a megabyte may be thousands of them.

    They are read by one native reader; an object for each, and a batch, would take far more than the text.
    """

    def __init__(self, files: FileTable, limits: Limits, first: RangeBlock) -> None:
        self._files = files
        self._limits = limits
        self._kind = first.source.source, first.source.format
        self._ordinals, self._starts, self._ends = (array("Q") for _ in range(3))
        self.size = 0
        self.last = self.whole = True
        self.add(first)

    def add(self, block: SizedBlock) -> bool:
        """Make a block a part of this one, if it is of the same kind and ends its file."""
        if not isinstance(block, RangeBlock) or not block.last:
            return False
        if (block.source.source, block.source.format) != self._kind:
            return False
        self.file, self.start, self.end = block.file, block.start, block.end
        self._ordinals.append(block.file)
        self._starts.append(block.start)
        self._ends.append(block.end)
        self.size += block.size
        return True

    @property
    def nbytes(self) -> int:
        return 2 * self.size + 3 * 8 * len(self._ordinals)

    def documents(self) -> Documents:
        reader = FilesReader(self._files[self._ordinals[0]], self._limits)
        for first in range(0, len(self._ordinals), _FILES_AT_ONCE):
            some = slice(first, first + _FILES_AT_ONCE)
            paths = [os.fsencode(self._files[ordinal].location) for ordinal in self._ordinals[some]]
            try:
                doubtful = reader.read(paths, self._ordinals[some], self._starts[some], self._ends[some])
            except (OSError, EOFError, ValueError):
                self._check(range(first, first + len(paths)))
                raise
            self._check(first + index for index in doubtful)
        return reader.take()

    def _check(self, places: Iterable[int]) -> None:
        """Say what is wrong with the first of these files that has a fault: each is read alone for that."""
        for at in places:
            file = self._files[self._ordinals[at]]
            RangeBlock.of(file, self._limits, self._starts[at], self._ends[at], last=True).documents()


class GroupBlock:
    """Several small blocks in one, so that many small files don't cost a hand-over each."""

    def __init__(self, blocks: Sequence[SizedBlock]) -> None:
        self._blocks = blocks
        final = blocks[-1]
        self.file, self.start, self.end = final.file, final.start, final.end
        self.last, self.whole = final.last, final.whole
        self.size = sum(block.size for block in blocks)
        self.nbytes = self.size + sum(block.nbytes for block in blocks) + _OBJECT_BYTES * len(blocks)

    def documents(self) -> Documents:
        gathered: list[Documents] = []
        for block in self._blocks:
            gathered.append(block.documents())
            if len(gathered) == _BATCHES_AT_ONCE:
                gathered = [concat(gathered)]
        return concat(gathered)


def parse_in_pieces(
    file: CorpusFile, limits: Limits, chunks: Iterable[tuple[int, bytes]], *, ends_file: Callable[[int], bool]
) -> Iterator[ReadyBlock]:
    """A range of whole records too long for a block, parsed as it comes: bounded batches, in order.

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


class RangedFile(ABC):
    """A file that can be read from any record on: units and blocks are known without reading it."""

    def __init__(self, file: CorpusFile, limits: Limits, stop: int) -> None:
        self._file = file
        self._limits = limits
        self._stop = stop if file.stop is None else min(file.stop, stop)

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes of input that are wanted."""

    def whole(self) -> FileRange:
        """All that is wanted."""
        return FileRange(self._file.ordinal, self._file.start, self._stop)

    def ranges(self) -> Iterator[FileRange]:
        """The same in ranges of about `unit_bytes`, none empty."""
        return read_in_order(self._file, self._ranges())

    def blocks(self, wanted: FileRange) -> Iterator[SizedBlock]:
        return read_in_order(
            self._file, self._blocks(wanted.start, self._stop if wanted.end is None else wanted.end)
        )

    def long_records(self, step: int) -> Iterator[tuple[int, int]]:
        """Where records longer than a block are that reach over a line of a grid of `step`, in order; none
        where that can't be seen without reading all of it."""
        return iter(())

    @abstractmethod
    def _ranges(self) -> Iterator[FileRange]: ...

    @abstractmethod
    def _blocks(self, start: int, stop: int) -> Iterator[SizedBlock]: ...


class SequentialFile(ABC):
    """A file that can only be read from its beginning."""

    def __init__(self, file: CorpusFile, limits: Limits) -> None:
        self._file = file
        self._limits = limits

    def blocks(self, start: int) -> Iterator[SizedBlock]:
        """All blocks from `start`, a block's end, on; what precedes is skipped."""
        return read_in_order(self._file, self._blocks(start))

    @abstractmethod
    def _blocks(self, start: int) -> Iterator[SizedBlock]: ...


def gathered(blocks: Iterable[SizedBlock], limit: int, files: FileTable) -> Iterator[SizedBlock]:
    """The same blocks, small neighbours as one, up to `limit` bytes of input; `files` are the corpus'."""
    waiting: list[SizedBlock] = []
    weight = 0
    for block in blocks:
        if waiting and weight + block.size > limit:
            yield _group(waiting)
            waiting, weight = [], 0
        _wait(waiting, block, files)
        weight += block.size
    if waiting:
        yield _group(waiting)


def _wait(waiting: list[SizedBlock], block: SizedBlock, files: FileTable) -> None:
    """Add a block to those that will be one, in as few objects as possible."""
    before = waiting[-1] if waiting else None
    if isinstance(before, RangeBlock) and before.last and isinstance(block, RangeBlock) and block.last:
        waiting[-1] = before = FilesBlock(files, before.limits, before)
    if not (isinstance(before, FilesBlock) and before.add(block)):
        waiting.append(block)
    if len(waiting) % _BATCHES_AT_ONCE == 0:
        _join_ready(waiting)


def _join_ready(waiting: list[SizedBlock]) -> None:
    """Documents that are parsed already, of many small files, as one batch."""
    count = sum(1 for _ in takewhile(lambda block: isinstance(block, ReadyBlock), reversed(waiting)))
    ready = [block for block in waiting[len(waiting) - count :] if isinstance(block, ReadyBlock)]
    if ready:
        del waiting[len(waiting) - count :]
        size = sum(block.size for block in ready)
        waiting.append(replace(ready[-1], ready=concat([block.ready for block in ready]), size=size))


def _group(blocks: list[SizedBlock]) -> SizedBlock:
    return blocks[0] if len(blocks) == 1 else GroupBlock(blocks)
