"""Headers of safetensors files that nobody honest writes are refused before NumPy sees them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

pytest.importorskip("ml_dtypes")

from krill.errors import InputError
from krill.training.safetensors_file import TensorFile, write_tensors


def saved(folder: Path, header: Any, data: bytes = bytes(8), length: int | None = None) -> Path:
    content = header if isinstance(header, bytes) else orjson.dumps(header)
    path = folder / "model.safetensors"
    path.write_bytes((len(content) if length is None else length).to_bytes(8, "little") + content + data)
    return path


def tensor(shape: list[Any], begin: Any = 0, end: Any = 4, dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    "header",
    [
        {"w": tensor([1] * 102)},
        {"w": tensor([1] * 65)},
        {"w": tensor([0, 2**62, 2**62], 0, 0)},
        {"w": tensor([2**63], 0, 0)},
        {"w": tensor([-1])},
        {"w": tensor([-1, -1])},
        {"w": tensor([1.0])},
        {"w": tensor([True])},
        {"w": tensor([1], 4, 0)},
        {"w": tensor([1], 8, 12)},
        {"w": tensor([1], -4, 0)},
        {"w": tensor(["1"])},
        {"w": tensor([1]), "v": tensor([1], 2, 6)},
        {"w": tensor([2], 0, 8), "v": tensor([1], 0, 4)},
        {"w": tensor([1]), "v": tensor([0], 2, 2)},
        {"w": tensor([1], 4, 8)},
        {"w": tensor([1], 0, 4)},
        {"w": tensor([1], dtype="Q8")},
        {"w": tensor([1], dtype=["F32"])},
        {"w": None},
        {"w": {"dtype": "F32"}},
        [],
        b"",
        b"{",
        b"\xff",
        b"[" * 100_000,
    ],
    ids=str,
)
def test_a_header_that_lies_is_refused_with_the_file(tmp_path, header):
    with pytest.raises(InputError, match="safetensors"):
        TensorFile(saved(tmp_path, header))


@pytest.mark.parametrize("length", [2**64 - 1, 2**63, 1000, 100_000_001])
def test_a_length_that_lies_is_refused(tmp_path, length):
    with pytest.raises(InputError, match="its header would have"):
        TensorFile(saved(tmp_path, {"w": tensor([1])}, length=length))


def test_a_pipe_is_not_waited_for(tmp_path):
    import os

    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(InputError, match="not a regular file"):
        TensorFile(tmp_path / "model.safetensors")


def test_bytes_of_no_tensor_are_told(tmp_path):
    with pytest.raises(InputError, match="4 bytes at its end are of no tensor"):
        TensorFile(saved(tmp_path, {"w": tensor([1])}))
    with pytest.raises(InputError, match="4 bytes before `w` are of no tensor"):
        TensorFile(saved(tmp_path, {"w": tensor([1], 4, 8)}))
    with TensorFile(saved(tmp_path, {"w": tensor([1]), "v": tensor([1], 4, 8)})) as file:
        assert sorted(file) == ["v", "w"]


def test_what_is_honest_is_read(tmp_path):
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros((0, 5), np.float32)}
    path = tmp_path / "model.safetensors"
    write_tensors(path, {name: array.shape for name, array in arrays.items()}, arrays.items())
    with TensorFile(path) as file:
        for name, array in arrays.items():
            np.testing.assert_array_equal(file[name], array)
