"""A safetensors file, a tensor at a time: written from an iterator, read by name.

In: names and arrays; or a file of anybody's. Out: the file (a length of 8 bytes, a header in JSON, the
numbers one after the other), whole or absent; or a mapping that reads a tensor when it is asked for. Held in
memory: one tensor. Lengths and offsets in a header are checked before they are used.

Not the `safetensors` package: it maps the file, and mapped pages count. Reading 400 MB a tensor at a time
peaked at 428 MB with it and at 42 MB here, and its writer takes all tensors at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any, Final

import ml_dtypes
import numpy as np
import orjson
from numpy.typing import NDArray

from krill.errors import InputError
from krill.storage.atomic import atomic_writer, undo_on_error
from krill.storage.input_file import ClosedOnExit, open_regular

Array = NDArray[Any]

_TYPES: Final[dict[str, np.dtype[Any]]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
}
# As the format's own library has it: no honest header is larger.
_MOST_HEADER: Final = 100_000_000
_ALIGNMENT: Final = 8
_MOST_DIMENSIONS: Final = 32  # older versions of NumPy have no more
_MOST_NUMBERS: Final = 2**59


def write_tensors(
    path: Path, shapes: Mapping[str, tuple[int, ...]], tensors: Iterable[tuple[str, Array]]
) -> None:
    """Write float32 `tensors`, which come in the order of `shapes`, under their names."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}  # without it transformers refuses the file
    end = 0
    for name, shape in shapes.items():
        begin, end = end, end + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [begin, end]}
    encoded = orjson.dumps(header)
    encoded += b" " * (-len(encoded) % _ALIGNMENT)
    with atomic_writer(path) as file:
        file.write(len(encoded).to_bytes(8, "little"))
        file.write(encoded)
        for (name, shape), (given, array) in zip(shapes.items(), tensors, strict=True):
            if (name, shape) != (given, array.shape):
                raise ValueError(f"expected {name} of {shape}, got {given} of {array.shape}")
            file.write(np.ascontiguousarray(array, "<f4").reshape(-1).view(np.uint8))


class TensorFile(ClosedOnExit, Mapping[str, Array]):
    """The tensors of a file by name, each read when it is asked for; in a `with`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        hint = "give a folder with a model.safetensors"
        try:
            self._file = BufferedReader(open_regular(path))
        except OSError as error:
            raise InputError(f"can't read `{path}`: {error.strerror}", hint=hint) from error
        with undo_on_error(self._file.close):
            self._begin, self._entries = self._read_header()

    def close(self) -> None:
        self._file.close()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __getitem__(self, name: str) -> Array:
        dtype, shape, begin = self._entries[name]
        array = np.empty(shape, dtype)
        self._file.seek(self._begin + begin)
        if self._file.readinto(array.reshape(-1).view(np.uint8).data) != array.nbytes:
            raise self._damaged(f"it ends inside `{name}`")
        return array

    def _read_header(self) -> tuple[int, dict[str, tuple[np.dtype[Any], tuple[int, ...], int]]]:
        size = self._path.stat().st_size
        length = int.from_bytes(self._file.read(8), "little")
        if size < 8 or length > min(size - 8, _MOST_HEADER):
            raise self._damaged(f"its header would have {length:,} bytes, the file has {size:,}")
        try:
            header = orjson.loads(self._file.read(length))
            header.pop("__metadata__", None)
            entries = {name: self._entry(name, entry, size - 8 - length) for name, entry in header.items()}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise self._damaged("its header is not as the format says") from error
        self._refuse_gaps(entries, size - 8 - length)
        return 8 + length, entries

    def _refuse_gaps(
        self, entries: Mapping[str, tuple[np.dtype[Any], tuple[int, ...], int]], room: int
    ) -> None:
        """Every byte is of one tensor, as the format demands: else a small file could describe a large model,
        or hide data."""
        sizes = (
            (begin, dtype.itemsize * math.prod(shape), name)
            for name, (dtype, shape, begin) in entries.items()
        )
        last = 0
        for begin, size, name in sorted(sizes):
            if begin < last:
                raise self._damaged(f"`{name}` overlaps another tensor")
            if begin > last:
                raise self._damaged(f"{begin - last:,} bytes before `{name}` are of no tensor")
            last = begin + size
        if last < room:
            raise self._damaged(f"{room - last:,} bytes at its end are of no tensor")

    def _entry(
        self, name: str, entry: Mapping[str, Any], room: int
    ) -> tuple[np.dtype[Any], tuple[int, ...], int]:
        if entry["dtype"] not in _TYPES:
            raise InputError(
                f"`{name}` in `{self._path}` is stored as `{entry['dtype']}`",
                hint=f"give weights in one of {', '.join(_TYPES)}",
            )
        dtype, shape = _TYPES[entry["dtype"]], tuple(entry["shape"])
        begin, end = entry["data_offsets"]
        if any(type(number) is not int or number < 0 for number in (*shape, begin, end)):
            raise self._damaged(f"`{name}` has an impossible size")
        # NumPy counts what an array could hold by its dimensions alone, also of one that holds nothing.
        if len(shape) > _MOST_DIMENSIONS or math.prod(filter(None, shape)) > _MOST_NUMBERS:
            raise self._damaged(f"`{name}` has an impossible size")
        if end - begin != dtype.itemsize * math.prod(shape) or end > room:
            raise self._damaged(f"`{name}` does not lie inside the file")
        return dtype, shape, begin

    def _damaged(self, fault: str) -> InputError:
        return InputError(
            f"`{self._path}` is damaged: {fault}", hint="write it again, or restore it from a copy"
        )
