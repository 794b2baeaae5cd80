"""NumPy's `.npz` read from a stream that only goes forward, a stretch of rows at a time.

Comes in: an uncompressed zip of `.npy` files, as `numpy.savez` writes it, perhaps just being decompressed.
Goes out: its arrays in the order in which they are stored; each must be read to its end before the next.
Held in memory: the rows asked for. Objects are never unpickled: an array of them is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

_LOCAL_HEADER: Final = struct.Struct("<4s5H3I2H")
_MEMBER: Final = b"PK\x03\x04"
_STORED: Final = 0
_SIZES_FOLLOW: Final = 8  # the flag of a member whose size stands behind it


@dataclass(frozen=True, slots=True)
class ArrayStream:
    """One array whose values are still to be read."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    stream: BinaryIO

    def stretches(self, rows: int) -> Iterator[NDArray[Any]]:
        """All of it, up to `rows` of the first dimension at a time."""
        width = int(np.prod(self.shape[1:]))
        for begin in range(0, self.shape[0], rows):
            count = min(rows, self.shape[0] - begin)
            data = _exactly(self.stream, count * width * self.dtype.itemsize)
            yield np.frombuffer(data, self.dtype).reshape(count, *self.shape[1:])

    def whole(self) -> NDArray[Any]:
        """All of it at once."""
        return next(self.stretches(max(1, self.shape[0])), np.empty(self.shape, self.dtype))


def arrays(stream: BinaryIO) -> Iterator[ArrayStream]:
    """The arrays of a `.npz`; `ValueError` where it is none."""
    while True:
        header = _exactly(stream, _LOCAL_HEADER.size)
        mark, _, flags, method, *_, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(header)
        if mark != _MEMBER:
            return  # the zip's directory: nothing after it is needed
        if method != _STORED or flags & _SIZES_FOLLOW:
            raise ValueError("a member of the .npz is compressed or of unknown size")
        name = _exactly(stream, name_bytes).decode()
        _exactly(stream, extra_bytes)
        yield _array(name.removesuffix(".npy"), stream)


def _array(name: str, stream: BinaryIO) -> ArrayStream:
    version = npy.read_magic(stream)
    if version == (1, 0):
        shape, columns_first, dtype = npy.read_array_header_1_0(stream)
    else:
        shape, columns_first, dtype = npy.read_array_header_2_0(stream)
    if dtype.hasobject or columns_first or not shape:
        raise ValueError(f"the array {name} is not made of plain rows")
    return ArrayStream(name, dtype, shape, stream)


def _exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise ValueError("the .npz ends too early")
    return data
