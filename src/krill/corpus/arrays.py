"""NumPy arrays as Arrow arrays and back, rows selected and measured, without Arrow's heavier helpers.

Comes in: columns and masks. Goes out: columns that share memory where they can, and the bytes of each row.
Held in memory: what was picked, or a few numbers per row.

`pa.array(ndarray)` and `Array.to_numpy()` import pandas where it is installed, 45 MB that no budget has
planned; `cast`, `take` and `filter` import Arrow's compute functions, another 9 MB.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from krill import _native
from krill.corpus.buffers import text_buffers, text_column

_NUMBERS = {
    pa.from_numpy_dtype(np.dtype(name)): name
    for name in (
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
        "float32",
        "float64",
    )
}
_PICKED = {pa.large_string(), *_NUMBERS}

PLAIN_STRINGS = frozenset({pa.string(), pa.large_string(), pa.binary(), pa.large_binary()})
"""Strings and bytes that lie in one buffer."""


def as_arrow(values: npt.NDArray[Any]) -> pa.Array:
    """All values, flattened."""
    flat = np.ascontiguousarray(values).reshape(-1)
    return pa.Array.from_buffers(pa.from_numpy_dtype(flat.dtype), len(flat), [None, pa.py_buffer(flat)])


def as_numpy(array: pa.Array, dtype: np.dtype[Any] | str) -> npt.NDArray[Any]:
    """The values of a primitive array whose type is `dtype`."""
    if len(array) == 0:
        return np.empty(0, dtype=dtype)
    start = array.offset * np.dtype(dtype).itemsize
    values = np.frombuffer(array.buffers()[1], dtype=dtype, count=len(array), offset=start)
    return values if values.flags.aligned else values.copy()


def as_mask(keep: npt.NDArray[np.bool_]) -> pa.Array:
    bits = np.packbits(keep, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(keep), [None, pa.py_buffer(bits)])


def null_flags(column: pa.Array) -> npt.NDArray[np.uint8] | None:
    """1 for each value that is missing; None = all are there."""
    valid = _valid(column, None)
    return None if valid is None else (~valid).view(np.uint8)


def pick(column: pa.Array, keep: npt.NDArray[np.bool_]) -> pa.Array:
    """The values that `keep` marks: the columns of every document fast, those carried along by Arrow."""
    return pick_rows(pa.RecordBatch.from_arrays([column], [""]), keep).column(0)


def pick_rows(batch: pa.RecordBatch, keep: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    columns = batch.columns
    # Texts and numbers of which none is missing are picked one by one, all others by Arrow in one call.
    plain = [not column.null_count and column.type in _PICKED for column in columns]
    if not all(plain):
        others = [at for at, is_plain in enumerate(plain) if not is_plain]
        filtered = batch.select(others).filter(as_mask(keep))
        for at, column in zip(others, filtered.columns, strict=True):
            columns[at] = column
    for at, is_plain in enumerate(plain):
        if is_plain:
            column, dtype = columns[at], _NUMBERS.get(columns[at].type)
            columns[at] = (
                as_arrow(as_numpy(column, dtype)[keep])
                if dtype is not None
                else text_column(*_native.pick_texts(*text_buffers(column), keep.view(np.uint8)))
            )
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def repeat_rows(batch: pa.RecordBatch, counts: npt.NDArray[np.integer]) -> pa.RecordBatch:
    """Each row as often as `counts` says."""
    rows = [row for at, count in enumerate(counts.tolist()) for row in [batch.slice(at, 1)] * count]
    return pa.concat_batches(rows) if rows else batch.slice(0, 0)


def row_bytes(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """The bytes of each row, all columns together."""
    batch.validate()  # that offsets and null flags are there, which are read natively
    total, others = _native.row_bytes(*batch.__arrow_c_array__())
    for at in others:
        total += row_sizes(batch.column(at))
    return total


def row_sizes(column: pa.Array, valid: npt.NDArray[np.bool_] | None = None) -> npt.NDArray[np.int64]:
    """The bytes that each value takes: its own, those of what it consists of, and its offset or index.

    A value has the same size in every array: nothing is counted of what may lie unused under a
    null (`valid` says which rows an enclosing struct or list leaves), and a value of a dictionary counts in
    every row that has it. Types that Parquet can't hold, unions and the like, count as nothing.
    """
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return row_sizes(column.storage, valid)
    if len(column) == 0 or pa.types.is_null(kind):
        return np.zeros(len(column), np.int64)
    valid = _valid(column, valid)
    if pa.types.is_dictionary(kind):
        return _dictionary_sizes(column, valid)
    if pa.types.is_struct(kind):
        fields = [row_sizes(column.field(index), valid) for index in range(kind.num_fields)]
        return np.sum(fields, axis=0, dtype=np.int64) if fields else np.zeros(len(column), np.int64)
    if pa.types.is_fixed_size_list(kind):
        return _fixed_size_list_sizes(column, valid)
    if any(is_kind(kind) for is_kind in _BY_OFFSETS):
        return _offset_sizes(column, valid)
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        lengths = _own_numbers(column, "int32", 4 * len(column), 4)[::4].astype(np.int64)
        return 16 + _kept(np.where(lengths > 12, lengths, 0), valid)  # short ones lie in the view itself
    if pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind):
        return np.full(len(column), -(-kind.bit_width // 8), np.int64)
    return np.zeros(len(column), np.int64)


_NARROW = (pa.types.is_string, pa.types.is_binary, pa.types.is_list, pa.types.is_map)
_WIDE = (pa.types.is_large_string, pa.types.is_large_binary, pa.types.is_large_list)
_BY_OFFSETS = (*_NARROW, *_WIDE)


def _offset_sizes(column: pa.Array, valid: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.int64]:
    """Strings, lists and maps: what lies between two offsets, and an offset."""
    width = 8 if any(is_kind(column.type) for is_kind in _WIDE) else 4
    offsets = _own_numbers(column, f"int{8 * width}", len(column) + 1)
    if pa.types.is_nested(column.type):
        first, last = int(offsets[0]), int(offsets[-1])
        ends = np.zeros(last - first + 1, np.int64)
        np.cumsum(row_sizes(column.values.slice(first, last - first)), out=ends[1:])
        offsets = ends[offsets - first]
    return width + _kept(np.diff(offsets).astype(np.int64), valid)


def _fixed_size_list_sizes(column: pa.Array, valid: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.int64]:
    width = int(column.type.list_size)
    values = column.values.slice(column.offset * width, len(column) * width)
    sizes = row_sizes(values, None if valid is None else np.repeat(valid, width))
    return np.asarray(sizes.reshape(len(column), width).sum(axis=1), np.int64)


def _dictionary_sizes(column: pa.Array, valid: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.int64]:
    indices = as_numpy(column.indices, str(column.type.index_type)).astype(np.int64)
    values = np.append(row_sizes(column.dictionary), 0)  # never without a value to point at
    indices = _kept(indices, valid)  # under a null, an index may be anything
    return int(column.type.index_type.bit_width) // 8 + _kept(values[indices], valid)


def _valid(column: pa.Array, valid: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_] | None:
    """Which values are there, by the column itself and by what encloses it; None = all."""
    bits = column.buffers()[0]
    if bits is None or column.null_count == 0:
        return valid
    first = column.offset // 8
    flags = np.frombuffer(bits, np.uint8)[first : -(-(column.offset + len(column)) // 8)]
    start = column.offset - 8 * first
    own = np.unpackbits(flags, bitorder="little")[start : start + len(column)].view(np.bool_)
    return own if valid is None else own & valid


def _own_numbers(column: pa.Array, dtype: str, count: int, each: int = 1) -> npt.NDArray[Any]:
    """Numbers of a column's second buffer, `each` to a row."""
    start = column.offset * each * np.dtype(dtype).itemsize
    return np.frombuffer(column.buffers()[1], dtype, count, start)


def _kept(numbers: npt.NDArray[np.int64], valid: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.int64]:
    return numbers if valid is None else np.where(valid, numbers, 0)
