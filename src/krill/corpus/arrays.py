"""NumPy arrays as Arrow arrays and back, and rows picked out of columns, without Arrow's heavier helpers.

Comes in: columns and masks. Goes out: columns that share memory where they can. Held in memory: what was
picked.

`pa.array(ndarray)` and `Array.to_numpy()` import pandas where it is installed, 45 MB that no budget has
planned; `take` and `filter` import Arrow's compute functions, another 9 MB.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from krill import _native
from krill.corpus.buffers import text_buffers, text_column


def as_arrow(values: npt.NDArray[Any]) -> pa.Array:
    """All values, flattened."""
    flat = np.ascontiguousarray(values).reshape(-1)
    return pa.Array.from_buffers(pa.from_numpy_dtype(flat.dtype), len(flat), [None, pa.py_buffer(flat)])


def as_numpy(array: pa.Array, dtype: np.dtype[Any] | str) -> npt.NDArray[Any]:
    """The values of a primitive array whose type is `dtype`."""
    if len(array) == 0:
        return np.empty(0, dtype=dtype)
    start = array.offset * np.dtype(dtype).itemsize
    return np.frombuffer(array.buffers()[1], dtype=dtype, count=len(array), offset=start)


def as_mask(keep: npt.NDArray[np.bool_]) -> pa.Array:
    """Flags as Arrow's bits."""
    bits = np.packbits(keep, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(keep), [None, pa.py_buffer(bits)])


def pick(column: pa.Array, keep: npt.NDArray[np.bool_]) -> pa.Array:
    """The values that `keep` marks: the columns of every document fast, those carried along by Arrow."""
    if column.null_count == 0 and column.type == pa.large_string():
        offsets, data = text_buffers(column)
        lengths = np.diff(offsets)
        if len(lengths) == 0 or lengths.max() < 2**32:
            text = data[int(offsets[0]) : int(offsets[-1])]
            picked, picked_lengths = _native.select_runs(text, lengths.astype(np.uint32), keep.view(np.uint8))
            ends = np.zeros(len(picked_lengths) + 1, np.int64)
            np.cumsum(picked_lengths, out=ends[1:])
            return text_column(ends, picked)
    if column.null_count == 0 and column.type == pa.uint64():
        return as_arrow(as_numpy(column, "uint64")[keep])
    return column.filter(as_mask(keep))


def pick_rows(batch: pa.RecordBatch, keep: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    """The rows that `keep` marks."""
    return pa.RecordBatch.from_arrays([pick(column, keep) for column in batch.columns], schema=batch.schema)
