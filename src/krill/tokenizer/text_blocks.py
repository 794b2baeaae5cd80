"""Input in blocks that the word counter takes; plain text is split only where no word can be split.

In: plain text files, local or streamed, compressed or not, and blocks of the corpus. Out: `InputBlock`s,
which are read on the thread that counts them. Counting the blocks of a file gives the same words as counting
the whole file, because a block ends only at a *split point*: a position where every pattern has a word
boundary, whatever stands before and after it, and where no special token lies across. A few bytes around the
position decide that, so any thread finds the split point after any offset by itself.

Held in memory: the blocks that are worked on. Text of more than `longest` bytes without a
split point is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from krill import _native
from krill.budget import format_size
from krill.corpus import Block, UnitEnd
from krill.corpus.buffers import text_buffers
from krill.corpus.formats import CorpusFile
from krill.corpus.streams import CHUNK_BYTES, HEAD_BYTES, DecodedStream, RangeReader, refuse_other_kinds
from krill.errors import BudgetError

# Read around a position to find a split point near it.
WINDOW_BYTES: Final = 4096
# Characters before a position that decide about it: four bytes each.
CONTEXT_BYTES: Final = 16
NEWLINE: Final = 0x0A


@dataclass(frozen=True, slots=True)
class InputBlock:
    """A block of input, whatever its source."""

    read: Callable[[], tuple[Any, Any]]
    """Gives the offsets of documents, and their bytes."""
    size: int
    """Bytes of input that it stands for."""
    held: int
    """Bytes in memory while it is counted."""
    unit_end: dict[str, Any]
    """What to record of a unit whose last block this is."""


def file_blocks(
    file: CorpusFile, start: int, end: int, points: SplitPoints, block_bytes: int
) -> Iterator[InputBlock]:
    """A range of a local text file."""
    for at in range(start, end, block_bytes):
        block = TextBlock(file, at, min(end, at + block_bytes), points)
        yield InputBlock(block.read_document, block.size, 2 * block.size, {})


def stream_blocks(
    file: CorpusFile, points: SplitPoints, block_bytes: int, start: int
) -> Iterator[InputBlock]:
    """A text file that can only be read from its beginning; a block began at `start`."""
    for text in stream_texts(file, points, block_bytes, start):
        start += len(text)
        yield InputBlock(partial(_one_document, text), len(text), len(text), {"end": start})


def document_block(block: Block) -> InputBlock:
    """A block of a corpus of documents."""
    return InputBlock(
        lambda: text_buffers(block.documents().batch.column("text")),
        block.size,
        block.nbytes,
        UnitEnd.after(block).to_json(),
    )


def _one_document(text: bytes) -> tuple[Any, Any]:
    return np.array([0, len(text)], np.int64), text


@dataclass(frozen=True, slots=True)
class SplitPoints:
    """Where text may be split: where it is safe for every pattern, after newlines, after special tokens."""

    boundaries: tuple[bytes, ...]
    """Special tokens, which are removed as a whole."""

    any_pattern: bool = False
    """For patterns that Krill doesn't know, whose words may hold anything: only boundaries and line ends."""

    lines: bool = False
    """Whether each line is split on its own, so that after a newline it is safe, too."""

    longest: int = 2**62
    """How much text may go without a split point."""

    @property
    def margin(self) -> int:
        """The bytes on either side of a position that decide about it."""
        return max([CONTEXT_BYTES, *(2 * len(token) for token in self.boundaries)])

    def first(self, text: bytes, start: int, end: int) -> int:
        """The first one in [start, end), -1 if there is none; the margin around it must lie in the text."""
        position = start
        while position < end:
            found = len(text) if self.any_pattern else _native.first_cut(text, position)
            for mark in self._marks:
                at = text.find(mark, max(0, position - len(mark)), found)
                found = found if at < 0 else at + len(mark)
            if found >= end:
                return -1
            if self._is_safe(text, found):
                return found
            position = found + 1
        return -1

    def last(self, text: bytes, end: int) -> int:
        """The last one before `end`, 0 if there is none."""
        while end > 0:
            found = 0 if self.any_pattern else _native.last_cut(memoryview(text)[:end])
            for mark in self._marks:
                at = text.rfind(mark, found, end - 1)
                found = found if at < 0 else at + len(mark)
            end = found
            if end > 0 and self._is_safe(text, end):
                return end
        return 0

    @property
    def _marks(self) -> tuple[bytes, ...]:
        """What text is split after: newlines, and for unknown patterns special tokens."""
        newline = (b"\n",) if self.lines else ()
        return newline + (self.boundaries if self.any_pattern else ())

    def _is_safe(self, text: bytes, position: int) -> bool:
        if self._inside_boundary(text, position):
            return False
        if not self.any_pattern or (self.lines and text[position - 1] == NEWLINE):
            return True
        # A special token that overlaps one before it is none.
        return any(
            text.startswith(token, position - len(token))
            and not self._inside_boundary(text, position - len(token))
            for token in self.boundaries
            if len(token) <= position
        )

    def _inside_boundary(self, text: bytes, position: int) -> bool:
        """Whether a special token lies across the position."""
        return any(
            text.find(token, max(0, position - len(token) + 1), position + len(token) - 1) >= 0
            for token in self.boundaries
        )


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A range of a local file; what is read is moved to the next split points."""

    file: CorpusFile
    start: int
    end: int
    points: SplitPoints

    @property
    def size(self) -> int:
        """Bytes of the file that it stands for."""
        return self.end - self.start

    def read(self) -> bytes:
        """From the first split point at its start or after to the first one at its end or after."""
        with RangeReader(self.file) as reader:
            start = self._split_point_after(reader, self.start)
            end = self._split_point_after(reader, self.end)
            if end - start > self.points.longest + self.size:
                raise no_split_point(self.file, start, self.points.longest)
            text = reader.read(start, end)
        if start == 0:
            refuse_other_kinds(self.file, text[:HEAD_BYTES])
        return text

    def read_document(self) -> tuple[Any, Any]:
        return _one_document(self.read())

    def _split_point_after(self, reader: RangeReader, position: int) -> int:
        first, whole = bounds(self.file)
        if position <= first or position >= whole:
            return min(max(position, first), whole)
        margin, window = self.points.margin, WINDOW_BYTES
        begun = position
        while True:
            low, high = max(first, position - margin), min(whole, position + window + margin)
            text = reader.read(low, high)
            last = high == whole
            found = self.points.first(text, position - low, len(text) - (0 if last else margin))
            if found >= 0:
                return low + found
            if last:
                return whole
            position += window
            if position - begun > self.points.longest:
                raise no_split_point(self.file, begun, self.points.longest)
            window = min(window * 4, CHUNK_BYTES)


def bounds(file: CorpusFile) -> tuple[int, int]:
    """Where the wanted part of a local file begins and ends: a slice of documents, or all of it."""
    return file.start, file.bytes if file.stop is None else file.stop


def stream_texts(file: CorpusFile, points: SplitPoints, block_bytes: int, start: int = 0) -> Iterator[bytes]:
    """The texts of blocks of a file that can only be read from its beginning; one began at `start`."""
    held = b""
    searched = 0
    with DecodedStream(file, start) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            if stream.offset == len(chunk):
                refuse_other_kinds(file, chunk[:HEAD_BYTES])
            held += chunk
            if len(held) - searched < block_bytes:
                continue
            end = points.last(held, len(held) - points.margin)
            if end > 0:
                yield held[:end]
                held = held[end:]
                searched = 0
            else:
                searched = len(held)
            if len(held) > points.longest + block_bytes:
                raise no_split_point(file, stream.offset - len(held), points.longest)
    if held:
        yield held


def no_split_point(file: CorpusFile, start: int, longest: int) -> BudgetError:
    """Text that would have to be held as a whole, and is too much."""
    return BudgetError(
        f"`{file.path}` has no place to cut it in {format_size(longest)} from byte {start:,} on: no space or"
        " punctuation after a letter (with a pattern of your own only special tokens and, line by line, line"
        " ends count)",
        hint="give more --memory, break the text into lines and use --boundaries lines, or leave it out",
    )
