"""Columns of others are checked before anything in them is followed; strings lose what is not UTF-8."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from krill.corpus.arrays import as_arrow
from krill.corpus.checks import as_carried, carried_type, check_batch, check_columns, valid_strings

LONG = [f"a string that does not fit a view, number {number}" for number in range(20)]


def damaged(column: pa.Array, buffer: int, change: Callable[[np.ndarray], None], dtype: str) -> pa.Array:
    """A column, of which one buffer's numbers were changed."""
    buffers = column.buffers()
    numbers = np.frombuffer(buffers[buffer], dtype).copy()
    change(numbers)
    buffers[buffer] = pa.py_buffer(numbers)
    children = []
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        children, buffers = [column.values], buffers[:2]
    return pa.Array.from_buffers(column.type, len(column), buffers, children=children)


def set_to(place: int, value: int) -> Callable[[np.ndarray], None]:
    def change(numbers: np.ndarray) -> None:
        numbers[place] = value

    return change


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()])
@pytest.mark.parametrize("value", [-1, 2**30, 5])
def test_an_offset_that_leaves_its_data_or_falls_is_found(kind: pa.DataType, value: int) -> None:
    width = "int64" if kind == pa.large_string() else "int32"
    column = damaged(pa.array(LONG, kind), 1, set_to(7, value), width)
    with pytest.raises(pa.ArrowInvalid):
        check_columns([column])


@pytest.mark.parametrize(("place", "value"), [(3, 2**30), (3, -8), (2, 1000), (2, -1), (0, 2**30), (0, -1)])
def test_a_view_that_leaves_its_buffers_is_found(place: int, value: int) -> None:
    """Of a view's four numbers the first is the length, the third the buffer, the fourth the place in it."""
    column = damaged(pa.array(LONG, pa.string_view()), 1, set_to(4 * 7 + place, value), "int32")
    with pytest.raises((pa.ArrowInvalid, pa.ArrowIndexError, IndexError)):
        check_columns([column])


@pytest.mark.parametrize("index", [-1, -1_000_000, 20, 2**31 - 1])
def test_an_index_outside_of_its_dictionary_is_found(index: int) -> None:
    indices = as_arrow(np.array([0, 1, index], np.int32))
    column = pa.DictionaryArray.from_arrays(indices, pa.array(LONG), safe=False)
    with pytest.raises(pa.ArrowInvalid):
        check_columns([column])


def test_offsets_of_a_dictionarys_own_strings_are_checked() -> None:
    values = damaged(pa.array(LONG), 1, set_to(3, 2**30), "int32")
    column = pa.DictionaryArray.from_arrays(as_arrow(np.zeros(3, np.int32)), values, safe=False)
    with pytest.raises(pa.ArrowInvalid):
        check_columns([column])


@pytest.mark.parametrize("value", [-1, 2**30])
def test_offsets_of_lists_and_of_what_is_in_them_are_checked(value: int) -> None:
    lists = pa.array([[1, 2], [], [3]] * 5)
    with pytest.raises(pa.ArrowInvalid):
        check_columns([damaged(lists, 1, set_to(4, value), "int32")])
    inner = damaged(pa.array(LONG), 1, set_to(3, value), "int32")
    nested = pa.StructArray.from_arrays(
        [pa.ListArray.from_arrays(pa.array([0, 5, 20], pa.int32()), inner)], ["a"]
    )
    with pytest.raises(pa.ArrowInvalid):
        check_columns([nested])


def test_only_the_rows_at_hand_are_looked_at() -> None:
    """So that a batch which is mapped is not read as a whole to look at a slice of it."""
    inner = damaged(pa.array(LONG), 1, set_to(15, 2**30), "int32")
    lists = pa.ListArray.from_arrays(pa.array(range(21), pa.int32()), inner)
    check_columns([lists.slice(2, 10)])
    with pytest.raises(pa.ArrowInvalid):
        check_columns([lists.slice(12)])


def test_columns_that_are_whole_pass_whatever_their_type() -> None:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 4], pa.int32()), pa.array(["a", "b"]))
    columns = {
        "views": pa.array(["x", None, LONG[0], ""], pa.string_view()),
        "maps": pa.array([[("a", 1)], None, [], [("b", None)]], pa.map_(pa.string(), pa.int8())),
        "fixed": pa.array([["a", None]] * 4, pa.list_(pa.string(), 2)),
        "nulls": pa.nulls(4),
        "runs": runs,
    }
    batch = pa.RecordBatch.from_pydict(columns)
    check_batch(batch)
    check_batch(batch.slice(1, 2))
    check_batch(batch.slice(4))


def bytes_as(kind: pa.DataType, values: list[bytes | None]) -> pa.Array:
    binary = {
        pa.string(): pa.binary(),
        pa.large_string(): pa.large_binary(),
        pa.string_view(): pa.binary_view(),
    }
    column = pa.array(values, binary[kind])
    return pa.Array.from_buffers(kind, len(column), column.buffers())


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_strings_lose_bytes_that_are_not_utf8_and_keep_their_type(kind: pa.DataType) -> None:
    column = bytes_as(kind, [b"caf\xe9", None, "漢".encode() + b"\xff", b"", b"plain"])
    valid = valid_strings(column)
    assert valid.type == kind
    assert valid.to_pylist() == ["caf", None, "漢", "", "plain"]


def test_a_dictionary_of_such_strings_keeps_its_indices() -> None:
    values = bytes_as(pa.string(), [b"caf\xe9", b"b"])
    column = pa.DictionaryArray.from_arrays(pa.array([1, 0, None]), values)
    assert valid_strings(column).to_pylist() == ["b", "caf", None]


def test_inside_of_lists_they_are_an_error() -> None:
    column = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), bytes_as(pa.string(), [b"\xff"]))
    with pytest.raises(pa.ArrowInvalid, match="UTF8"):
        valid_strings(column)


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array(["a", None, LONG[0]], pa.string_view()), pa.large_string()),
        (pa.array([["a"], None, LONG], pa.list_(pa.string_view())), pa.list_(pa.large_string())),
        (
            pa.array([{"a": b"x"}] * 3, pa.struct([("a", pa.binary_view())])),
            pa.struct([("a", pa.large_binary())]),
        ),
        (
            pa.RunEndEncodedArray.from_arrays(
                pa.array([1, 3], pa.int16()), pa.array(["a", "b"], pa.string_view())
            ),
            pa.large_string(),
        ),
        (
            pa.DictionaryArray.from_arrays(
                pa.array([0, 1, 0], pa.int8()), pa.array(["a", "b"], pa.string_view())
            ),
            pa.dictionary(pa.int8(), pa.large_string()),
        ),
    ],
)
def test_what_rows_cannot_be_picked_from_is_carried_as_another_type(
    column: pa.Array, kind: pa.DataType
) -> None:
    assert carried_type(column.type) == kind
    for rows in (pa.record_batch({"c": column}), pa.record_batch({"c": column}).slice(1)):
        carried = as_carried(rows, pa.schema([("c", kind)]))
        assert carried.schema.types == [kind]
        assert carried.column("c").to_pylist() == rows.column("c").to_pylist()


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.list_(pa.int8()), pa.map_(pa.string(), pa.float16()), pa.uuid()]
)
def test_other_types_are_carried_as_they_are(kind: pa.DataType) -> None:
    assert carried_type(kind) == kind


@pytest.mark.parametrize("kind", [pa.month_day_nano_interval(), pa.dense_union([pa.field("a", pa.int8())])])
def test_what_parquet_cannot_hold_is_not_carried(kind: pa.DataType) -> None:
    assert carried_type(kind) is None
    assert carried_type(pa.list_(kind)) is None
