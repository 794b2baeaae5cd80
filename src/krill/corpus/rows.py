"""Rows of columnar formats as documents: the same columns, limits and bounds as from the readers of bytes.

A row's position is its number. A row above the limit becomes several documents that share it (a row has no
offsets to tell them apart): positions of columnar files never fall, but repeat there. `row_blocks` cuts
what a format gives, batches of any size, into bounded blocks. Held in memory: the batch at hand, and a
block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from krill import _native
from krill.corpus.blocks import ReadyBlock, SizedBlock
from krill.corpus.buffers import text_buffers, text_column
from krill.corpus.documents import Documents
from krill.corpus.formats import CorpusFile
from krill.corpus.readers import Limits
from krill.corpus.streams import CHUNK_BYTES
from krill.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

# What a row weighs besides its text, so that rows without text fill a block too.
_ROW_BYTES = 16


def wanted_columns(file: CorpusFile, schema: pa.Schema) -> list[str]:
    """The names to read, the text first; an error that says what there is, if one is missing or no text."""
    column = file.source.text_column
    for name in (column, *file.source.columns):
        if name not in schema.names:
            there = ", ".join(f"`{known}`" for known in schema.names)
            key = "text_column" if name == column else "columns"
            raise InputError(
                f"no column `{name}` in `{file.path}`; there are: {there}",
                hint=f"set `{key}:` to one of them",
            )
    kind = schema.field(column).type
    if not _holds_text(kind):
        raise InputError(
            f"column `{column}` of `{file.path}` holds `{kind}`, not strings",
            hint="set `text_column:` to the one that holds the text",
        )
    return [column, *(name for name in file.source.columns if name != column)]


def _holds_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    tests = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_string_view,
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_binary_view,
    )
    return any(test(kind) for test in tests)


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Rows that were read in order; making documents of them is left to the thread that parses."""

    source: CorpusFile
    rows: pa.RecordBatch
    start: int
    size: int
    last: bool = False
    whole: bool = True
    malformed: int = 0
    """Rows left out in front of these."""

    @property
    def file(self) -> int:
        return self.source.ordinal

    @property
    def end(self) -> int:
        return self.start + int(self.rows.num_rows)

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes)

    def documents(self) -> Documents:
        documents = to_documents(self.source, self.rows, self.start)
        if self.malformed:
            records = documents.counts["records"] + self.malformed
            counts = {**documents.counts, "records": records, "malformed": self.malformed}
            return Documents(documents.batch, counts)
        return documents


def to_documents(file: CorpusFile, rows: pa.RecordBatch, first_row: int) -> Documents:
    """Rows, none of them above the limit, as documents; `first_row` is the number of the first."""
    rows = with_large_text(file, rows)
    positions = np.arange(rows.num_rows, dtype=np.uint64) + np.uint64(file.position(first_row))
    text = rows.column(file.source.text_column)
    counts = {"records": len(text), "key_seen": len(text), "not_text": text.null_count}
    return Documents(_document_batch(file, rows, text, positions), _nonzero(counts))


def with_large_text(file: CorpusFile, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, their text as `large_string`, whatever strings or bytes it was."""
    index = rows.schema.get_field_index(file.source.text_column)
    text = rows.column(index)
    if pa.types.is_large_string(text.type):
        return rows
    # Unsafe only in that UTF-8 is not checked: cleaning repairs it, whatever the format.
    return rows.set_column(index, file.source.text_column, text.cast(pa.large_string(), safe=False))


def text_slices(file: CorpusFile, rows: pa.RecordBatch, limit: int) -> Iterator[pa.RecordBatch]:
    """Rows whose text may be folded into a dictionary, unfolded in slices of at most `limit` bytes."""
    text = rows.column(file.source.text_column)
    if not pa.types.is_dictionary(text.type):
        yield rows
        return
    values = np.append(np.diff(text_buffers(text.dictionary.cast(pa.large_string(), safe=False))[0]), 0)
    ends = np.cumsum(values[text.indices.fill_null(len(values) - 1).to_numpy()])
    first, passed = 0, 0
    while first < len(ends):
        stop = max(first + 1, int(np.searchsorted(ends, passed + limit, "right")))
        yield with_large_text(file, rows.slice(first, stop - first))
        first, passed = stop, int(ends[stop - 1])


def row_blocks(
    file: CorpusFile, limits: Limits, batches: Iterable[pa.RecordBatch], start: int, *, to_end: bool
) -> Iterator[SizedBlock]:
    """Batches of any size, from row `start` on, as blocks; `to_end` if the file's last row is among them.

    Where a block ends depends on its rows alone, so a run that resumes at a block's end sees the same blocks.
    """
    cutter = _Cutter(file, limits, start)
    waiting: RowBlock | ReadyBlock | None = None
    for block in cutter.cut(batches):
        if waiting is not None:
            yield waiting
        waiting = block
    if waiting is not None:
        yield replace(waiting, last=to_end)


class _Cutter:
    """Joins small batches and slices large ones; a row above the limit goes by itself."""

    def __init__(self, file: CorpusFile, limits: Limits, start: int) -> None:
        self._file = file
        self._limits = limits
        self._row = start
        self._gathered: list[pa.RecordBatch] = []
        self._size = 0

    def cut(self, batches: Iterable[pa.RecordBatch]) -> Iterator[RowBlock | ReadyBlock]:
        for batch in batches:
            yield from self._add(with_large_text(self._file, batch))
        yield from self._flush()

    def _add(self, batch: pa.RecordBatch) -> Iterator[RowBlock | ReadyBlock]:
        lengths = np.diff(text_buffers(batch.column(self._file.source.text_column))[0])
        ends = np.cumsum(lengths + _ROW_BYTES)
        oversize = iter([*np.flatnonzero(lengths > self._limits.max_document_bytes).tolist(), len(lengths)])
        barrier = next(oversize)
        first, passed = 0, 0
        while first < len(lengths):
            # The row that fills the block is still in it.
            room = self._limits.block_bytes - self._size
            stop = min(barrier, int(np.searchsorted(ends, passed + room)) + 1)
            if stop > first:
                self._gathered.append(batch.slice(first, stop - first))
                self._size += int(ends[stop - 1]) - passed
            if self._size >= self._limits.block_bytes or stop == barrier < len(lengths):
                yield from self._flush()
            if stop == barrier < len(lengths):
                yield from self._split(batch.slice(stop, 1))
                barrier = next(oversize)
                stop += 1
            first, passed = stop, int(ends[stop - 1])

    def _flush(self) -> Iterator[RowBlock]:
        if self._gathered:
            block = RowBlock(self._file, pa.concat_batches(self._gathered), self._row, self._size)
            self._row, self._gathered, self._size = block.end, [], 0
            yield block

    def _split(self, row: pa.RecordBatch) -> Iterator[ReadyBlock]:
        """One row as the pieces, or the nothing, that the readers of bytes would make of it."""
        reader = _native.TextReader(b"", self._limits.max_document_bytes, self._limits.drop_oversize)
        offsets, data = text_buffers(row.column(self._file.source.text_column))
        text = data[offsets[0] : offsets[-1]]
        for offset in range(0, len(text), CHUNK_BYTES):
            chunk = text[offset : offset + CHUNK_BYTES]
            reader.feed(chunk, offset + 1)  # at 0 a byte order mark would be swallowed
            if reader.pending_bytes >= self._limits.block_bytes:
                yield self._pieces(row, reader, len(chunk), whole=False)
        reader.finish()
        yield self._pieces(row, reader, _ROW_BYTES, whole=True)
        self._row += 1

    def _pieces(
        self, row: pa.RecordBatch, reader: _native.TextReader, size: int, *, whole: bool
    ) -> ReadyBlock:
        offsets, data, _, starts, _, counts = reader.take()
        positions = np.full(len(starts), self._file.position(self._row), np.uint64)
        repeated = row.take(pa.array(np.zeros(len(starts), np.int64)))
        batch = _document_batch(self._file, repeated, text_column(offsets, data), positions)
        end = self._row + 1 if whole else self._row
        documents = Documents(batch, _nonzero(counts))
        return ReadyBlock(documents, self._file.ordinal, self._row, end, False, size, whole)


def _document_batch(
    file: CorpusFile, rows: pa.RecordBatch, text: pa.Array, positions: NDArray[np.uint64]
) -> pa.RecordBatch:
    carried = [rows.column(name) for name in file.source.columns]
    names = ["text", "position", *file.source.columns]
    return pa.RecordBatch.from_arrays([text, pa.array(positions), *carried], names=names)


def _nonzero(counts: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}
