"""What a row weighs: the same as when each value is weighed by itself."""

from __future__ import annotations

import struct
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from call_counts import calls_of
from krill.corpus.arrays import pick_rows, repeat_rows, row_bytes, row_sizes
from properties import tried

_TEXT = st.text(max_size=20)
_NAMES = st.lists(_TEXT, max_size=4)

_KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), _TEXT),
    (pa.large_string(), _TEXT),
    (pa.string_view(), _TEXT),
    (pa.binary(), st.binary(max_size=20)),
    (pa.large_binary(), st.binary(max_size=20)),
    (pa.binary_view(), st.binary(max_size=20)),
    (pa.binary(5), st.binary(min_size=5, max_size=5)),
    (pa.int8(), st.integers(0, 9)),
    (pa.uint64(), st.integers(0, 9)),
    (pa.float32(), st.just(1.5)),
    (pa.bool_(), st.booleans()),
    (pa.null(), st.none()),
    (pa.timestamp("us"), st.integers(0, 9)),
    (pa.decimal128(10, 2), st.decimals(0, 9, places=2)),
    (pa.list_(pa.int32()), st.lists(st.integers(0, 9) | st.none(), max_size=4)),
    (pa.list_(pa.string()), st.lists(_TEXT | st.none(), max_size=4)),
    (pa.large_list(pa.list_(pa.string())), st.lists(_NAMES | st.none(), max_size=3)),
    (pa.list_(pa.string(), 2), st.lists(_TEXT | st.none(), min_size=2, max_size=2)),
    (pa.map_(pa.string(), pa.int64()), st.lists(st.tuples(_TEXT, st.integers(0, 9)), max_size=3)),
    (
        pa.struct([("a", pa.string()), ("b", pa.int16()), ("c", pa.list_(pa.string()))]),
        st.fixed_dictionaries({"a": _TEXT | st.none(), "b": st.integers(0, 9), "c": _NAMES | st.none()}),
    ),
    (pa.dictionary(pa.int16(), pa.string()), _TEXT),
]


def _size(kind: pa.DataType, value: Any) -> int:
    """A value by itself, slowly."""
    types = pa.types
    if types.is_null(kind):
        return 0
    if types.is_dictionary(kind):
        return kind.index_type.bit_width // 8 + (0 if value is None else _size(kind.value_type, value))
    if types.is_struct(kind):
        return sum(_size(field.type, None if value is None else value[field.name]) for field in kind)
    if types.is_fixed_size_list(kind):
        values = [None] * kind.list_size if value is None else value
        return sum(_size(kind.value_type, each) for each in values)
    if types.is_map(kind):
        pairs = value or []
        return 4 + sum(_size(kind.key_type, key) + _size(kind.item_type, item) for key, item in pairs)
    if types.is_list(kind) or types.is_large_list(kind):
        return (8 if types.is_large_list(kind) else 4) + sum(_size(kind.value_type, v) for v in value or [])
    if kind in (pa.string_view(), pa.binary_view()):
        length = _length(value)
        return 16 + (length if length > 12 else 0)
    if kind in (pa.large_string(), pa.large_binary()):
        return 8 + _length(value)
    if kind in (pa.string(), pa.binary()):
        return 4 + _length(value)
    return max(1, kind.bit_width // 8)


def _length(value: str | bytes | None) -> int:
    return len(value.encode() if isinstance(value, str) else value or b"")


@pytest.mark.parametrize(("kind", "values"), _KINDS, ids=lambda each: str(each)[:30])
@tried(40)
@given(data=st.data())
def test_a_value_weighs_what_it_weighs_by_itself(
    kind: pa.DataType, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    rows = data.draw(st.lists(values | st.none(), max_size=20))
    array = pa.array(rows, kind)
    expected = [_size(kind, value) for value in array.to_pylist()]
    assert row_sizes(array).tolist() == expected
    start = data.draw(st.integers(0, len(rows)))
    stop = data.draw(st.integers(start, len(rows)))
    assert row_sizes(array.slice(start, stop - start)).tolist() == expected[start:stop]


def test_what_lies_beneath_a_null_weighs_nothing() -> None:
    bits = pa.py_buffer(bytes([0b101]))
    words = pa.array(["one", "hidden", "three"])
    nulls = pa.Array.from_buffers(pa.string(), 3, [bits, *words.buffers()[1:]])
    assert row_sizes(nulls).tolist() == [4 + 3, 4, 4 + 5]
    inside = pa.Array.from_buffers(pa.struct([("a", pa.string())]), 3, [bits], children=[words])
    assert row_sizes(inside).tolist() == row_sizes(nulls).tolist()
    assert row_sizes(inside.slice(1)).tolist() == [4, 9]
    pairs = pa.Array.from_buffers(pa.list_(pa.string(), 1), 3, [bits], children=[words])
    assert row_sizes(pairs).tolist() == row_sizes(nulls).tolist()
    indices = pa.Array.from_buffers(pa.int8(), 3, [bits, pa.py_buffer(bytes([2, 99, 0]))])
    folded = pa.DictionaryArray.from_arrays(indices, words, safe=False)
    assert row_sizes(folded).tolist() == [1 + 9, 1, 1 + 7]


def test_types_that_can_not_be_written_weigh_nothing() -> None:
    union = pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1, 2])])
    assert row_sizes(union).tolist() == [0, 0]


def test_a_row_weighs_what_its_columns_do() -> None:
    batch = pa.RecordBatch.from_pydict({"text": pa.array(["a", "bcd"], pa.large_string()), "id": [1, 2]})
    assert row_bytes(batch).tolist() == [8 + 1 + 8, 8 + 3 + 8]
    assert row_bytes(batch.slice(0, 0)).dtype == np.int64


def test_weighing_loads_nothing_heavy() -> None:
    script = (
        "import sys; from krill.corpus.arrays import as_arrow, row_sizes; import numpy as np, pyarrow as pa;"
        "ends = pa.py_buffer(np.array([0, 1, 3], np.int32));"
        "bits = pa.py_buffer(bytes([1]));"
        "words = pa.Array.from_buffers(pa.string(), 2, [bits, ends, pa.py_buffer(b'abc')]);"
        "numbers = as_arrow(np.arange(3));"
        "lists = pa.Array.from_buffers(pa.list_(pa.int64()), 2, [None, ends], children=[numbers]);"
        "assert row_sizes(words).tolist() == [5, 4];"
        "assert row_sizes(lists).tolist() == [12, 20];"
        "assert not {'pandas', 'pyarrow.compute'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@tried(40)
@given(data=st.data())
def test_rows_of_many_columns_weigh_what_each_column_does(data: st.DataObject) -> None:
    rows = data.draw(st.integers(0, 6))
    kinds = data.draw(st.lists(st.sampled_from(_KINDS), min_size=1, max_size=6))
    columns = [
        pa.array(data.draw(st.lists(values | st.none(), min_size=rows, max_size=rows)), kind)
        for kind, values in kinds
    ]
    batch = pa.RecordBatch.from_arrays(columns, [str(at) for at in range(len(columns))])
    start = data.draw(st.integers(0, rows))
    piece = batch.slice(start, data.draw(st.integers(0, rows - start)))
    expected = sum((row_sizes(column) for column in piece.columns), np.zeros(piece.num_rows, np.int64))
    assert row_bytes(piece).tolist() == expected.tolist()


@tried(40)
@given(data=st.data())
def test_rows_are_repeated_as_arrow_takes_them(data: st.DataObject) -> None:
    rows = data.draw(st.integers(0, 6))
    kinds = data.draw(st.lists(st.sampled_from(_KINDS), min_size=1, max_size=4))
    columns = [
        pa.array(data.draw(st.lists(values | st.none(), min_size=rows, max_size=rows)), kind)
        for kind, values in kinds
    ]
    batch = pa.RecordBatch.from_arrays(columns, [str(at) for at in range(len(columns))])
    counts = np.array(data.draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows)), np.int64)
    expected = [row for row, count in zip(batch.to_pylist(), counts, strict=True) for _ in range(count)]
    found = repeat_rows(batch, counts)
    found.validate(full=True)
    assert found.schema == batch.schema
    assert found.to_pylist() == expected


def test_repeating_rows_loads_nothing_heavy() -> None:
    script = (
        "import sys; import numpy as np, pyarrow as pa;"
        "from krill.corpus.arrays import as_arrow, repeat_rows;"
        "batch = pa.RecordBatch.from_arrays([as_arrow(np.arange(2))], ['id']);"
        "assert repeat_rows(batch, np.array([0, 3])).num_rows == 3;"
        "assert not {'pandas', 'pyarrow.compute'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_offsets_that_stand_anywhere_in_memory_are_read() -> None:
    offsets = pa.py_buffer(b"!" + np.array([0, 2, 5], np.int64).tobytes()).slice(1)
    column = pa.Array.from_buffers(pa.large_string(), 2, [None, offsets, pa.py_buffer(b"abcde")])
    assert row_bytes(pa.RecordBatch.from_arrays([column], ["text"])).tolist() == [8 + 2, 8 + 3]


def test_offsets_that_are_missing_are_not_read() -> None:
    batch = pa.RecordBatch.from_pydict({"text": ["ab"] * 777})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    damaged = sink.getvalue().to_pybytes().replace(struct.pack("<q", 777), struct.pack("<q", 10**9))
    with pa.ipc.open_stream(damaged) as reader:
        longer = reader.read_next_batch()
    assert longer.num_rows == 10**9
    with pytest.raises(pa.ArrowInvalid):
        row_bytes(longer)


def _wide(columns: int) -> pa.RecordBatch:
    column = pa.array(["one", None, "three"], pa.large_string())
    return pa.RecordBatch.from_arrays([column] * columns, [f"c{at}" for at in range(columns)])


def test_weighing_rows_takes_as_many_calls_for_a_thousand_columns_as_for_ten() -> None:
    few, many = _wide(10), _wide(1000)
    assert calls_of(lambda: row_bytes(many)) == calls_of(lambda: row_bytes(few))


@tried(40)
@given(keep=st.lists(st.booleans(), min_size=3, max_size=3))
def test_picking_rows_gives_what_picking_each_value_does(keep: list[bool]) -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "text": pa.array(["a", "bcd", ""], pa.large_string()),
            "nulls": pa.array([None, "x", None], pa.large_string()),
            "number": pa.array([1, 2, 3]),
            "missing": pa.array([None, 2, 3]),
            "list": pa.array([[1], [], None]),
        }
    )
    expected = [row for row, kept in zip(batch.to_pylist(), keep, strict=True) if kept]
    picked = pick_rows(batch, np.array(keep))
    assert picked.to_pylist() == expected
    assert picked.schema == batch.schema
