"""What a Parquet file says of itself: its footer, and the headers of its pages.

In: a way to read bytes of the file. Out: of the footer, numbers for each column of each row group, checked,
and Arrow's own form of it to open the file with; of the headers, what Arrow will hold before a page is read.
Held in memory: 48 bytes for each column of each row group, what Arrow takes, and one header.

Arrow reads these numbers too, but its accessors end the process where a footer contradicts itself, and trust
that each row group has every column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from krill import _native
from krill.corpus.formats import CorpusFile
from krill.corpus.streams import RangeReader
from krill.errors import InputError

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_MAGIC = b"PAR1"
_TAIL_BYTES = 8

BYTE_ARRAY = 6
"""A physical type: strings and binaries."""

Read = Callable[[int, int], bytes]

# Headers read of one file before it is: a moment's work. Of what comes behind, sizes are estimated.
_PAGES_WALKED = 20_000

# Strings that a dictionary decodes to so many times what is stored may all be one row's.
_INFLATION = 16

# Arrow's writer, and with it most others, looks at a page's size after so many rows only: a page of long
# documents is as large as they are, whatever its intended size, and so is the dictionary.
_ROWS_BETWEEN_LOOKS = 1 << 10

# Headers may hold statistics, a value each; longer ones are not looked for.
_FIRST_BYTES = 256
_MOST_BYTES = 1 << 20

DICTIONARY_PAGE = 2


@dataclass(frozen=True, slots=True)
class Footer:
    """`columns` is the table's column of each leaf; the arrays after `rows` have a row for each row group and
    a number for each leaf. A dictionary page's offset is 0 where there is none."""

    arrow: pq.FileMetaData
    columns: tuple[str, ...]
    rows: NDArray[np.int64]
    types: NDArray[np.int64]
    values: NDArray[np.int64]
    uncompressed: NDArray[np.int64]
    compressed: NDArray[np.int64]
    data_page_offsets: NDArray[np.int64]
    dictionary_page_offsets: NDArray[np.int64]

    def leaves(self, names: list[str]) -> NDArray[np.int64]:
        """The numbers of the leaves that make up these columns of the table."""
        wanted = set(names)
        return np.flatnonzero([column in wanted for column in self.columns])


def read_footer(read: Read, size: int) -> Footer:
    """The footer of a file of `size` bytes; `read(start, end)` gives its bytes. `ArrowInvalid` if it has
    none, or one that contradicts itself."""
    import pyarrow.parquet as pq  # several megabytes, for those who read Parquet

    tail = read(size - _TAIL_BYTES, size) if size >= _TAIL_BYTES + len(_MAGIC) else b""
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or length > size - _TAIL_BYTES - len(_MAGIC):
        raise pa.ArrowInvalid("no Parquet magic bytes at its end: it is cut short, or not Parquet")
    content = read(size - _TAIL_BYTES - length, size - _TAIL_BYTES)
    try:
        columns, rows, *cells = _native.parquet_footer(content)
        names = tuple(column.decode() for column in columns)
    except ValueError as error:
        raise pa.ArrowInvalid(f"its footer is damaged: {error}") from None
    # As the footer of an empty file: what Arrow opens with it is read no second time.
    arrow = pq.read_metadata(pa.BufferReader(b"".join([_MAGIC, content, tail])))
    return Footer(arrow, names, rows, *(cell.reshape(len(rows), len(names)) for cell in cells))


class NotPages(ValueError):
    """The bytes are not the header of a page."""


@dataclass(frozen=True, slots=True)
class Page:
    kind: int
    stored: int
    decoded: int
    values: int
    header: int
    """Bytes of the header itself."""


def pages(read: Read, start: int, end: int) -> Iterator[Page]:
    """The pages of the column chunk in [start, end) of a file; `read(start, end)` gives bytes of it."""
    while start < end:
        page = _page_at(read, start, end)
        yield page
        start += page.header + page.stored


def _page_at(read: Read, start: int, end: int) -> Page:
    size = _FIRST_BYTES
    while True:
        head = read(start, min(end, start + size))
        try:
            found = _native.parquet_page_header(head)
        except ValueError as error:
            raise NotPages(f"no page header at byte {start:,}: {error}") from None
        if found is not None:
            return Page(*found)
        if len(head) < size or size >= _MOST_BYTES:
            raise NotPages(f"no page header at byte {start:,}")
        size *= 8


def check_pages(file: CorpusFile, footer: Footer, groups: range, leaves: NDArray[np.int64]) -> None:
    """Check that no page of these columns is longer than its column: Arrow makes room for a page before it
    looks whether there is so much. A remote file's own reader asks for no more than there is."""
    if file.remote:
        return
    cells = slice(groups.start, groups.stop), leaves
    starts = _starts(footer, cells).ravel()
    ends = starts + footer.compressed[cells].ravel()
    with open(file.location, "rb", buffering=0) as opened:
        found = _native.damaged_parquet_pages(opened.fileno(), starts, ends, footer.values[cells].ravel())
    if (found >= 0).any():
        raise EOFError(f"the page at byte {found.max():,} is damaged, or longer than its column")


def _starts(footer: Footer, cells: Any) -> NDArray[np.int64]:
    """Where some columns of row groups begin: with the dictionary, if there is one."""
    data, dictionary = footer.data_page_offsets[cells], footer.dictionary_page_offsets[cells]
    starts: NDArray[np.int64] = np.where(dictionary > 0, np.minimum(data, dictionary), data)
    return starts


class PageWalk:
    """Looks at the pages of one file, as far as that takes no time. A column is a row group and a leaf."""

    def __init__(self, file: CorpusFile, footer: Footer) -> None:
        self._file = file
        self._footer = footer
        self._left = 0 if file.remote else _PAGES_WALKED

    def held_bytes(self, group: int, leaf: int) -> int:
        """What Arrow holds of a column: its largest page as it is stored and decompressed, and twice the
        values of its dictionary."""
        page = dictionary = 0
        try:
            for found in self._pages(group, leaf):
                copied = found.stored if found.stored != found.decoded else 0  # else it is not compressed
                if found.kind == DICTIONARY_PAGE:
                    dictionary = max(dictionary, 2 * found.decoded + copied)
                else:
                    page = max(page, found.decoded + copied)
        except (NotPages, InputError):  # reading it will say what is wrong
            return self._estimated_bytes(group, leaf)
        return page + dictionary if self._left > 0 else max(page, self._estimated_bytes(group, leaf))

    def decoded_bytes(self, group: int, leaf: int) -> int:
        """What the strings of a column decode to by the mean of its dictionary, if that is far more than is
        stored; else 0."""
        footer = self._footer
        if footer.types[group, leaf] != BYTE_ARRAY or not footer.dictionary_page_offsets[group, leaf]:
            return 0
        try:
            first = next(self._pages(group, leaf), None)
        except (NotPages, InputError):
            return 0
        if first is None or first.kind != DICTIONARY_PAGE:
            return 0
        decoded = int(footer.values[group, leaf]) * first.decoded // max(1, first.values)
        return decoded if decoded > _INFLATION * int(footer.uncompressed[group, leaf]) else 0

    def _pages(self, group: int, leaf: int) -> Iterator[Page]:
        if self._left <= 0:
            return
        start = int(_starts(self._footer, (group, leaf)))
        end = min(start + int(self._footer.compressed[group, leaf]), self._file.bytes)
        with RangeReader(self._file) as reader:
            for page in pages(reader.read, start, end):
                yield page
                self._left -= 1
                if self._left <= 0:
                    return

    def _estimated_bytes(self, group: int, leaf: int) -> int:
        """A page as it is stored and decompressed; and as much again for the values of a dictionary."""
        footer = self._footer
        share = min(1.0, _ROWS_BETWEEN_LOOKS / max(1, int(footer.rows[group])))
        copies = 2 if footer.dictionary_page_offsets[group, leaf] else 1
        whole = int(footer.compressed[group, leaf]) + copies * int(footer.uncompressed[group, leaf])
        return int(share * whole)
