"""Rows of Parquet files.

In: Parquet files with a list column of ids. Out: a `RowSource`. Parquet can't give one row without decoding
those around it, so each row group is decoded when first needed into a file of the cache on disk, from which
rows are read one by one, in any order; shuffling decodes each row group once as long as the cache holds a
window of them. Opening reads the footers; where they don't show that all rows are equally long, it decodes
every row group once to find the longest row. Held in memory: 32 bytes for each row group, what
`chunked_rows.py` says, and what decoding holds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from krill.corpus.arrays import as_numpy
from krill.corpus.buffers import offsets_of
from krill.corpus.checks import check_batch
from krill.corpus.parquet_metadata import Footer, read_footer
from krill.errors import InputError
from krill.loading.foreign.chunked_rows import ChunkedRows, ChunkIndex, ChunkStore, Counts
from krill.loading.foreign.row_files import (
    IDS,
    SEQ_LENGTHS,
    IdColumns,
    NumbersFile,
    RowFiles,
    read_exactly,
    reading,
)
from krill.loading.foreign.shard_cache import ShardCache
from krill.storage.atomic import AtomicFile

if TYPE_CHECKING:
    import pyarrow.parquet as pq


_TRAILER_BYTES = 24


def write_group(
    name: str, columns: IdColumns, rows: int, batches: Iterable[pa.RecordBatch], file: AtomicFile
) -> None:
    """Write the rows of `batches`, which are one group of the file `name` and must be `rows`."""
    lengths: list[Counts] = []
    seq_counts: list[Counts] = []
    seq_lengths: list[npt.NDArray[Any]] = []
    for batch in batches:
        check_batch(batch)
        ids = batch.column(IDS)
        if ids.null_count or ids.values.null_count:
            raise InputError(f"`{IDS}` in `{name}` has nulls", hint="remove the rows that have none")
        counts, tokens = _lists(ids, columns.dtype)
        lengths.append(counts)
        file.write(np.ascontiguousarray(tokens))
        if columns.seq_dtype is not None:
            pieces = batch.column(SEQ_LENGTHS)
            if pieces.values.null_count:
                raise InputError(
                    f"`{SEQ_LENGTHS}` in `{name}` has nulls inside its lists",
                    hint="write the dataset without them",
                )
            counts, values = _lists(pieces, columns.seq_dtype)
            seq_counts.append(counts)
            seq_lengths.append(values.astype(np.int32))
    found = sum(map(len, lengths))
    if found != rows:
        raise InputError(
            f"`{name}` is damaged: a row group has {found} rows, and the footer says {rows}",
            hint="copy the file again",
        )
    offsets = offsets_of(np.concatenate(lengths) if lengths else np.zeros(0, np.int64))
    file.write(bytes(-file.tell() % 8))
    file.write(offsets)
    pieces_count = -1
    if columns.seq_dtype is not None:
        all_pieces = np.concatenate(seq_lengths)
        file.write(offsets_of(np.concatenate(seq_counts)))
        file.write(all_pieces)
        pieces_count = len(all_pieces)
    file.write(np.array([len(offsets) - 1, offsets[-1], pieces_count], np.int64))


def read_group_index(file: NumbersFile, dtype: np.dtype[Any]) -> ChunkIndex:
    size = file.size
    if size < _TRAILER_BYTES:
        raise _damaged(file)
    rows, tokens, pieces = (int(each) for each in file.read(np.int64, size - _TRAILER_BYTES, 3))
    offsets_at = -(-tokens * dtype.itemsize // 8) * 8
    seq_at = offsets_at + 8 * (rows + 1)
    expected = seq_at if pieces < 0 else seq_at + 8 * (rows + 1) + 4 * pieces
    if min(rows, tokens) < 0 or size != expected + _TRAILER_BYTES:
        raise _damaged(file)
    offsets = file.read(np.int64, offsets_at, rows + 1)
    _check_ascending(file, offsets, tokens)
    if pieces < 0:
        return ChunkIndex(0, offsets)
    seq_offsets = file.read(np.int64, seq_at, rows + 1)
    _check_ascending(file, seq_offsets, pieces)
    return ChunkIndex(0, offsets, seq_offsets, file.read(np.int32, seq_at + 8 * (rows + 1), pieces))


def _lists(column: pa.Array, dtype: np.dtype[Any]) -> tuple[Counts, npt.NDArray[Any]]:
    """How long each list is, and all their values; a null list is an empty one."""
    values = as_numpy(column.values, dtype)
    if pa.types.is_fixed_size_list(column.type):
        width = column.type.list_size
        values = values[column.offset * width : (column.offset + len(column)) * width]
        return np.full(len(column), width, np.int64), values
    large = pa.types.is_large_list(column.type)
    offsets = as_numpy(column.offsets, np.dtype(np.int64 if large else np.int32)).astype(np.int64)
    return np.diff(offsets), values[int(offsets[0]) : int(offsets[-1])]


def _check_ascending(file: NumbersFile, offsets: npt.NDArray[np.int64], most: int) -> None:
    if offsets[0] < 0 or (offsets[1:] < offsets[:-1]).any() or offsets[-1] > most:
        raise _damaged(file)


def _damaged(file: NumbersFile) -> InputError:
    return InputError(f"a decoded row group of `{file.shown}` is damaged", hint="remove the cache's folder")


_GROUP = np.dtype([("file", "i8"), ("group", "i8"), ("rows", "i8"), ("tokens", "i8"), ("stored", "i8")])
_BUFFER_BYTES = 1 << 20
_STEP_BYTES = 1 << 20

# What Arrow holds while it decodes in such steps, pages and buffers included: 22 to 28 MB were measured above
# a process that had imported it, for rows of 2,048 and of up to 399 tokens, in row groups of 8 to 160 MB. The
# cache's lock lets one thread decode at a time.
_DECODING_BYTES = 32_000_000
# The indexes of a window of 65,536 rows take 8 bytes a row, and 12 more where rows state their documents.
_LEAST_INDEX_BYTES = 2_000_000


def open_parquet_rows(name: str, files: RowFiles, *, cache: ShardCache, reading_bytes: int) -> ChunkedRows:
    """The rows of Parquet files. Row groups may have any number of rows. Of `reading_bytes`, what decoding
    doesn't need is for remembering indexes."""
    store = _RowGroups(name, files, cache)
    rows = ChunkedRows(
        name,
        store,
        tokens=int(store.groups["tokens"].sum()),
        cache_bytes=max(_LEAST_INDEX_BYTES, reading_bytes - _DECODING_BYTES),
        decoding_bytes=_DECODING_BYTES,
    )
    return rows.set_lengths(*_lengths(rows, store))


def _lengths(rows: ChunkedRows, store: _RowGroups) -> tuple[int, int]:
    if store.columns.width is not None:
        return store.columns.width, store.columns.width
    every = range(len(store.groups))
    guess = store.guessed_width()
    if guess is not None and all(_lengths_in(rows, each) == (guess, guess) for each in {0, every[-1]}):
        store.even_width = guess
        return guess, guess
    found = [_lengths_in(rows, each) for each in every]
    return min(low for low, _ in found), max(high for _, high in found)


def _lengths_in(rows: ChunkedRows, group: int) -> tuple[int, int]:
    lengths = np.diff(rows.index(group).token_offsets)
    return int(lengths.min()), int(lengths.max())


class _RowGroups(ChunkStore):
    """Row groups, each in a file of its own once it is decoded.

    `even_width` is what all rows must be long, if the footers agree on it.
    """

    def __init__(self, name: str, files: RowFiles, cache: ShardCache) -> None:
        columns: IdColumns | None = None
        found: list[tuple[int, ...]] = []
        for number, file in enumerate(files.names):
            with _opened(files, number) as (opened, footer):
                these = IdColumns.of(opened.schema_arrow, file)
                if columns is not None and these != columns:
                    raise InputError(
                        f"`{file}` has columns of other types than `{files.names[0]}`", hint="load them apart"
                    )
                columns = these
                found += _groups(footer, number, file)
        if columns is None or not found:
            raise InputError(f"`{name}` has no rows", hint="give a dataset that has some")
        self.columns = columns
        self.groups = np.array(found, _GROUP)
        super().__init__(files, columns.dtype, np.arange(len(found)), self.groups["rows"], self.groups.nbytes)
        self._cache = cache
        self.even_width: int | None = None
        self._folders = [_cache_folder(files.mark(number)) for number in range(len(files.names))]

    def digest(self) -> hashlib.blake2b:
        """Of the footers: how many bytes each row group takes, compressed."""
        digest = hashlib.blake2b(str(self.dtype).encode(), digest_size=16)
        digest.update(self.groups.tobytes())
        return digest

    def path(self, file: int) -> Path:
        """The decoded row group number `file`."""
        group = self.groups[file]
        return self._cache.path(
            f"{self._folders[int(group['file'])]}/rows-{int(group['group']):05d}",
            lambda target: self._decode(group, target),
            size=int(group["tokens"]) * self.columns.dtype.itemsize,
        )

    def shown(self, file: int) -> str:
        return self.files.names[int(self.groups["file"][file])]

    def index(self, chunk: int, file: NumbersFile) -> ChunkIndex:
        index = read_group_index(file, self.columns.dtype)
        lengths = np.diff(index.token_offsets)
        if self.even_width is not None and (lengths != self.even_width).any():
            raise InputError(
                f"rows of `{file.shown}` vary in length, and its row groups all have {self.even_width} a row",
                hint="write the file again with row groups of another size",
            )
        return index

    def guessed_width(self) -> int | None:
        """The length of a row, if every group has so many tokens for each of its rows."""
        tokens, rows = self.groups["tokens"], self.groups["rows"]
        width = int(tokens[0] // rows[0])
        return width if width > 0 and (tokens == width * rows).all() else None

    def _decode(self, group: Any, target: AtomicFile) -> None:
        number, columns = int(group["file"]), self.columns
        row_bytes = max(1, int(group["tokens"]) * columns.dtype.itemsize // int(group["rows"]))
        wanted = [IDS] if columns.seq_dtype is None else [IDS, SEQ_LENGTHS]
        with _opened(self.files, number) as (opened, _):
            batches = opened.iter_batches(
                max(1, _STEP_BYTES // row_bytes),
                row_groups=[int(group["group"])],
                columns=wanted,
                use_threads=False,
            )
            write_group(self.files.names[number], columns, int(group["rows"]), batches, target)


def _cache_folder(mark: str) -> str:
    return hashlib.blake2b(mark.encode(), digest_size=8).hexdigest()


@contextmanager
def _opened(files: RowFiles, number: int) -> Iterator[tuple[pq.ParquetFile, Footer]]:
    """A file; what is wrong with it, or with reading it, is an InputError that names it."""
    import pyarrow.parquet as pq  # several megabytes, for those who read Parquet

    name = files.names[number]
    with files.open_ranges(number) as source, reading(name):
        size = files.size(number)
        footer = read_footer(lambda start, end: read_exactly(source, name, start, end), size)
        # As a Python file, which Arrow reads in pieces instead of whole column chunks.
        inside = pa.PythonFile(_WithinFile(source, size), "r")
        opened = pq.ParquetFile(inside, metadata=footer.arrow, pre_buffer=False, buffer_size=_BUFFER_BYTES)
        yield opened, footer


class _WithinFile:
    """A file that is asked for no more than it has: for a damaged page Arrow asks for gigabytes, and room for
    them would be made before it is known that there are none."""

    def __init__(self, source: BinaryIO, size: int) -> None:
        self._source = source
        self._size = size

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._size - self._source.tell())
        return self._source.read(left if size < 0 else min(size, left))

    def seek(self, position: int, whence: int = 0) -> int:
        return self._source.seek(position, whence)

    def tell(self) -> int:
        return self._source.tell()

    @property
    def closed(self) -> bool:
        return self._source.closed

    def close(self) -> None:
        self._source.close()


def _groups(footer: Footer, number: int, name: str) -> Iterator[tuple[int, ...]]:
    """The row groups that have rows, as `_GROUP` has them."""
    leaves = footer.leaves([IDS])
    if len(leaves) == 0:
        raise InputError(f"`{name}` is damaged: its row groups have no `{IDS}`", hint="copy the file again")
    for index in np.flatnonzero(footer.rows).tolist():
        ids = index, leaves[0]
        yield number, index, int(footer.rows[index]), int(footer.values[ids]), int(footer.compressed[ids])
