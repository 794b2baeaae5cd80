"""Files of ids: their header, their pieces, and text that is never cut inside a character."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from krill.errors import InputError
from krill.pipeline import token_file
from krill.pipeline.token_file import NPY_HEADER_BYTES, decoded, npy_header, read_ids
from krill.tokenizer import ByteEncoder


@pytest.mark.parametrize("length", [0, 1, 10**15])
@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_the_header_is_numpys_own_and_always_as_long(length: int, dtype: str) -> None:
    header = npy_header(np.dtype(dtype), length)
    assert len(header) == NPY_HEADER_BYTES
    file = io.BytesIO(header)
    assert np.lib.format.read_magic(file) == (1, 0)
    assert np.lib.format.read_array_header_1_0(file) == ((length,), False, np.dtype(dtype))
    assert file.tell() == NPY_HEADER_BYTES


@pytest.mark.parametrize(("vocab_size", "dtype"), [(65_536, "<u2"), (65_537, "<u4")])
def test_flat_files_are_read_in_the_type_that_holds_the_vocabulary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vocab_size: int, dtype: str
) -> None:
    monkeypatch.setattr(token_file, "IDS_AT_ONCE", 4)
    ids = np.arange(10, dtype=dtype)
    ids.tofile(tmp_path / "ids.bin")
    pieces = list(read_ids(tmp_path / "ids.bin", vocab_size))
    assert [len(piece) for piece in pieces] == [4, 4, 2]
    assert np.concatenate(pieces).tolist() == list(range(10))


@pytest.mark.parametrize("dtype", ["<i8", "<u2", ">u4"])
def test_arrays_of_any_whole_numbers_are_read(tmp_path: Path, dtype: str) -> None:
    np.save(tmp_path / "ids.npy", np.array([5, 6, 7], dtype))
    assert [piece.tolist() for piece in read_ids(tmp_path / "ids.npy", 10)] == [[5, 6, 7]]


@pytest.mark.parametrize(
    ("array", "fact"),
    [
        (np.zeros(3), "holds float64 of the shape"),
        (np.zeros((2, 2), int), "not a row of ids"),
        (np.array(["a"], object), "not a row of ids"),
    ],
)
def test_other_arrays_are_refused_and_never_unpickled(tmp_path: Path, array: NDArray[Any], fact: str) -> None:
    np.save(tmp_path / "ids.npy", array, allow_pickle=True)
    with pytest.raises(InputError, match=fact):
        list(read_ids(tmp_path / "ids.npy", 10))


def test_what_is_no_array_is_an_error_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "ids.npy").write_bytes(b"something else entirely")
    with pytest.raises(InputError, match=r"ids\.npy` is not a \.npy file"):
        list(read_ids(tmp_path / "ids.npy", 10))
    with pytest.raises(InputError, match=r"can't read `.*absent\.bin`: No such file"):
        list(read_ids(tmp_path / "absent.bin", 10))


@given(st.text(), st.lists(st.integers(1, 5)), st.booleans())
def test_text_is_the_same_however_its_ids_are_cut(text: str, sizes: list[int], known_eos: bool) -> None:
    encoder = ByteEncoder()
    ids = np.frombuffer(text.encode("utf-8", "ignore"), np.uint8).astype(np.uint32)
    ids = np.concatenate((ids, [encoder.eos_id, 65])).astype(np.uint32)
    ends = np.cumsum([0, *sizes])
    pieces = [
        ids[start:end] for start, end in zip(ends, [*ends[1:], len(ids)], strict=True) if start < len(ids)
    ]
    pieces = [piece for piece in pieces if len(piece)]
    eos = encoder.eos_id if known_eos else None
    assert "".join(decoded(pieces, encoder.decode, eos)) == encoder.decode(ids)
