"""The native cleaner is held to Python's own decode, strip and len."""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from krill import _native
from oracles.clean import reference_clean
from properties import tried

# Pieces at every border of well-formed UTF-8, and whitespace; text between them comes in runs longer than
# what is looked at in one step.
PIECES = [
    b"a",
    b" ",
    b"\n",
    b"\x1c",
    b"\x7f",
    "é".encode(),
    "\u07ff".encode(),
    "\u0800".encode(),
    "€".encode(),
    "\ud7ff".encode(),
    "\ue000".encode(),
    "\uffff".encode(),
    "\U00010000".encode(),
    "\U0010ffff".encode(),
    "\u0085".encode(),
    "\u3000".encode(),
    "\u2029".encode(),
    "😀".encode(),
    b"\x80",
    b"\xbf",
    b"\xc0\x80",  # overlong
    b"\xc1\xbf",
    b"\xe0\x80\x80",
    b"\xe0\x9f\xbf",
    b"\xf0\x80\x80\x80",
    b"\xf0\x8f\xbf\xbf",
    b"\xed\xa0\x80",  # surrogates
    b"\xed\xbf\xbf",
    b"\xf4\x90\x80\x80",  # above U+10FFFF
    b"\xf5\x80\x80\x80",
    b"\xff",
    b"\xc3",  # truncated
    b"\xe2\x82",
    b"\xf0\x9f\x98",
    b"plain text that is longer than any register",
    "ein längerer Text mit Umläuten, größer als ein Register".encode(),
    "多字节文本多字节文本多字节文本多字节文本多字节文本".encode(),
    "👩‍👩‍👧‍👦👩‍👩‍👧‍👦👩‍👩‍👧‍👦".encode(),
]
document = st.one_of(
    st.none(),
    st.binary(max_size=80),
    st.text(max_size=80).map(str.encode),
    st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join),
)


def column(documents: list[bytes | None]) -> tuple[np.ndarray, bytes, np.ndarray]:
    offsets = np.cumsum([0, *(len(document or b"") for document in documents)], dtype=np.int64)
    nulls = np.array([document is None for document in documents], np.uint8)
    return offsets, b"".join(document or b"" for document in documents), nulls


def cleaned(documents: list[bytes | None], strip: bool, min_chars: int) -> list[str | None]:
    """What the kernel makes of each document, after checking that its parts agree with each other."""
    offsets, data, kept, chars, _ = _native.clean(*column(documents), strip, min_chars)
    assert (offsets.dtype, data.dtype, kept.dtype, chars.dtype) == (np.int64, np.uint8, np.int64, np.uint32)
    assert len(offsets) == len(kept) + 1 == len(chars) + 1
    assert offsets[0] == 0
    assert offsets[-1] == len(data)
    result: list[str | None] = [None] * len(documents)
    for row, start, end, length in zip(kept, offsets, offsets[1:], chars, strict=False):
        result[row] = data[start:end].tobytes().decode()
        assert len(result[row]) == length
    return result


@given(documents=st.lists(document, max_size=8), strip=st.booleans(), min_chars=st.integers(-1, 40))
@example(documents=[b"\xff a \xff", b"\xc2 \x85"], strip=True, min_chars=0)
@tried(160)
def test_every_document_is_cleaned_as_python_would(
    documents: list[bytes | None], strip: bool, min_chars: int
) -> None:
    expected = [reference_clean(document, strip, min_chars) for document in documents]
    assert cleaned(documents, strip, min_chars) == expected


@pytest.mark.parametrize("piece", PIECES)
def test_a_piece_is_cleaned_alike_at_every_place_of_a_long_text(piece: bytes) -> None:
    for around in (b"x" * 97, "ж".encode() * 50, "語".encode() * 33):
        documents: list[bytes | None] = [around[:at] + piece + around[at:] for at in range(len(around))]
        assert cleaned(documents, False, 0) == [reference_clean(text, False, 0) for text in documents]


@pytest.mark.parametrize("length", [1, 2, 3])
def test_all_short_byte_strings_around_the_borders_are_cleaned_as_python_would(length: int) -> None:
    # Every border value of a lead or continuation byte, in every combination, cut off and followed by more.
    borders = [0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF]
    borders += [0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF]
    grid = np.array(np.meshgrid(*[borders] * length)).reshape(length, -1).T.astype(np.uint8)
    short = [row.tobytes() for row in grid]
    for ending in (b"", b"\x80", b"\xbf\xbf", b"z" * 40):
        documents: list[bytes | None] = [text + ending for text in short]
        assert cleaned(documents, False, 0) == [reference_clean(text, False, 0) for text in documents]


def test_strip_knows_every_whitespace_code_point_and_no_other() -> None:
    points = "".join(map(chr, [*range(0xD800), *range(0xE000, sys.maxunicode + 1)]))
    data = "".join([f"{point}a{point}" for point in points]).encode()
    more = np.searchsorted([0x80, 0x800, 0x10000], np.frombuffer(points.encode("utf-32-le"), "<u4"), "right")
    begins = np.concatenate([[0], np.cumsum(2 * (1 + more) + 1)])
    offsets, _, _, _, _ = _native.clean(begins, data, None, True, 0)
    stripped = "".join(points[number] for number in np.flatnonzero(np.diff(offsets) == 1))
    assert stripped == "".join(filter(str.isspace, points))


def test_only_whitespace_leaves_nothing() -> None:
    space = " \t\u2000\u3000\x85\xa0\u1680".encode()
    assert cleaned([space, space * 40, b""], True, 0) == ["", "", ""]
    assert cleaned([space, b""], True, 1) == [None, None]


def test_drops_and_repairs_are_counted() -> None:
    documents = [b"long enough", b"short", None, b"\xfflong enough too", b"\xff", None]
    _, _, kept, _, counts = _native.clean(*column(documents), True, 6)
    assert kept.tolist() == [0, 3]
    assert counts == {"not_text": 2, "too_short": 2, "invalid_utf8": 2}


def test_characters_are_code_points_not_bytes() -> None:
    _, _, _, chars, _ = _native.clean(*column(["añ€😀".encode()]), True, 4)
    assert chars.tolist() == [4]


def test_a_slice_of_a_column_reads_only_its_own_bytes() -> None:
    offsets = np.array([3, 5, 8], np.int64)
    out_offsets, data, kept, _, _ = _native.clean(offsets, b"\xff\xff\xffab cd\xff\xff", None, True, 0)
    assert (out_offsets.tolist(), data.tobytes(), kept.tolist()) == ([0, 2, 4], b"abcd", [0, 1])


@pytest.mark.parametrize("data", [b"abc", bytearray(b"abc"), memoryview(b"abc"), pa.py_buffer(b"abc")])
def test_data_may_be_anything_with_the_buffer_protocol(data: object) -> None:
    assert _native.clean(np.array([0, 3], np.int64), data, None, True, 0)[1].tobytes() == b"abc"


def test_results_own_their_memory() -> None:
    data = bytearray(b"abc")
    _, out, _, _, _ = _native.clean(np.array([0, 3], np.int64), data, None, True, 0)
    data[:] = b"xyz"
    assert out.tobytes() == b"abc"
    assert out.flags.writeable


@pytest.mark.parametrize(
    ("offsets", "fault"),
    [
        ([], "one number more than documents"),
        ([-1, 2], "begin at 0 or above"),
        ([0, 3, 2], "never fall"),
        ([0, 5], "beyond the end"),
        ([5, 5], "beyond the end"),
        ([0, 2**62], "beyond the end"),
        ([2**63 - 1, -(2**63)], "never fall"),
    ],
)
def test_bad_offsets_are_refused_by_every_kernel(offsets: list[int], fault: str) -> None:
    bad = np.array(offsets, np.int64)
    with pytest.raises(ValueError, match=fault):
        _native.clean(bad, b"abcd", None, True, 0)
    with pytest.raises(ValueError, match=fault):
        _native.hash_documents(bad, b"abcd")
    with pytest.raises(ValueError, match=fault):
        _native.encode_bytes(bad, b"abcd", 256)


def test_a_null_mask_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="one byte for each document"):
        _native.clean(np.array([0, 1], np.int64), b"a", np.zeros(2, np.uint8), True, 0)


@pytest.mark.parametrize("offsets", [np.array([0, 1], np.int32), np.array([[0, 1]], np.int64), [0, 1]])
def test_offsets_of_another_type_are_refused(offsets: object) -> None:
    with pytest.raises(TypeError):
        _native.clean(offsets, b"a", None, True, 0)  # type: ignore[arg-type]
