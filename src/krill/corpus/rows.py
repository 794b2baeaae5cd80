"""Rows of columnar formats as documents: the same columns, limits and bounds as from the readers of bytes.

A row's position is its number. A row above the limit becomes several documents that share it (a row has no
offsets to tell them apart): positions of columnar files never fall, but repeat there. `row_blocks` cuts
what a format gives, batches of any size, into blocks bounded by whole rows, carried columns included. Held
in memory: the batch at hand, and a block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from krill import _native
from krill.corpus.arrays import PLAIN_STRINGS, as_arrow, repeat_rows, row_bytes
from krill.corpus.blocks import FileBlock, ReadyBlock, SizedBlock
from krill.corpus.buffers import text_buffers, text_column
from krill.corpus.checks import cast, valid_strings
from krill.corpus.documents import Documents, concat
from krill.corpus.formats import CorpusFile
from krill.corpus.json_rows import json_rows, row_names
from krill.corpus.readers import Limits, missing_column, not_strings
from krill.corpus.streams import CHUNK_BYTES
from krill.errors import InputError
from krill.faults import first_line

_TEXTS = PLAIN_STRINGS | {pa.string_view(), pa.binary_view()}

# Bytes of a row besides its columns.
_POSITION_BYTES = 8

# Rows measured at once: their sizes are to be small beside a block.
MEASURED_ROWS = 1 << 14


def wanted_columns(file: CorpusFile, schema: pa.Schema) -> list[str]:
    """The names to read, the text first; an error that says what there is, if one is missing or no text."""
    names = wanted_names(file, schema.names)
    if not file.source.row_columns:
        kind = schema.field(names[0]).type
        if (kind.value_type if pa.types.is_dictionary(kind) else kind) not in _TEXTS:
            raise not_strings(file, kind)
    return names


def wanted_names(file: CorpusFile, names: Sequence[str]) -> list[str]:
    """The columns to read of those that a file has: the text, or what makes up its rows, then those
    carried."""
    source, known = file.source, set(names)
    first = row_names(file, names) if source.row_columns else [source.text_column]
    for name in (*first, *source.columns):
        if name not in known:
            raise missing_column(file, name, names)
    return list(dict.fromkeys((*first, *source.columns)))


@dataclass(frozen=True, slots=True)
class RowBlock(FileBlock):
    """Rows that were read in order; making documents of them is left to the thread that parses."""

    rows: pa.RecordBatch

    @property
    def nbytes(self) -> int:
        return 2 * int(self.rows.nbytes)

    def _parse(self) -> Documents:
        offsets = np.arange(self.start, self.end, dtype=np.uint64)
        return to_documents(self.source, self.limits, self.rows, offsets)


def to_documents(
    file: CorpusFile, limits: Limits, rows: pa.RecordBatch, offsets: NDArray[np.uint64]
) -> Documents:
    """Rows as documents; `offsets` are their numbers, or where they begin in the file."""
    rows = with_large_text(file, rows)
    text = rows.column(file.source.text_column)
    counts = {"records": len(text), "key_seen": len(text), "not_text": text.null_count}
    positions = offsets + np.uint64(file.position(0))
    documents = Documents(_document_batch(file, rows, text, positions), _nonzero(counts))
    return split_oversize(limits, documents)


def split_oversize(limits: Limits, documents: Documents) -> Documents:
    """The same documents, but those above the limit in pieces, or not at all."""
    batch, done = documents.batch, 0
    oversize = np.flatnonzero(np.diff(text_buffers(batch.column("text"))[0]) > limits.max_document_bytes)
    if len(oversize) == 0:
        return documents
    pieces = [Documents(batch.slice(0, 0), documents.counts)]
    for row in oversize.tolist():
        pieces.append(Documents(batch.slice(done, row - done)))
        for piece in split_row(limits, batch.slice(row, 1)):
            counts = {name: n for name, n in piece.counts.items() if name.startswith("oversize")}
            pieces.append(Documents(piece.batch, counts))
        done = row + 1
    return replace(concat([*pieces, Documents(batch.slice(done))]), rejected=documents.rejected)


def split_row(limits: Limits, row: pa.RecordBatch) -> Iterator[Documents]:
    """One document above the limit as the pieces, or the nothing, that the readers of bytes make of it.

    The pieces come in bounded batches; what was counted comes with the last.
    """
    reader = _native.TextReader(b"", limits.max_document_bytes, limits.drop_oversize)
    offsets, data = text_buffers(row.column("text"))
    text = data[offsets[0] : offsets[-1]]
    for offset in range(0, len(text), CHUNK_BYTES):
        reader.feed(
            text[offset : offset + CHUNK_BYTES], offset + 1
        )  # at 0 it would swallow a byte order mark
        if reader.pending_bytes >= limits.block_bytes:
            yield _pieces(row, reader)
    reader.finish()
    yield _pieces(row, reader)


def _pieces(row: pa.RecordBatch, reader: _native.TextReader) -> Documents:
    offsets, data, _, starts, _, counts = reader.take()
    others = repeat_rows(row.select(row.schema.names[1:]), np.array([len(starts)]))
    batch = pa.RecordBatch.from_arrays([text_column(offsets, data), *others.columns], names=row.schema.names)
    return Documents(batch, _nonzero(counts))


def with_large_text(file: CorpusFile, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, their text as `large_string`, whatever strings or bytes it was; or the rows themselves,
    as JSON, where they are the documents."""
    if file.source.row_columns:
        return json_rows(file.source, rows)
    index = rows.schema.get_field_index(file.source.text_column)
    text = rows.column(index)
    if pa.types.is_large_string(text.type):
        return rows
    return rows.set_column(index, file.source.text_column, large_text(text))


def large_text(text: pa.Array) -> pa.Array:
    """Strings or bytes of any type as `large_string`, their bytes shared if they lie in one piece.

    UTF-8 is not checked: cleaning repairs it, whatever the format.
    """
    narrow = pa.types.is_string(text.type) or pa.types.is_binary(text.type)
    if not narrow or len(text) == 0 or (text.offset and text.null_count):
        return cast(text, pa.large_string())
    valid, offsets, data = text.buffers()
    wide = np.frombuffer(offsets, np.int32, len(text) + 1, text.offset * 4).astype(np.int64)
    return text_column(wide, np.frombuffer(data or b"", np.uint8), valid)


def decode_dictionaries(
    file: CorpusFile, rows: pa.RecordBatch, schema: pa.Schema, limit: int
) -> Iterator[pa.RecordBatch]:
    """Rows whose strings may be dictionary-encoded: the text, and columns that aren't in `schema`.

    They are decoded in slices of at most `limit` bytes; rows without such columns come as they are.
    """
    text = file.source.text_column
    kinds = {
        index: pa.large_string() if name == text else schema.field(name).type
        for index, (name, kind) in enumerate(zip(rows.schema.names, rows.schema.types, strict=True))
        if pa.types.is_dictionary(kind) and (name == text or kind != schema.field(name).type)
    }
    if not kinds:
        yield rows
        return
    # All columns at once: each `set_column` would make a schema of all of them, and there may be thousands.
    fields = [field.with_type(kinds.get(index, field.type)) for index, field in enumerate(rows.schema)]
    decoded = pa.schema(fields, rows.schema.metadata)
    for piece in bounded_slices(rows, limit):
        columns = piece.columns
        for index, kind in kinds.items():
            is_text = decoded.field(index).name == text
            columns[index] = large_text(columns[index]) if is_text else columns[index].cast(kind)
        yield pa.RecordBatch.from_arrays(columns, schema=decoded)


def bounded_slices(rows: pa.RecordBatch, limit: int) -> Iterator[pa.RecordBatch]:
    """The same rows in slices of at most `limit` bytes, or of one row."""
    for start in range(0, rows.num_rows, MEASURED_ROWS):
        measured = rows.slice(start, MEASURED_ROWS)
        ends = np.cumsum(row_bytes(measured))
        first, passed = 0, 0
        while first < len(ends):
            stop = max(first + 1, int(np.searchsorted(ends, passed + limit, "right")))
            yield measured.slice(first, stop - first)
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
    """Joins small batches and slices large ones; a row too large for a block goes by itself, in pieces."""

    def __init__(self, file: CorpusFile, limits: Limits, start: int) -> None:
        self._file = file
        self._limits = limits
        self._row = start
        self._gathered: list[pa.RecordBatch] = []
        self._size = 0
        self._giant_bytes = max(limits.block_bytes, limits.max_document_bytes)

    def cut(self, batches: Iterable[pa.RecordBatch]) -> Iterator[RowBlock | ReadyBlock]:
        for batch in batches:
            yield from self._add(with_large_text(self._file, batch))
        yield from self._flush()

    def _add(self, batch: pa.RecordBatch) -> Iterator[RowBlock | ReadyBlock]:
        lengths = np.diff(text_buffers(batch.column(self._file.source.text_column))[0])
        ends = np.cumsum(row_bytes(batch) + _POSITION_BYTES)
        giants = iter([*np.flatnonzero(lengths > self._giant_bytes).tolist(), len(lengths)])
        giant = next(giants)
        first, passed = 0, 0
        while first < len(lengths):
            # The row that fills the block is still in it.
            room = self._limits.block_bytes - self._size
            stop = min(giant, int(np.searchsorted(ends, passed + room)) + 1)
            if stop > first:
                self._gathered.append(batch.slice(first, stop - first))
                self._size += int(ends[stop - 1]) - passed
            if self._size >= self._limits.block_bytes or stop == giant < len(lengths):
                yield from self._flush()
            if stop == giant < len(lengths):
                yield from self._in_pieces(batch.slice(stop, 1))
                giant = next(giants)
                stop += 1
            first, passed = stop, int(ends[stop - 1])

    def _flush(self) -> Iterator[RowBlock]:
        if self._gathered:
            rows = pa.concat_batches(self._gathered)
            end = self._row + int(rows.num_rows)
            block = RowBlock(self._file, self._limits, self._row, end, self._size, False, rows)
            self._row, self._gathered, self._size = block.end, [], 0
            yield block

    def _in_pieces(self, row: pa.RecordBatch) -> Iterator[ReadyBlock]:
        file, number = self._file, self._row
        position = np.array([file.position(number)], np.uint64)
        document = _document_batch(file, row, row.column(file.source.text_column), position)
        for pieces in split_row(self._limits, document):
            # The reader counts the record when it ends.
            whole = "records" in pieces.counts
            end = number + 1 if whole else number
            size = int(row_bytes(pieces.batch).sum())
            yield ReadyBlock(pieces, file.ordinal, number, end, False, size, whole)
        self._row += 1


def _document_batch(
    file: CorpusFile, rows: pa.RecordBatch, text: pa.Array, positions: NDArray[np.uint64]
) -> pa.RecordBatch:
    carried = [_valid(file, name, rows.column(name)) for name in file.source.columns]
    names = ["text", "position", *file.source.columns]
    return pa.RecordBatch.from_arrays([text, as_arrow(positions), *carried], names=names)


def _valid(file: CorpusFile, name: str, column: pa.Array) -> pa.Array:
    try:
        return valid_strings(column)
    except pa.ArrowInvalid as error:
        raise InputError(
            f"the column `{name}` of `{file.path}` can't be carried: {first_line(error)}",
            hint="mend the file, or take the column out of `columns:`",
        ) from error


def _nonzero(counts: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}
