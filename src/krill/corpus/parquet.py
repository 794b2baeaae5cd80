"""Parquet: row groups, read without mapping and without reading ahead; only the wanted columns.

Held in memory: the footers of the few files last used, and what `ranged_rows` says.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from krill.corpus.formats import CorpusFile
from krill.corpus.ranged_rows import Chunks
from krill.corpus.readers import Limits
from krill.corpus.rows import text_slices, wanted_columns
from krill.corpus.streams import input_errors, open_raw

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_BUFFER_BYTES = 1 << 20
_FOOTERS_KEPT = 4

_MAX_STEP_ROWS = 1 << 14

# A text column with a dictionary and fewer bytes a row than this may unfold to far more than the footer says,
# for repeated documents are stored once. It is read in short steps, and kept folded if it fits a block so.
_SUSPECT_ROW_BYTES = 256
_SUSPECT_STEP_ROWS = 1 << 10


class Footers:
    """The parsed footers of the files last used, shared by all threads: large files have large ones."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, pq.FileMetaData] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, file: CorpusFile, **options: object) -> pq.ParquetFile:
        """The file, with its footer read at most once while it is in use."""
        import pyarrow.parquet as pq  # several megabytes, for those who read Parquet

        with self._lock:
            footer = self._kept.get(file.location)
        with input_errors(file):
            source = open_raw(file) if file.remote else file.location  # which it will close itself
            opened = pq.ParquetFile(
                source, metadata=footer, pre_buffer=False, buffer_size=_BUFFER_BYTES, **options
            )
        with self._lock:
            self._kept[file.location] = opened.metadata
            self._kept.move_to_end(file.location)
            if len(self._kept) > _FOOTERS_KEPT:
                self._kept.popitem(last=False)
        return opened


class ParquetReader:
    """A `ChunkReader` of row groups."""

    def __init__(self, file: CorpusFile, limits: Limits, footers: Footers) -> None:
        self._file = file
        self._limits = limits
        self._footers = footers
        with footers.open(file) as opened:
            self.schema: pa.Schema = opened.schema_arrow
            self._columns = wanted_columns(file, self.schema)
            self.chunks = _chunks(opened.metadata, self._columns)

    def read(self, first: int, stop: int) -> pa.RecordBatch:
        with self._footers.open(self._file) as opened, input_errors(self._file):
            table = opened.read_row_groups(range(first, stop), columns=self._columns, use_threads=False)
        return table.combine_chunks().to_batches()[0]

    def steps(self, chunk: int) -> Iterator[pa.RecordBatch]:
        size = int(self.chunks.bytes[chunk])
        suspect = bool(self.chunks.stepwise[chunk])
        folded = [self._file.source.text_column] if suspect and size <= self._limits.block_bytes else None
        with self._footers.open(self._file, read_dictionary=folded) as opened:
            batches = opened.iter_batches(
                self._step_rows(chunk), row_groups=[chunk], columns=self._columns, use_threads=False
            )
            while True:
                with input_errors(self._file):
                    batch = next(batches, None)
                if batch is None:
                    return
                yield from text_slices(self._file, batch, self._limits.block_bytes)

    def _step_rows(self, chunk: int) -> int:
        """A quarter of a block, by the rows' mean size: so rows four times the mean still fit one."""
        rows = int(self.chunks.rows[chunk + 1] - self.chunks.rows[chunk])
        mean = max(1, int(self.chunks.bytes[chunk]) // max(1, rows))
        most = _SUSPECT_STEP_ROWS if self.chunks.stepwise[chunk] else _MAX_STEP_ROWS
        return max(1, min(self._limits.block_bytes // 4 // mean, most, self._limits.batch_rows or most))


def _chunks(footer: pq.FileMetaData, columns: list[str]) -> Chunks:
    rows, sizes, stepwise = [], [], []
    for index in range(footer.num_row_groups):
        group = footer.row_group(index)
        size, suspect = 0, False
        for leaf in range(group.num_columns):
            column = group.column(leaf)
            path = column.path_in_schema
            name = next((name for name in columns if path == name or path.startswith(name + ".")), None)
            if name is None:
                continue
            size += column.total_uncompressed_size
            few_bytes = column.total_uncompressed_size < _SUSPECT_ROW_BYTES * group.num_rows
            suspect |= name == columns[0] and column.has_dictionary_page and few_bytes
        rows.append(group.num_rows)
        sizes.append(size)
        stepwise.append(suspect)
    return Chunks.of(rows, sizes, stepwise)
