"""Parquet: row groups, read without mapping and without reading ahead; only the wanted columns.

Held in memory: the footers of the few files last used, what `ranged_rows` says, and of each column that is
read its page and its dictionary, which Arrow decodes whole: `whole_bytes` tells how much that may be.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from krill.corpus.formats import CorpusFile
from krill.corpus.ranged_rows import Chunks
from krill.corpus.readers import Limits
from krill.corpus.rows import unfolded, wanted_columns
from krill.corpus.streams import input_errors, open_raw

if TYPE_CHECKING:
    import pyarrow.parquet as pq
    from numpy.typing import NDArray

_BUFFER_BYTES = 1 << 20
_FOOTERS_KEPT = 4

_MAX_STEP_ROWS = 1 << 14

# Strings with a dictionary and fewer bytes a row than this may unfold to far more than the footer says, for
# repeated ones are stored once. They are read in short steps, and kept folded if they fit a block so.
_SUSPECT_ROW_BYTES = 256
_SUSPECT_STEP_ROWS = 1 << 10

# Arrow's writer, and with it most others, looks at a page's size after so many rows only: a page of long
# documents is as large as they are, whatever its intended size, and so is the dictionary.
_ROWS_BETWEEN_LOOKS = 1 << 10


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
            self._foldable = {name for name in self._columns if _is_string(self.schema.field(name).type)}
            self.chunks, held = _chunks(opened.metadata, self._columns)
        row_means = self.chunks.bytes // np.maximum(1, np.diff(self.chunks.rows))
        held += np.where(row_means > limits.block_bytes, 2 * row_means, 0)  # as decoded, and in its block
        large = held[self.chunks.bytes > limits.block_bytes]
        self.whole_bytes = int(large.max(initial=0))
        """The most that is held of a row group too large for a block: pages, dictionaries, a long row."""

    def read(self, first: int, stop: int) -> pa.RecordBatch:
        with self._footers.open(self._file) as opened, input_errors(self._file):
            table = opened.read_row_groups(range(first, stop), columns=self._columns, use_threads=False)
        return table.combine_chunks().to_batches()[0]

    def steps(self, chunk: int) -> Iterator[pa.RecordBatch]:
        folded = self._folded(chunk) if self.chunks.stepwise[chunk] else None
        with self._footers.open(self._file, read_dictionary=folded) as opened:
            batches = opened.iter_batches(
                self._step_rows(chunk), row_groups=[chunk], columns=self._columns, use_threads=False
            )
            while True:
                with input_errors(self._file):
                    batch = next(batches, None)
                if batch is None:
                    return
                yield from unfolded(self._file, batch, self.schema, self._limits.block_bytes)

    def _step_rows(self, chunk: int) -> int:
        """A quarter of a block, by the rows' mean size: so rows four times the mean still fit one."""
        rows = int(self.chunks.rows[chunk + 1] - self.chunks.rows[chunk])
        mean = max(1, int(self.chunks.bytes[chunk]) // max(1, rows))
        most = _SUSPECT_STEP_ROWS if self.chunks.stepwise[chunk] else _MAX_STEP_ROWS
        return max(1, min(self._limits.block_bytes // 4 // mean, most, self._limits.batch_rows or most))

    def _folded(self, chunk: int) -> list[str]:
        """The columns that are better unfolded here, slice by slice, than by Arrow in a step as a whole."""
        with self._footers.open(self._file) as opened:
            group = opened.metadata.row_group(chunk)
            return [
                name
                for name, leaf in _leaves(group, self._columns)
                if name in self._foldable
                and _is_suspect(leaf, group.num_rows)
                and leaf.total_uncompressed_size <= self._limits.block_bytes
            ]


def _chunks(footer: pq.FileMetaData, columns: list[str]) -> tuple[Chunks, NDArray[np.int64]]:
    """The row groups, and what Arrow holds of each while it is read."""
    rows, sizes, stepwise, held = [], [], [], []
    for index in range(footer.num_row_groups):
        group = footer.row_group(index)
        leaves = [leaf for _, leaf in _leaves(group, columns)]
        rows.append(group.num_rows)
        sizes.append(sum(leaf.total_uncompressed_size for leaf in leaves))
        stepwise.append(any(_is_suspect(leaf, group.num_rows) for leaf in leaves))
        held.append(sum(_held_bytes(leaf, group.num_rows) for leaf in leaves))
    return Chunks.of(rows, sizes, stepwise), np.array(held, np.int64)


def _leaves(group: pq.RowGroupMetaData, columns: list[str]) -> Iterator[tuple[str, pq.ColumnChunkMetaData]]:
    """The stored columns that make up the wanted ones, with the name of that."""
    for index in range(group.num_columns):
        leaf = group.column(index)
        path = leaf.path_in_schema
        name = next((name for name in columns if path == name or path.startswith(name + ".")), None)
        if name is not None:
            yield name, leaf


def _is_suspect(leaf: pq.ColumnChunkMetaData, rows: int) -> bool:
    few_bytes = leaf.total_uncompressed_size < _SUSPECT_ROW_BYTES * rows
    return bool(leaf.physical_type == "BYTE_ARRAY" and leaf.has_dictionary_page and few_bytes)


def _held_bytes(leaf: pq.ColumnChunkMetaData, rows: int) -> int:
    """A page as it is stored and decompressed; and as much again for the values of a dictionary."""
    share = min(1.0, _ROWS_BETWEEN_LOOKS / max(1, rows))
    copies = 2 if leaf.has_dictionary_page else 1
    return int(share * (leaf.total_compressed_size + copies * leaf.total_uncompressed_size))


def _is_string(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(kind) for test in tests)
