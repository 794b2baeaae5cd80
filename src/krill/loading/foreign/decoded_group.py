"""A row group of Parquet as a file whose rows can be read one by one.

Comes in: Arrow batches of one row group. Goes out: a file with the tokens of all rows, where each row begins,
and the lengths of its pieces; and from such a file, its `ChunkIndex`. Held in memory: one of the
batches, and 16 bytes for each row of the group.

The file has the tokens, zeros up to a multiple of 8 bytes, the rows' offsets (int64, one more than rows),
and, if pieces are stated, their offsets (likewise) and lengths (int32); at its end rows, tokens and pieces
(int64 each), pieces being -1 where none are stated.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from krill.corpus.arrays import as_numpy
from krill.corpus.checks import check_batch
from krill.errors import InputError
from krill.loading.foreign.chunked_rows import ChunkIndex
from krill.loading.foreign.id_columns import IDS, SEQ_LENGTHS, IdColumns
from krill.loading.foreign.ragged import Counts, ends_of
from krill.loading.foreign.row_files import NumbersFile
from krill.storage.atomic import AtomicFile

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
    offsets = ends_of(np.concatenate(lengths) if lengths else np.zeros(0, np.int64))
    file.write(bytes(-file.tell() % 8))
    file.write(offsets)
    pieces_count = -1
    if columns.seq_dtype is not None:
        all_pieces = np.concatenate(seq_lengths)
        file.write(ends_of(np.concatenate(seq_counts)))
        file.write(all_pieces)
        pieces_count = len(all_pieces)
    file.write(np.array([len(offsets) - 1, offsets[-1], pieces_count], np.int64))


def read_group_index(file: NumbersFile, dtype: np.dtype[Any]) -> ChunkIndex:
    """The index of a file that `write_group` wrote."""
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
