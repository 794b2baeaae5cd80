"""A text column as the plain buffers that native kernels take, and back, without copying."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def text_buffers(text: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Offsets (one more than rows) and bytes of a `large_string` column, slices included."""
    _, offsets, data = text.buffers()
    if len(text) == 0 or offsets is None:
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    starts = np.frombuffer(offsets, np.int64, len(text) + 1, text.offset * 8)
    if not starts.flags.aligned:  # a file of others may put them anywhere; compiled loops count on it
        starts = starts.copy()
    return starts, np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)


def text_column(offsets: NDArray[np.int64], data: NDArray[np.uint8], valid: Any = None) -> pa.Array:
    """A `large_string` column over the given buffers."""
    return pa.LargeStringArray.from_buffers(
        len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data), valid
    )


def text_column_of(texts: Iterable[str]) -> pa.Array:
    """A `large_string` column. `pa.array` would load pandas: 45 MB that no budget has planned."""
    encoded = [text.encode() for text in texts]
    offsets = offsets_of([len(text) for text in encoded])
    return text_column(offsets, np.frombuffer(b"".join(encoded), np.uint8))


def offsets_of(lengths: Sequence[int] | NDArray[np.integer]) -> NDArray[np.int64]:
    """Where each of several lists begins when they follow each other, and where the last ends."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
