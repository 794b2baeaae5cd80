"""CSV and TSV: parsed in order by Arrow, a bounded stretch at a time; every column is strings.

Quoted fields may hold newlines, so there is no way to tell where a row begins without reading what
precedes: the file is read from its beginning. Held in memory: one stretch of text and its rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.csv as pacsv

from krill.corpus.blocks import SizedBlock
from krill.corpus.formats import CorpusFile, Format
from krill.corpus.ranged_rows import rows_between
from krill.corpus.readers import Limits
from krill.corpus.rows import RowBlock, row_blocks, wanted_columns
from krill.corpus.streams import first_line, input_errors, open_decoded
from krill.errors import InputError


class DelimitedText:
    """One CSV or TSV file."""

    def __init__(self, file: CorpusFile, limits: Limits) -> None:
        self._file = file
        self._limits = limits
        # A row has to fit into a stretch, and a document at the limit may be all quotes, which are doubled.
        self._stretch_bytes = max(limits.block_bytes, 2 * limits.max_document_bytes) + (1 << 16)

    def blocks(self, start: int) -> Iterator[SizedBlock]:
        """Blocks from row `start` on; rows before it are parsed and thrown away."""
        malformed = _MalformedRows()
        stop = self._file.stop
        wanted = rows_between(self.batches(malformed), start, None if stop is None else stop - start)
        for block in row_blocks(self._file, self._limits, wanted, start, to_end=True):
            if isinstance(block, RowBlock):
                skipped = malformed.between(block.start, stop if block.last else block.end)
                block = replace(block, malformed=skipped)
            yield block

    def batches(self, malformed: _MalformedRows | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, with the wanted columns."""
        if self._file.bytes == 0 and not self._file.remote:
            return
        with input_errors(self._file), open_decoded(self._file) as source:
            try:
                reader = self._open(source, malformed or _MalformedRows())
                while True:
                    yield reader.read_next_batch()
            except StopIteration:
                return
            except pa.ArrowInvalid as error:
                raise self._unreadable(error) from error

    def _open(self, source: pa.NativeFile, malformed: _MalformedRows) -> pacsv.CSVStreamingReader:
        columns = [self._file.source.text_column, *self._file.source.columns]
        handler = malformed.note if self._limits.skip_malformed else None
        try:
            return pacsv.open_csv(
                source,
                read_options=pacsv.ReadOptions(block_size=self._stretch_bytes, use_threads=False),
                parse_options=self._parse_options(handler),
                convert_options=pacsv.ConvertOptions(
                    include_columns=columns,
                    column_types=dict.fromkeys(columns, pa.large_string()),
                    check_utf8=False,  # cleaning repairs it, whatever the format
                ),
            )
        except KeyError:
            with open_decoded(self._file) as again:
                names = pacsv.open_csv(again, parse_options=self._parse_options(None)).schema.names
            wanted_columns(self._file, pa.schema([(name, pa.large_string()) for name in names]))
            raise

    def _parse_options(self, handler: object) -> pacsv.ParseOptions:
        delimiter = "\t" if self._file.format is Format.TSV else ","
        return pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=handler)

    def _unreadable(self, error: pa.ArrowInvalid) -> InputError:
        path, reason = self._file.path, first_line(error)
        if "straddl" in reason:
            return InputError(
                f"`{path}` has a row of over {self._stretch_bytes:,} bytes, or a quote that is never closed",
                hint="raise `max_document_bytes`, or convert the file to JSON lines",
            )
        if row := re.search(r"Row #(\d+): (.*)", reason):
            hint = "mend the row, or set `on_error: skip` to leave such rows out and count them"
            return InputError(f"`{path}` row {row[1]}: {row[2]}", hint=hint)
        return InputError(f"can't read `{path}`: {reason}")


class _MalformedRows:
    """The rows left out, each by the number of rows before it that were not."""

    def __init__(self) -> None:
        self._after: list[int] = []

    def note(self, row: pacsv.InvalidRow) -> str:
        self._after.append(row.number - 2 - len(self._after))  # numbers count the header, and from 1
        return "skip"

    def between(self, start: int, end: int | None) -> int:
        """How many there are in front of the rows [start, end), or after `start` if there is no end."""
        return sum(start <= after and (end is None or after < end) for after in self._after)
