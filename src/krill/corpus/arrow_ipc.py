"""Arrow IPC: record batches of `.arrow`, `.feather` and `.ipc` files, in the file and in the stream format.

Since `arrow_messages` finds them without reading them, the record batches of a stream too, such as a
Hugging Face dataset on disk, are read in any order by all threads.

Held in memory: an offset and a few numbers per record batch, and the batch being read. One that is larger
than a block is mapped and copied out in slices, its pages given back after each. If it is compressed or
folded into a dictionary, it has to be held as a whole: `whole_bytes` tells how much that will be.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from krill.corpus.arrow_messages import DICTIONARY_BATCH, RECORD_BATCH, SCHEMA, Message, NotArrow, messages
from krill.corpus.formats import CorpusFile
from krill.corpus.ranged_rows import Chunks
from krill.corpus.readers import Limits
from krill.corpus.rows import bounded_slices, unfolded, wanted_columns
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
            found = _Messages(file, source)
        self.schema = found.schema
        self._schema_bytes = found.schema_bytes
        self._columns = wanted_columns(file, self.schema)
        self._dictionaries = found.dictionaries
        self._batches = np.array(found.batches, _MESSAGE)
        self._text_type = self.schema.field(file.source.text_column).type
        folded = np.full(len(self._batches), pa.types.is_dictionary(self._text_type))
        self.chunks = Chunks.of(self._batches["rows"], self._batches["bytes"], folded)

    @property
    def whole_bytes(self) -> int:
        """The largest record batch that is too large for a block and can't be read in slices."""
        sizes = self._batches["bytes"][[not self._can_map(chunk) for chunk in range(len(self._batches))]]
        largest = int(sizes.max(initial=0))
        return largest if largest > self._limits.block_bytes else 0

    def read(self, first: int, stop: int) -> pa.RecordBatch:
        with input_errors(self._file), open_raw(self._file) as source:
            batches = [self._decode(source, chunk) for chunk in range(first, stop)]
        return pa.concat_batches(batches) if len(batches) > 1 else batches[0]

    def steps(self, chunk: int) -> Iterator[pa.RecordBatch]:
        if self._batches["bytes"][chunk] > self._limits.block_bytes and self._can_map(chunk):
            yield from self._mapped_slices(chunk)
        else:
            rows = self.read(chunk, chunk + 1)
            yield from unfolded(self._file, rows, self.schema, self._limits.block_bytes)

    def _decode(self, source: pa.NativeFile, chunk: int) -> pa.RecordBatch:
        """A batch as if it were the only one of a stream: then Arrow sees to dictionaries and compression."""
        start, end = self._range(chunk)
        needed = [each for each in self._dictionaries if each.start < start]
        dictionaries = [_read(source, each.start, each.end) for each in needed]
        stream = b"".join([self._schema_bytes, *dictionaries, _read(source, start, end)])
        fields = [self.schema.get_field_index(name) for name in self._columns]
        options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        return pa.ipc.open_stream(pa.py_buffer(stream), options=options).read_next_batch()

    def _can_map(self, chunk: int) -> bool:
        kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
        if self._dictionaries or self._file.remote or self._batches["compressed"][chunk]:
            return False
        return any(is_kind(self._text_type) for is_kind in kinds)

    def _mapped_slices(self, chunk: int) -> Iterator[pa.RecordBatch]:
        start, end = self._range(chunk)
        with input_errors(self._file), open(self._file.location, "rb") as opened:
            mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
            message = pa.py_buffer(mapped).slice(start, end - start)
            rows = pa.ipc.read_record_batch(message, self.schema).select(self._columns)
        for piece in bounded_slices(rows, self._limits.block_bytes):
            yield pa.ipc.read_record_batch(piece.serialize(), piece.schema)  # a copy, in memory of its own
            mapped.madvise(mmap.MADV_DONTNEED)

    def _range(self, chunk: int) -> tuple[int, int]:
        return int(self._batches["start"][chunk]), int(self._batches["end"][chunk])


class _Messages:
    """What an Arrow file consists of."""

    def __init__(self, file: CorpusFile, source: pa.NativeFile) -> None:
        self.dictionaries: list[Message] = []
        self.batches: list[tuple[int, int, int, int, bool]] = []
        schema: Message | None = None
        try:
            for each in messages(lambda start, end: _read(source, start, end), source.size()):
                if each.kind == RECORD_BATCH:
                    numbers = (each.start, each.end, each.rows, each.decoded_bytes, each.compressed)
                    self.batches.append(numbers)
                elif each.kind == DICTIONARY_BATCH:
                    self.dictionaries.append(each)
                elif each.kind == SCHEMA:
                    schema = each
            if schema is None:
                raise NotArrow("it has no schema")
        except NotArrow as error:
            raise InputError(
                f"`{file.path}` is not a whole Arrow IPC file: {error}",
                hint="get it again; a Feather V1 file must be converted to V2",
            ) from error
        self.schema_bytes = _read(source, schema.start, schema.end)
        self.schema: pa.Schema = pa.ipc.read_schema(pa.py_buffer(self.schema_bytes))


def _read(source: pa.NativeFile, start: int, end: int) -> bytes:
    return bytes(source.read_at(end - start, start))
