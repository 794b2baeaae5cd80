"""NumPy arrays as Arrow arrays and back, sharing memory.

Comes in: flat numbers without nulls. Goes out: the same memory under the other name. Held in memory: nothing.

`pa.array(ndarray)` and `Array.to_numpy()` would do, but both import pandas where it is installed: 45 MB that
no budget has planned.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


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
