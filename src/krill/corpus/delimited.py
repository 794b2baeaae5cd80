"""CSV and TSV: decoded in order, cut at row ends, parsed by any thread; every column is strings.

Quoted fields may hold newlines, so there is no way to tell where a row begins without having read what
precedes: the file is read from its beginning. The thread that asks for blocks only looks for the ends of
rows; Arrow parses them. A row has to fit into memory: one much longer than a document may be is an error.
Held in memory: a block's worth of decoded bytes and a chunk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from krill.corpus.blocks import SizedBlock
from krill.corpus.csv_rows import CsvRows
from krill.corpus.documents import Documents
from krill.corpus.formats import CorpusFile, Format
from krill.corpus.readers import Limits
from krill.corpus.rows import to_documents, wanted_columns
from krill.corpus.streamed_bytes import Window
from krill.corpus.streams import DecodedStream, first_line, line_number, refuse_wide_encodings
from krill.errors import InputError

if TYPE_CHECKING:
    import pyarrow.csv as pacsv
    from numpy.typing import NDArray

_HEADER_BYTES = 1 << 12
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class CsvBlock:
    """Whole rows, taken from a stream."""

    source: CorpusFile
    limits: Limits
    header: bytes
    data: bytes
    start: int
    rows: NDArray[np.int64]
    """Where they begin, in `data`."""
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
        return 3 * len(self.data)

    def documents(self) -> Documents:
        malformed: list[int] = []  # by their place among the rows

        def skip(row: pacsv.InvalidRow) -> str:
            malformed.append(row.number - 2)  # numbers count the header, and from 1
            return "skip"

        try:
            table = _parse(self.source, self.header + self.data, skip if self.limits.skip_malformed else None)
        except pa.ArrowInvalid as error:
            raise self._unreadable(error) from error
        offsets = (np.delete(self.rows, malformed) + self.start).astype(np.uint64)
        batch = table.combine_chunks().to_batches()[0] if table.num_rows else _no_rows(table.schema)
        documents = to_documents(self.source, self.limits, batch, offsets)
        if not malformed:
            return documents
        records = documents.counts.get("records", 0) + len(malformed)
        return Documents(
            documents.batch, {**documents.counts, "records": records, "malformed": len(malformed)}
        )

    def _unreadable(self, error: pa.ArrowInvalid) -> InputError:
        reason, path = first_line(error), self.source.path
        found = re.search(r"Row #(\d+): (.*)", reason)
        if found is None:
            return InputError(f"can't read `{path}`: {reason}")
        line = line_number(self.source, self.start + int(self.rows[int(found[1]) - 2]))
        hint = "mend the row, or set `on_error: skip` to leave such rows out and count them"
        return InputError(f"`{path}` line {line}: {found[2]}", hint=hint)


class DelimitedText:
    """One CSV or TSV file."""

    def __init__(self, file: CorpusFile, limits: Limits) -> None:
        self._file = file
        self._limits = limits
        self._rows = CsvRows(_delimiter(file))
        # A document at the limit may be all quotes, which are doubled; and there are other columns.
        self._longest_row = 2 * max(limits.block_bytes, limits.max_document_bytes) + (1 << 16)

    def blocks(self, start: int) -> Iterator[SizedBlock]:
        """Blocks from the row at decoded offset `start` on; what precedes is decoded and thrown away."""
        with DecodedStream(self._file) as stream:
            window = Window(stream, 0)
            header = self._take_header(window)
            if header is None:
                return
            window.skip_to(start)
            for offset, data, rows in self._stretches(window):
                yield CsvBlock(self._file, self._limits, header, data, offset, rows, last=not window.fill(1))

    def row_starts(self) -> Iterator[NDArray[np.int64]]:
        """Where the rows begin, in pieces: a pass over the file."""
        with DecodedStream(self._file) as stream:
            window = Window(stream, 0)
            if self._take_header(window) is not None:
                for offset, _, rows in self._stretches(window):
                    yield rows + offset

    def _take_header(self, window: Window) -> bytes | None:
        """The row with the names, checked; None if the file is empty."""
        window.fill(len(_BYTE_ORDER_MARK) + 1)
        refuse_wide_encodings(self._file, bytes(window.data[:4]))
        if window.data.startswith(_BYTE_ORDER_MARK):
            window.take(len(_BYTE_ORDER_MARK))
        while window.fill(1):
            rows, end = self._find(window, _HEADER_BYTES)
            _, data = window.take(int(rows[1]) if len(rows) > 1 else end)
            if len(rows):
                header = data.strip(b"\r\n") + b"\n"
                names = [(name, pa.large_string()) for name in _names(self._file, header)]
                wanted_columns(self._file, pa.schema(names))
                return header
        return None

    def _stretches(self, window: Window) -> Iterator[tuple[int, bytes, NDArray[np.int64]]]:
        """Whole rows that make a block: their offset, their bytes, and where they begin in them."""
        while window.fill(1):
            rows, end = self._find(window, self._limits.block_bytes)
            yield *window.take(end), rows

    def _find(self, window: Window, limit: int) -> tuple[NDArray[np.int64], int]:
        """As many whole rows as fit the limit, at least one: where they begin, and where the last ends."""
        while True:
            window.fill(limit + 1)
            rows, end = self._rows.find(bytes(window.data[:limit]), final=len(window.data) <= limit)
            if end > 0:
                return rows, end
            if limit >= self._longest_row:
                raise InputError(
                    f"`{self._file.path}` has a row of over {limit:,} bytes, or a quote that is never closed",
                    hint="raise `max_document_bytes`, or convert the file to JSON lines",
                )
            limit = min(2 * limit, self._longest_row)


def _parse(file: CorpusFile, data: bytes, skip: object) -> pa.Table:
    import pyarrow.csv as pacsv  # a few megabytes, for those who read CSV

    columns = [file.source.text_column, *file.source.columns]
    return pacsv.read_csv(
        pa.py_buffer(data),
        read_options=pacsv.ReadOptions(block_size=len(data) + 1, use_threads=False),
        parse_options=pacsv.ParseOptions(
            delimiter=_delimiter(file), newlines_in_values=True, invalid_row_handler=skip
        ),
        convert_options=pacsv.ConvertOptions(
            include_columns=columns,
            column_types=dict.fromkeys(columns, pa.large_string()),
            check_utf8=False,  # cleaning repairs it, whatever the format
        ),
    )


def _names(file: CorpusFile, header: bytes) -> list[str]:
    import pyarrow.csv as pacsv

    options = pacsv.ParseOptions(delimiter=_delimiter(file), newlines_in_values=True)
    names: list[str] = pacsv.read_csv(pa.py_buffer(header), parse_options=options).column_names
    return names


def _delimiter(file: CorpusFile) -> str:
    return "\t" if file.format is Format.TSV else ","


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema)
