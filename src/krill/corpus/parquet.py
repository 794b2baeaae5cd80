"""Parquet: row groups, read without mapping and without reading ahead; only the wanted columns.

Held in memory: the footers of the few files last used, what `columnar` says, and of each column that is
read its page and its dictionary, which Arrow decodes whole: `whole_bytes` tells how much that will be, by the
headers of the pages, and the decoded size of a long row.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from krill.corpus.arrays import PLAIN_STRINGS, row_bytes
from krill.corpus.checks import as_carried, carried_schema, check_batch, check_table
from krill.corpus.columnar import Chunks
from krill.corpus.formats import CorpusFile
from krill.corpus.parquet_metadata import BYTE_ARRAY, Footer, PageWalk, check_pages, read_footer
from krill.corpus.readers import Limits
from krill.corpus.rows import decode_dictionaries, wanted_columns
from krill.corpus.streams import input_errors, open_raw, read_in_order

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_BUFFER_BYTES = 1 << 20
_FOOTERS_KEPT = 4

_MAX_STEP_ROWS = 1 << 14

# Strings with a dictionary and fewer bytes a row than this may decode to far more than the footer says, for
# repeated ones are stored once. They are read in short steps, and kept encoded if they fit a block so.
_SUSPECT_ROW_BYTES = 256
_SUSPECT_STEP_ROWS = 1 << 10

# Of each column that stays encoded: Arrow's table of its dictionary, and its part of the batches on their
# way; of few, it is not worth counting. Measured with 500 and 1,000 columns of 1,000 different strings.
_ENCODED_COLUMN_BYTES = 100_000
_FEW_ENCODED = 100

# A row of decoded strings as Arrow decodes it, in its block, and as it is written: measured with 100 MB.
_DECODED_COPIES = 3
# Values of nested columns that are looked at for the longest row; of more, all are taken to be in one.
_MOST_MEASURED = 1 << 22


class Footers:
    """The parsed footers of the files last used, shared by all threads: large files have large ones."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Footer] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, file: CorpusFile) -> Footer:
        """The file's footer, read at most once while it is in use."""
        with self._lock:
            footer = self._kept.get(file.location)
        if footer is None:
            with input_errors(file), open_raw(file) as source:
                footer = read_footer(lambda start, end: source.read_at(end - start, start), source.size())
        with self._lock:
            self._kept[file.location] = footer
            self._kept.move_to_end(file.location)
            if len(self._kept) > _FOOTERS_KEPT:
                self._kept.popitem(last=False)
        return footer

    def open(self, file: CorpusFile, **options: object) -> pq.ParquetFile:
        import pyarrow.parquet as pq  # several megabytes, for those who read Parquet

        footer = self.read(file).arrow
        with input_errors(file):
            source = open_raw(file) if file.remote else file.location  # which it will close itself
            return pq.ParquetFile(
                source, metadata=footer, pre_buffer=False, buffer_size=_BUFFER_BYTES, **options
            )


class ParquetReader:
    """A `ChunkReader` of row groups."""

    each_batch_bytes = 0

    def __init__(self, file: CorpusFile, limits: Limits, footers: Footers) -> None:
        self._file = file
        self._limits = limits
        self._footers = footers
        with footers.open(file) as opened, input_errors(file):
            stored = opened.schema_arrow
            self._columns = wanted_columns(file, stored)
            self.schema = carried_schema(file, stored)
            self._strings = {name for name in self._columns if self.schema.field(name).type in PLAIN_STRINGS}
        footer = footers.read(file)
        leaves = footer.leaves(self._columns)
        sizes = footer.uncompressed[:, leaves].sum(axis=1)
        self.chunks = Chunks.of(footer.rows, sizes, _suspect(footer, leaves).any(axis=1))
        self.whole_bytes = int(self._held(footer).max(initial=0))
        """The most that is held of a row group besides a block: pages, dictionaries, a long row."""

    def _held(self, footer: Footer) -> NDArray[np.int64]:
        """What Arrow holds of each row group while it is read."""
        walk = PageWalk(self._file, footer)
        leaves = footer.leaves(self._columns)
        held = np.zeros(len(footer.rows), np.int64)
        for group in range(len(footer.rows)):
            if self.chunks.bytes[group] > self._limits.block_bytes:
                mean = int(self.chunks.bytes[group]) // max(1, int(footer.rows[group]))
                held[group] = sum(walk.held_bytes(group, leaf) for leaf in leaves.tolist())
                if mean > self._limits.block_bytes:
                    held[group] += 2 * mean  # as decoded, and in its block
            held[group] += _DECODED_COPIES * self._longest_decoded(footer, group, walk)
            if self.chunks.stepwise[group]:
                encoded = len(self._dictionary_columns(group))
                held[group] += _ENCODED_COLUMN_BYTES * max(0, encoded - _FEW_ENCODED)
        return held

    def _longest_decoded(self, footer: Footer, group: int, walk: PageWalk) -> int:
        """What the longest row of lists and the like takes, where a dictionary may decode to far more than is
        stored: the rows are measured with their strings as dictionary codes."""
        nested = {
            leaf: size
            for leaf in footer.leaves(self._columns).tolist()
            if footer.columns[leaf] not in self._strings
            and (size := walk.decoded_bytes(group, leaf)) > self._limits.block_bytes
        }
        if not nested:
            return 0
        if footer.values[group, list(nested)].sum() > _MOST_MEASURED:
            return sum(nested.values())
        names = list({footer.columns[leaf] for leaf in nested})
        paths = [footer.arrow.schema.column(leaf).path for leaf in nested]
        batches = self._batches(group, _SUSPECT_STEP_ROWS, names, paths)
        longest = max((int(row_bytes(batch).max(initial=0)) for batch in batches), default=0)
        return longest if longest > self._limits.block_bytes else 0

    def long_rows(self, step: int) -> Iterator[tuple[int, int]]:
        """None are known besides those that `whole_bytes` counts."""
        return iter(())

    def read(self, first: int, stop: int) -> pa.RecordBatch:
        with self._footers.open(self._file) as opened, input_errors(self._file):
            self._check_pages(first, stop)
            table = opened.read_row_groups(range(first, stop), columns=self._columns, use_threads=False)
            check_table(table)
            self._check_rows(first, stop, table.num_rows)
            return as_carried(table.combine_chunks().to_batches()[0], self.schema)

    def steps(self, chunk: int) -> Iterator[pa.RecordBatch]:
        encoded = self._dictionary_columns(chunk) if self.chunks.stepwise[chunk] else None
        rows = 0
        for batch in self._batches(chunk, self._step_rows(chunk), self._columns, encoded):
            with input_errors(self._file):
                batch = as_carried(batch, self.schema)
            rows += batch.num_rows
            yield from decode_dictionaries(self._file, batch, self.schema, self._limits.block_bytes)
        with input_errors(self._file):
            self._check_rows(chunk, chunk + 1, rows)

    def _batches(
        self, group: int, rows: int, columns: list[str], encoded: list[str] | None
    ) -> Iterator[pa.RecordBatch]:
        """A row group in checked batches of up to `rows` rows; columns of `encoded` stay as dictionaries."""
        self._check_pages(group, group + 1)
        with self._footers.open(self._file, read_dictionary=encoded) as opened:
            batches = opened.iter_batches(rows, row_groups=[group], columns=columns, use_threads=False)
            for batch in read_in_order(self._file, batches):
                with input_errors(self._file):
                    check_batch(batch)
                yield batch

    def _check_pages(self, first: int, stop: int) -> None:
        footer = self._footers.read(self._file)
        with input_errors(self._file):
            check_pages(self._file, footer, range(first, stop), footer.leaves(self._columns))

    def _check_rows(self, first: int, stop: int, found: int) -> None:
        """Check that the row groups have as many rows as the footer says."""
        expected = int(self.chunks.rows[stop] - self.chunks.rows[first])
        if found != expected:
            raise EOFError(f"row groups {first} to {stop - 1} have {found:,} rows, not {expected:,}")

    def _step_rows(self, chunk: int) -> int:
        """A quarter of a block, by the rows' mean size: so rows four times the mean still fit one."""
        rows = int(self.chunks.rows[chunk + 1] - self.chunks.rows[chunk])
        mean = max(1, int(self.chunks.bytes[chunk]) // max(1, rows))
        most = _SUSPECT_STEP_ROWS if self.chunks.stepwise[chunk] else _MAX_STEP_ROWS
        return max(1, min(self._limits.block_bytes // 4 // mean, most, self._limits.batch_rows or most))

    def _dictionary_columns(self, chunk: int) -> list[str]:
        """The columns that are better decoded here, slice by slice, than by Arrow in a step as a whole."""
        footer = self._footers.read(self._file)
        leaves = footer.leaves(self._columns)
        suspect = _suspect(footer, leaves)[chunk]
        fits = footer.uncompressed[chunk, leaves] <= self._limits.block_bytes
        names = [footer.columns[leaf] for leaf in leaves[suspect & fits]]
        return [name for name in names if name in self._strings]


def _suspect(footer: Footer, leaves: NDArray[np.int64]) -> NDArray[np.bool_]:
    """For each row group, which of the leaves may decode to far more than it is stored in."""
    few_bytes = footer.uncompressed[:, leaves] < _SUSPECT_ROW_BYTES * footer.rows[:, None]
    encoded = footer.dictionary_page_offsets[:, leaves] > 0
    suspect: NDArray[np.bool_] = (footer.types[:, leaves] == BYTE_ARRAY) & encoded & few_bytes
    return suspect
