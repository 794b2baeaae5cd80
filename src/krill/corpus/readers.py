"""The native readers, driven: decoded bytes of one file in, `Documents` out.

One `DocumentReader` serves both of them. It names the file and the line when a record is malformed, and
refuses a file whose records have no text where the config says. Held in memory: what was fed and not yet
taken.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from krill import _native
from krill.corpus.arrays import as_arrow
from krill.corpus.buffers import text_column
from krill.corpus.checks import valid_strings
from krill.corpus.documents import BLOCKS_PER_UNIT, OFFSET_BITS, Documents
from krill.corpus.formats import CorpusFile, Format
from krill.corpus.streams import (
    CHUNK_BYTES,
    HEAD_BYTES,
    DecodedStream,
    RangeReader,
    input_errors,
    line_number,
    refuse_other_kinds,
)
from krill.errors import InputError

# Names of columns in a message, at most: a table may have fifty thousand.
_NAMES_SHOWN = 50
_TEXT_HINT = "set `text_column:` to the one that holds the text"
_PLAIN = pa.schema([("text", pa.large_string()), ("position", pa.uint64())])


@dataclass(frozen=True, slots=True)
class Limits:
    """How a corpus is cut and read; what of it shapes the output comes from the config."""

    unit_bytes: int
    max_document_bytes: int
    drop_oversize: bool = False
    skip_malformed: bool = False
    default_separator: str = ""
    batch_rows: int | None = None

    @property
    def block_bytes(self) -> int:
        return max(1, self.unit_bytes // BLOCKS_PER_UNIT)


def separator_of(file: CorpusFile, limits: Limits) -> bytes:
    """What ends a record: a newline in JSON lines, the configured separator in plain text."""
    if file.format is Format.JSON_LINES:
        return b"\n"
    separator = file.source.separator
    return (limits.default_separator if separator is None else separator).encode()


class DocumentReader:
    """A push parser of one file, or of a range of it that begins with a record."""

    def __init__(self, file: CorpusFile, limits: Limits, start: int) -> None:
        self._file = file
        self._names = file.source.columns
        self._reader = _open_native(file, limits)
        # Whether the column exists is seen in the first records: a later range may be without by chance.
        self._unseen = start == file.start and file.format is not Format.TEXT

    @property
    def pending_bytes(self) -> int:
        """Bytes of documents gathered since the last `take`, the open one included."""
        return self._reader.pending_bytes

    def feed(self, data: bytes | memoryview, offset: int) -> None:
        """The next bytes, which begin at decoded `offset`."""
        if offset == 0:
            refuse_other_kinds(self._file, bytes(data[:HEAD_BYTES]))
        with malformed_records(self._file):
            self._reader.feed(data, offset)

    def finish(self) -> None:
        with malformed_records(self._file):
            self._reader.finish()

    def read_range(self, start: int, end: int) -> None:
        """All bytes of a local file in [start, end), and nothing follows."""
        with self._reading(start, end) as path:
            self._reader.read_range(path, start, end)

    def read_clean(self, start: int, end: int, strip: bool, min_chars: int) -> Documents:
        """The documents in [start, end) of a local file, cleaned and hashed; without carried columns. What
        was dropped is in `rejected`, as it came and without its reason."""
        with self._reading(start, end) as path:
            offsets, data, starts, hashes, counts, dropped = self._reader.read_clean(
                path, start, end, strip, min_chars
            )
        self._see(counts)
        batch = self._plain(offsets, data, starts)
        rejected = (self._plain(*dropped),) if len(dropped[2]) else ()
        counts = {name: count for name, count in counts.items() if count}
        return Documents(batch, counts, rejected, hashes)

    def take(self) -> Documents:
        """The documents gathered, without the open one."""
        taken = _taken(self._reader, self._names, self._file.position(0))
        self._see(taken.counts)
        return taken

    def _plain(self, offsets: Any, data: Any, starts: Any, nulls: Any = None) -> pa.RecordBatch:
        starts += np.uint64(self._file.position(0))
        there = None
        if nulls is not None and nulls.any():
            there = pa.py_buffer(np.packbits(nulls == 0, bitorder="little"))
        columns = [text_column(offsets, data, there), as_arrow(starts)]
        return pa.RecordBatch.from_arrays(columns, schema=_PLAIN)

    @contextmanager
    def _reading(self, start: int, end: int) -> Iterator[bytes]:
        """The file's name for the native reader, whose errors become `InputError`."""
        if start == 0:
            with RangeReader(self._file) as head:
                refuse_other_kinds(self._file, head.read(0, min(end, HEAD_BYTES)))
        with input_errors(self._file, at=start), malformed_records(self._file):
            yield os.fsencode(self._file.location)

    def _see(self, counts: Mapping[str, int]) -> None:
        """Refuse a file whose first records have no text where the config says."""
        read = counts.get("records", 0) - counts.get("malformed", 0)
        if self._unseen and read:
            self._unseen = False
            if counts.get("not_text", 0) == read:
                _refuse_without_text(self._file, key_seen=counts.get("key_seen", 0) > 0)


class FilesReader:
    """Many small files of one source and format, read into one batch; `like` is any of them."""

    def __init__(self, like: CorpusFile, limits: Limits) -> None:
        self._names = like.source.columns
        self._reader = _open_native(like, limits)

    def read(
        self, paths: list[bytes], ordinals: array[int], starts: array[int], ends: array[int]
    ) -> Sequence[int]:
        """Read a range of each; returns the indices of those that may have no text, or none in UTF-8.

        What it raises does not say which file is at fault.
        """
        bases = np.array(ordinals, np.uint64) << np.uint64(OFFSET_BITS)
        columns = (np.frombuffer(column, np.uint64) for column in (starts, ends))
        return self._reader.read_files(paths, bases, *columns)

    def take(self) -> Documents:
        return _taken(self._reader, self._names)


def _taken(reader: _native.JsonReader | _native.TextReader, names: Sequence[str], base: int = 0) -> Documents:
    offsets, data, nulls, starts, carried, counts = reader.take()
    if base:
        starts += np.uint64(base)
    there = pa.py_buffer(np.packbits(nulls == 0, bitorder="little")) if nulls.any() else None
    columns = [text_column(offsets, data, there), as_arrow(starts)]
    columns += string_columns(len(names), len(nulls), *carried, valid=True)
    batch = pa.RecordBatch.from_arrays(columns, names=["text", "position", *names])
    return Documents(batch, {name: count for name, count in counts.items() if count})


@contextmanager
def malformed_records(file: CorpusFile) -> Iterator[None]:
    """Turns a record that the native reader refuses into an `InputError` with its line."""
    try:
        yield
    except _native.MalformedRecord as error:
        offset, _, reason = error.args
        hint = "mend the record, or set `on_error: skip` to leave such records out and count them"
        if file.format is Format.JSON_ARRAY:
            # Where the next element begins is not known after a fault.
            hint = "mend the file, or make it JSON lines, where `on_error: skip` can leave single records out"
        raise InputError(f"`{file.path}` line {line_number(file, offset)}: {reason}", hint=hint) from None


def _open_native(file: CorpusFile, limits: Limits) -> _native.JsonReader | _native.TextReader:
    if file.format is Format.TEXT:
        return _native.TextReader(separator_of(file, limits), limits.max_document_bytes, limits.drop_oversize)
    return _native.JsonReader(
        file.source.text_column.encode(),
        [name.encode() for name in file.source.columns],
        limits.max_document_bytes,
        limits.drop_oversize,
        limits.skip_malformed,
        file.format is Format.JSON_ARRAY,
        bool(file.source.row_columns),
    )


def string_columns(
    count: int, rows: int, offsets: Any, data: Any, nulls: Any, begins: Any, *, valid: bool = False
) -> list[pa.Array]:
    """Columns whose buffers lie end to end, as slices of one array; if asked, what is not UTF-8 taken out.

    What can be done with that array is done once: ten thousand columns of a few rows are ordinary.
    """
    if count == 0:
        return []
    # From one column to the next there is an empty value: where the one ends and the other begins.
    offsets.reshape(count, rows + 1)[:] += begins[:-1, None]
    there = None
    if nulls.any():
        flags = np.ones((count, rows + 1), np.bool_)
        flags[:, :rows] = nulls.reshape(count, rows) == 0
        there = pa.py_buffer(np.packbits(flags, bitorder="little"))
    joined = text_column(offsets, data, there)
    if valid:
        joined = valid_strings(joined)
    return [joined.slice(at, rows) for at in range(0, len(offsets), rows + 1)]


def _refuse_without_text(file: CorpusFile, key_seen: bool) -> None:
    """Raise, unless the text is where the config says, and only null in the first records by chance."""
    column = file.source.text_column
    record = _first_record(file)
    if not key_seen:
        raise missing_column(file, column, list(record))
    if record.get(column) is not None:
        raise not_strings(file, type(record[column]).__name__)


def missing_column(file: CorpusFile, name: str, names: Sequence[str]) -> InputError:
    """The error for a file without a column that is wanted; `names` are those that it has."""
    listed = ", ".join(f"`{other}`" for other in names[:_NAMES_SHOWN])
    if len(names) > _NAMES_SHOWN:
        listed += f" and {len(names) - _NAMES_SHOWN:,} more"
    is_text = name == file.source.text_column
    hint = _TEXT_HINT if is_text else "set `columns:` to one of them"
    there = f"; there are: {listed}" if listed else ""
    return InputError(f"no column `{name}` in `{file.path}`{there}", hint=hint)


def not_strings(file: CorpusFile, kind: object) -> InputError:
    fact = f"column `{file.source.text_column}` of `{file.path}` holds `{kind}`, not strings"
    return InputError(fact, hint=_TEXT_HINT)


def _first_record(file: CorpusFile) -> dict[str, Any]:
    """The first record, if it is well-formed and not too long to be looked at."""
    with DecodedStream(file, file.start) as stream:
        head = stream.read(CHUNK_BYTES).decode("utf-8", "replace")
    try:
        record, _ = json.JSONDecoder().raw_decode(head, head.index("{"))
    except ValueError:
        return {}
    return dict(record)
