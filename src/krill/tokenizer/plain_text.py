"""Plain text in blocks that end where no word does, whoever reads them and from wherever.

In: a plain text file, local or not, compressed or not. Out: blocks of raw bytes; cutting them into words one
by one gives the same words as cutting the whole file, since a block ends only at a *cut*: a place where every
pattern has a border, whatever stands before and after it, and where no special token lies across. That is
decided by a few bytes around the place, so any thread finds the cut after any offset by itself.

Held in memory: the blocks that are worked on. Text without a cut for longer than `longest` is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from krill import _native
from krill.budget import format_size
from krill.corpus.formats import CorpusFile
from krill.corpus.streams import CHUNK_BYTES, DecodedStream, RangeReader, refuse_wide_encodings
from krill.errors import BudgetError

# What is read around a place to find a cut near it.
WINDOW_BYTES: Final = 4096
# Characters before a place that decide about it: four bytes each.
CONTEXT_BYTES: Final = 16
NEWLINE: Final = 0x0A


@dataclass(frozen=True, slots=True)
class Cuts:
    """Where text may be cut: where it is safe for every pattern, after newlines, after special tokens."""

    boundaries: tuple[bytes, ...]
    """Special tokens, which are cut out as a whole."""

    any_pattern: bool = False
    """For patterns that Krill doesn't know, whose words may hold anything: only where a piece ends."""

    lines: bool = False
    """Whether each line is a piece of its own, so that after a newline it is safe, too."""

    longest: int = 2**62
    """How much text may go without a cut."""

    @property
    def margin(self) -> int:
        """The bytes on either side of a place that decide about it."""
        return max([CONTEXT_BYTES, *(2 * len(token) for token in self.boundaries)])

    def first(self, text: bytes, start: int, end: int) -> int:
        """The first cut in [start, end), -1 if there is none; the margin around it must lie in the text."""
        place = start
        while place < end:
            found = len(text) if self.any_pattern else _native.first_cut(text, place)
            for mark in self._marks:
                at = text.find(mark, max(0, place - len(mark)), found)
                found = found if at < 0 else at + len(mark)
            if found >= end:
                return -1
            if self._is_safe(text, found):
                return found
            place = found + 1
        return -1

    def last(self, text: bytes, end: int) -> int:
        """The last cut before `end`, 0 if there is none."""
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
        """After which a piece ends: lines, and for unknown patterns what is cut out of the text."""
        newline = (b"\n",) if self.lines else ()
        return newline + (self.boundaries if self.any_pattern else ())

    def _is_safe(self, text: bytes, place: int) -> bool:
        if self._inside_boundary(text, place):
            return False
        if not self.any_pattern or (self.lines and text[place - 1] == NEWLINE):
            return True
        # A special token that overlaps one before it is none.
        return any(
            text.startswith(token, place - len(token)) and not self._inside_boundary(text, place - len(token))
            for token in self.boundaries
            if len(token) <= place
        )

    def _inside_boundary(self, text: bytes, place: int) -> bool:
        """Whether a special token lies across the place."""
        return any(
            text.find(token, max(0, place - len(token) + 1), place + len(token) - 1) >= 0
            for token in self.boundaries
        )


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A stretch of a local file, given by where it would begin and end if text could be cut anywhere."""

    file: CorpusFile
    start: int
    end: int
    cuts: Cuts

    @property
    def size(self) -> int:
        """Bytes of the file that it stands for."""
        return self.end - self.start

    def read(self) -> bytes:
        """From the first cut at its start or after to the first one at its end or after."""
        with RangeReader(self.file) as reader:
            start = self._cut_after(reader, self.start)
            end = self._cut_after(reader, self.end)
            if end - start > self.cuts.longest + self.size:
                raise no_cut(self.file, start, self.cuts.longest)
            text = reader.read(start, end)
        if start == 0:
            refuse_wide_encodings(self.file, text[:4])
        return text

    def _cut_after(self, reader: RangeReader, place: int) -> int:
        first, whole = bounds(self.file)
        if place <= first or place >= whole:
            return min(max(place, first), whole)
        margin, window = self.cuts.margin, WINDOW_BYTES
        begun = place
        while True:
            low, high = max(first, place - margin), min(whole, place + window + margin)
            text = reader.read(low, high)
            last = high == whole
            found = self.cuts.first(text, place - low, len(text) - (0 if last else margin))
            if found >= 0:
                return low + found
            if last:
                return whole
            place += window
            if place - begun > self.cuts.longest:
                raise no_cut(self.file, begun, self.cuts.longest)
            window = min(window * 4, CHUNK_BYTES)


def bounds(file: CorpusFile) -> tuple[int, int]:
    """Where the wanted part of a local file begins and ends: a slice of documents, or all of it."""
    return file.start, file.bytes if file.stop is None else file.stop


def stream_blocks(file: CorpusFile, cuts: Cuts, block_bytes: int, start: int = 0) -> Iterator[bytes]:
    """The blocks of a file that can only be read from its beginning; one began at `start`."""
    held = b""
    looked_at = 0
    with DecodedStream(file, start) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            if stream.offset == len(chunk):
                refuse_wide_encodings(file, chunk[:4])
            held += chunk
            if len(held) - looked_at < block_bytes:
                continue
            cut = cuts.last(held, len(held) - cuts.margin)
            if cut > 0:
                yield held[:cut]
                held = held[cut:]
                looked_at = 0
            else:
                looked_at = len(held)
            if len(held) > cuts.longest + block_bytes:
                raise no_cut(file, stream.offset - len(held), cuts.longest)
    if held:
        yield held


def no_cut(file: CorpusFile, start: int, longest: int) -> BudgetError:
    """Text that would have to be held as a whole, and is too much."""
    return BudgetError(
        f"`{file.path}` has no place to cut it in {format_size(longest)} from byte {start:,} on: no space or"
        " punctuation after a letter (with a pattern of your own only special tokens and, line by line, line"
        " ends count)",
        hint="give more --memory, break the text into lines and use --boundaries lines, or leave it out",
    )
