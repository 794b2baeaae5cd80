"""CSV and TSV: decoded in order, cut at row ends, parsed by any thread; every column is strings.

Quoted fields may hold newlines, so where a row begins is not known without having read what
precedes: the file is read from its beginning. The thread that asks for blocks only looks for the ends of
rows; a native kernel takes the wanted fields out of them. A row has to fit into memory: one much longer than
a document may be is an error. Held in memory: a block's worth of decoded bytes and a chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from krill import _native
from krill.corpus.blocks import RawBlock, SequentialFile, SizedBlock
from krill.corpus.byte_files import StreamBuffer
from krill.corpus.documents import Documents
from krill.corpus.formats import CorpusFile, Format
from krill.corpus.readers import Limits, string_columns
from krill.corpus.rows import to_documents, wanted_names
from krill.corpus.streams import HEAD_BYTES, DecodedStream, line_number, refuse_other_kinds
from krill.errors import InputError

_HEADER_BYTES = 1 << 12
# A row as it is decoded, the next one, its fields, and the pieces of its text: measured with rows of 7 MB.
_ROW_COPIES = 4
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class CsvLayout:
    """How many columns each row has, and which of them are taken, the text first."""

    delimiter: int
    columns: int
    wanted: list[int]
    names: list[str]

    @classmethod
    def of(cls, file: CorpusFile, names: list[str]) -> CsvLayout:
        """By the names in the file's first row; an error if one is missing."""
        wanted = wanted_names(file, names)
        return cls(ord(_delimiter(file)), len(names), [names.index(name) for name in wanted], wanted)


@dataclass(frozen=True, slots=True)
class CsvBlock(RawBlock):
    layout: CsvLayout
    rows: NDArray[np.int64]
    """Where they begin, in `data`."""

    def _parse(self) -> Documents:
        layout = self.layout
        fields, malformed, found = _native.csv_fields(
            self.data, self.rows, layout.delimiter, layout.columns, layout.wanted
        )
        if len(malformed) and not self.limits.skip_malformed:
            raise self._unreadable(int(malformed[0]), found)
        columns = string_columns(len(layout.names), len(self.rows) - len(malformed), *fields)
        batch = pa.RecordBatch.from_arrays(columns, layout.names)
        offsets = (np.delete(self.rows, malformed) + self.start).astype(np.uint64)
        documents = to_documents(self.source, self.limits, batch, offsets)
        if not len(malformed):
            return documents
        records = documents.counts.get("records", 0) + len(malformed)
        return Documents(
            documents.batch, {**documents.counts, "records": records, "malformed": len(malformed)}
        )

    def _unreadable(self, row: int, columns: int) -> InputError:
        line = line_number(self.source, self.start + int(self.rows[row]))
        return InputError(
            f"`{self.source.path}` line {line}: expected {self.layout.columns} columns, got {columns}",
            hint="mend the row, or set `on_error: skip` to leave such rows out and count them",
        )


class DelimitedText(SequentialFile):
    def __init__(self, file: CorpusFile, limits: Limits) -> None:
        super().__init__(file, limits)
        self._delimiter = ord(_delimiter(file))
        self._longest_row = _longest_row(limits)

    def _blocks(self, start: int) -> Iterator[SizedBlock]:
        with DecodedStream(self._file) as stream:
            window = StreamBuffer(stream, 0)
            header = self._take_header(window)
            if header is None:
                return
            layout = CsvLayout.of(self._file, header)
            window.skip_to(start)
            for offset, data, rows in self._row_blocks(window):
                end, last = offset + len(data), not window.fill(1)
                yield CsvBlock(self._file, self._limits, offset, end, len(data), last, data, layout, rows)

    def names(self) -> list[str] | None:
        """The names of the columns, in the first row; None if the file is empty."""
        with DecodedStream(self._file) as stream:
            return self._take_header(StreamBuffer(stream, 0))

    def row_starts(self) -> Iterator[NDArray[np.int64]]:
        """Where the rows begin, in pieces: a pass over the file."""
        with DecodedStream(self._file) as stream:
            window = StreamBuffer(stream, 0)
            if self._take_header(window) is not None:
                for offset, _, rows in self._row_blocks(window):
                    yield rows + offset

    def _take_header(self, window: StreamBuffer) -> list[str] | None:
        """The names in the first row; None if the file is empty."""
        window.fill(len(_BYTE_ORDER_MARK) + 1)
        refuse_other_kinds(self._file, bytes(window.data[:HEAD_BYTES]))
        if window.data.startswith(_BYTE_ORDER_MARK):
            window.take(len(_BYTE_ORDER_MARK))
        while window.fill(1):
            rows, end = self._find(window, _HEADER_BYTES)
            _, data = window.take(int(rows[1]) if len(rows) > 1 else end)
            if len(rows):
                return _header_names(self._file, data.strip(b"\r\n"))
        return None

    def _row_blocks(self, window: StreamBuffer) -> Iterator[tuple[int, bytes, NDArray[np.int64]]]:
        """Whole rows that make a block: their offset, their bytes, and where they begin in them."""
        while window.fill(1):
            rows, end = self._find(window, self._limits.block_bytes)
            yield *window.take(end), rows

    def _find(self, window: StreamBuffer, limit: int) -> tuple[NDArray[np.int64], int]:
        """As many whole rows as fit the limit, at least one: where they begin, and where the last ends."""
        while True:
            window.fill(limit + 1)
            with memoryview(window.data) as view:
                final = len(window.data) <= limit
                rows, end = _native.csv_rows(view[:limit], self._delimiter, final)
            if end > 0:
                return rows, end
            if limit >= self._longest_row:
                raise InputError(
                    f"`{self._file.path}` has a row of over {limit:,} bytes, or a quote that is never closed",
                    hint="raise `max_document_bytes`, or convert the file to JSON lines",
                )
            limit = min(2 * limit, self._longest_row)


def longest_row_bytes(file: CorpusFile, limits: Limits) -> int:
    """What the longest row of a file may hold besides a block."""
    longest = _longest_row(limits)
    if file.compression is None and not file.remote:
        longest = min(longest, file.bytes)
    return _ROW_COPIES * longest if longest > limits.block_bytes else 0


def _longest_row(limits: Limits) -> int:
    # A document at the limit may be all quotes, which are doubled; and there are other columns.
    return 2 * max(limits.block_bytes, limits.max_document_bytes) + (1 << 16)


def _header_names(file: CorpusFile, header: bytes) -> list[str]:
    delimiter, first = ord(_delimiter(file)), np.zeros(1, np.int64)
    # Taken for a row of one column, it is malformed if it has more, and says how many.
    columns = _native.csv_fields(header, first, delimiter, 1, [])[2] or 1
    fields, _, _ = _native.csv_fields(header, first, delimiter, columns, list(range(columns)))
    _, data, _, begins = fields
    joined, ends = data.tobytes(), begins.tolist()
    try:
        return [joined[start:end].decode() for start, end in pairwise(ends)]
    except UnicodeDecodeError as error:
        raise InputError(
            f"the names of the columns of `{file.path}` are not UTF-8",
            hint=f"iconv -f LATIN1 -t UTF-8 '{file.path}' > converted, or from what it is encoded in",
        ) from error


def _delimiter(file: CorpusFile) -> str:
    return "\t" if file.format is Format.TSV else ","
