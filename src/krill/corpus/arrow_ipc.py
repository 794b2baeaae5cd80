"""Arrow IPC: record batches of files in the file format and in the stream format.

Since `arrow_messages` finds them without reading them, the record batches of a stream too, such as a
Hugging Face dataset on disk, are read in any order by all threads.

Held in memory: an offset and a few numbers per record batch, and the batch being read. One that is larger
than a block is mapped and copied out in slices, its pages given back after each. If it is compressed or
dictionary-encoded, it has to be held as a whole: `whole_bytes` tells how much that will be.
"""

from __future__ import annotations

import mmap
from bisect import bisect_left
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from krill.corpus.arrays import PLAIN_STRINGS
from krill.corpus.arrow_messages import DICTIONARY_BATCH, RECORD_BATCH, SCHEMA, Message, NotArrow, messages
from krill.corpus.buffers import text_buffers
from krill.corpus.checks import as_carried, carried_schema, check_batch, check_columns
from krill.corpus.columnar import Chunks
from krill.corpus.formats import CorpusFile
from krill.corpus.readers import Limits
from krill.corpus.rows import MEASURED_ROWS, bounded_slices, decode_dictionaries, large_text, wanted_columns
from krill.corpus.streams import input_errors, open_raw
from krill.errors import InputError

# A terabyte in batches of 3 MB is 350,000 of them: kept as numbers, not as objects.
_MESSAGE = np.dtype([("start", "i8"), ("end", "i8"), ("rows", "i8"), ("bytes", "i8"), ("compressed", "?")])


class ArrowReader:
    """A `ChunkReader` of record batches."""

    def __init__(self, file: CorpusFile, limits: Limits) -> None:
        self._file = file
        self._limits = limits
        with input_errors(file), open_raw(file) as source:
            self._batches, dictionaries, self._schema_bytes = _find_messages(file, source)
            stored: pa.Schema = pa.ipc.read_schema(pa.py_buffer(self._schema_bytes))
            stored.names  # noqa: B018  which must be UTF-8
        self._stored_schema = stored
        self._columns = wanted_columns(file, stored)
        self.schema = carried_schema(file, stored)
        self._dictionaries = _Dictionaries(dictionaries)
        self._refuse_more_rows_than_bytes()
        whole = bool(file.source.row_columns)
        self._text_type = pa.large_string() if whole else self.schema.field(file.source.text_column).type
        encoded = np.full(len(self._batches), pa.types.is_dictionary(self._text_type))
        self.chunks = Chunks.of(self._batches["rows"], self._batches["bytes"], encoded)

    @property
    def whole_bytes(self) -> int:
        """The largest record batch that is too large for a block and can't be read in slices, and the
        dictionaries that a batch needs, which are read with it."""
        batches = self._batches[[not self._can_map(chunk) for chunk in range(len(self._batches))]]
        stored = np.where(batches["compressed"], batches["end"] - batches["start"], 0)
        large = (batches["bytes"] + stored)[batches["bytes"] > self._limits.block_bytes]
        return int(large.max(initial=0)) + self._dictionaries.held_bytes

    @property
    def each_batch_bytes(self) -> int:
        """What every batch in flight holds of the file's dictionaries; if the text itself is
        dictionary-encoded, batches are read one at a time and decoded."""
        return 0 if pa.types.is_dictionary(self._text_type) else self._dictionaries.held_bytes

    def read(self, first: int, stop: int) -> pa.RecordBatch:
        with input_errors(self._file), open_raw(self._file) as source:
            batches = [self._decode(source, chunk) for chunk in range(first, stop)]
            for batch in batches:
                check_batch(batch)
            batches = [as_carried(batch, self.schema) for batch in batches]
        return pa.concat_batches(batches) if len(batches) > 1 else batches[0]

    def steps(self, chunk: int) -> Iterator[pa.RecordBatch]:
        if self._batches["bytes"][chunk] > self._limits.block_bytes and self._can_map(chunk):
            yield from self._mapped_slices(chunk)
        else:
            rows = self.read(chunk, chunk + 1)
            yield from decode_dictionaries(self._file, rows, self.schema, self._limits.block_bytes)

    def _decode(self, source: pa.NativeFile, chunk: int) -> pa.RecordBatch:
        """A batch as if it were the only one of a stream: then Arrow sees to dictionaries and compression."""
        start, end = self._range(chunk)
        stream = self._as_stream(source, [*self._dictionaries.needed(start), (start, end)])
        fields = [self.schema.get_field_index(name) for name in self._columns]
        options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        for batch in pa.ipc.open_stream(pa.py_buffer(stream), options=options):
            return batch
        raise EOFError(f"no record batch at byte {start:,}")

    def _as_stream(self, source: pa.NativeFile, ranges: list[tuple[int, int]]) -> bytearray:
        """The schema and some messages of the file, without a second copy of them."""
        stream = bytearray(len(self._schema_bytes) + sum(end - start for start, end in ranges))
        stream[: len(self._schema_bytes)] = self._schema_bytes
        at = len(self._schema_bytes)
        with memoryview(stream) as view:
            for start, end in ranges:
                source.seek(start)
                while start < end:
                    read = source.readinto(view[at : at + end - start])
                    if not read:
                        raise EOFError(f"the file ends before byte {end:,}")
                    at, start = at + read, start + read
        return stream

    def _can_map(self, chunk: int) -> bool:
        if self._dictionaries or self._file.remote or self._batches["compressed"][chunk]:
            return False
        return self._text_type in PLAIN_STRINGS

    def _mapped_slices(self, chunk: int) -> Iterator[pa.RecordBatch]:
        rows, mapped = self._map(chunk)
        for start in range(0, rows.num_rows, MEASURED_ROWS):
            checked = rows.slice(start, MEASURED_ROWS)
            with input_errors(self._file):
                check_columns(checked.columns)
            for piece in bounded_slices(checked, self._limits.block_bytes):
                if not self._goes_in_pieces(piece):
                    piece = pa.ipc.read_record_batch(piece.serialize(), piece.schema)  # in memory of its own
                    mapped.madvise(mmap.MADV_DONTNEED)
                yield as_carried(piece, self.schema)
                mapped.madvise(mmap.MADV_DONTNEED)

    def _map(self, chunk: int) -> tuple[pa.RecordBatch, mmap.mmap]:
        """A batch whose buffers are in the file, not yet checked but for where they are."""
        start, end = self._range(chunk)
        with input_errors(self._file), open(self._file.location, "rb") as opened:
            mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
            message = pa.py_buffer(mapped).slice(start, end - start)
            rows = pa.ipc.read_record_batch(message, self._stored_schema).select(self._columns)
            rows.validate()
        return rows, mapped

    def long_rows(self, step: int) -> Iterator[tuple[int, int]]:
        """About where texts longer than a block are, in those mapped batches that a grid of `step` meets."""
        line = 0
        for chunk in range(len(self._batches)):
            start, end = self._range(chunk)
            if end <= line or self._batches["bytes"][chunk] <= self._limits.block_bytes:
                continue
            line = max(line, start) + step
            if self._can_map(chunk) and not self._file.source.row_columns:
                rows, mapped = self._map(chunk)
                offsets, _ = text_buffers(large_text(rows.column(self._file.source.text_column)))
                for row in np.flatnonzero(np.diff(offsets) > self._limits.block_bytes).tolist():
                    yield start + int(offsets[row] - offsets[0]), start + int(offsets[row + 1] - offsets[0])
                mapped.madvise(mmap.MADV_DONTNEED)

    def _goes_in_pieces(self, rows: pa.RecordBatch) -> bool:
        """Whether it is one row that is copied in pieces anyway, before the next one is asked for."""
        if rows.num_rows > 1 or self._file.source.row_columns:
            return False
        text = rows.column(self._file.source.text_column)
        return bool(text.nbytes > self._limits.block_bytes + self._limits.max_document_bytes)

    def _refuse_more_rows_than_bytes(self) -> None:
        """A text takes a byte at least, and rows are counted on long before they are read."""
        wrong = self._batches[self._batches["rows"] > self._batches["bytes"]]
        if len(wrong):
            raise InputError(
                f"`{self._file.path}` is damaged: the record batch at byte {wrong['start'][0]:,} has"
                f" {wrong['rows'][0]:,} rows in {wrong['bytes'][0]:,} bytes",
                hint="get it again, or take it out of `datasets:`",
            )

    def _range(self, chunk: int) -> tuple[int, int]:
        return int(self._batches["start"][chunk]), int(self._batches["end"][chunk])


def _find_messages(file: CorpusFile, source: pa.NativeFile) -> tuple[NDArray[np.void], list[Message], bytes]:
    """The record batches, the dictionaries, and the schema's bytes."""

    def read(start: int, end: int) -> bytes:
        return bytes(source.read_at(end - start, start))

    batches, dictionaries, schema = [], [], None
    try:
        for each in messages(read, source.size()):
            if each.kind == RECORD_BATCH:
                batches.append((each.start, each.end, each.rows, each.decoded_bytes, each.compressed))
            elif each.kind == DICTIONARY_BATCH:
                dictionaries.append(each)
            elif each.kind == SCHEMA:
                schema = each
        if schema is None:
            raise NotArrow("it has no schema")
    except NotArrow as error:
        raise InputError(
            f"`{file.path}` is not a whole Arrow IPC file: {error}",
            hint="get it again; a Feather V1 file must be converted to V2",
        ) from error
    return np.array(batches, _MESSAGE), dictionaries, read(schema.start, schema.end)


class _Dictionaries:
    """The dictionaries of a file: which of them a record batch needs, and what they take.

    A stream may replace a dictionary with every batch. A batch needs the last one before it, and the deltas
    that were added to that one since; not all that the file has had until then.
    """

    def __init__(self, found: Iterable[Message]) -> None:
        self._by_number: dict[int, list[Message]] = {}
        # Of each, where in its list the one stands that it adds to, or itself.
        self._first: dict[int, list[int]] = {}
        for each in found:
            kept = self._by_number.setdefault(each.dictionary, [])
            first = self._first.setdefault(each.dictionary, [])
            first.append(first[-1] if each.delta and first else len(kept))
            kept.append(each)

    def __bool__(self) -> bool:
        return bool(self._by_number)

    @property
    def held_bytes(self) -> int:
        """What a batch that needs the most of each holds: as decoded and, if compressed, as stored."""
        return sum(self._most(number) for number in self._by_number)

    def needed(self, start: int) -> list[tuple[int, int]]:
        """Where the dictionaries lie that a batch at byte `start` needs, in their order."""
        ranges = []
        for number, kept in self._by_number.items():
            behind = bisect_left(kept, start, key=lambda each: each.start)
            if behind:
                ranges += [(each.start, each.end) for each in kept[self._first[number][behind - 1] : behind]]
        return sorted(ranges)

    def _most(self, number: int) -> int:
        most = held = 0
        for at, each in enumerate(self._by_number[number]):
            if self._first[number][at] == at:
                held = 0
            held += each.decoded_bytes + (each.end - each.start if each.compressed else 0)
            most = max(most, held)
        return most
