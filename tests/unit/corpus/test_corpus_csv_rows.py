"""Rows and fields of CSV: found as Arrow's parser sees them, whatever quotes and newlines there are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from krill import _native
from krill.corpus.readers import string_columns

_PIECES = ['"', '""', ",", "\n", "\r\n", "\r", "a", "bc", '","', '"\n']
_CSV = st.lists(st.sampled_from(_PIECES), max_size=25).map("".join).map(str.encode)


def _find(data: bytes, delimiter: str = ",", *, final: bool):
    return _native.csv_rows(data, ord(delimiter), final)


def _arrow(data: bytes, on_invalid):
    return pacsv.read_csv(
        pa.py_buffer(b"x,y\n" + data),
        read_options=pacsv.ReadOptions(use_threads=False),
        parse_options=pacsv.ParseOptions(newlines_in_values=True, invalid_row_handler=on_invalid),
        convert_options=pacsv.ConvertOptions(column_types={"x": pa.binary(), "y": pa.binary()}),
    )


def _arrow_rows(data: bytes) -> int:
    """How many rows Arrow sees, well-formed or not."""
    invalid = []
    read = _arrow(data, lambda row: invalid.append(row) or "skip")
    return int(read.num_rows) + len(invalid)


@given(_CSV)
@example(b'a,"b\nc"\n"d,"",\n",e')
@example(b'a"b,c\nd,"e"f\n"g')
def test_there_are_as_many_rows_as_arrow_sees(data: bytes) -> None:
    starts, end = _find(data, final=True)
    assert len(starts) == _arrow_rows(data)
    assert end == len(data)


@given(_CSV, st.integers(1, 9))
def test_rows_are_the_same_however_the_file_is_cut(data: bytes, step: int) -> None:
    whole, _ = _find(data, final=True)
    found: list[int] = []
    done = seen = 0
    while done < len(data):
        seen = min(seen + step, len(data))
        starts, end = _find(data[done:seen], final=False)
        if end == 0 and seen == len(data):
            starts, end = _find(data[done:], final=True)
        found += [done + start for start in starts.tolist()]
        done += end
    assert found == whole.tolist()


@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_a_row_without_its_end_is_only_one_in_the_final_stretch(delimiter: str) -> None:
    data = f'a{delimiter}b\r\n"c{delimiter}\nd"'.encode()
    starts, end = _find(data, delimiter, final=False)
    assert (starts.tolist(), end) == ([0], 5)
    assert _find(data, delimiter, final=True)[0].tolist() == [0, 5]
    assert _find(b"a\r", delimiter, final=False)[1] == 0


@given(_CSV)
@example(b'a,"b\nc"\n"d,"",\n",e')
@example(b'"a"b,"c""d"\r,\n"",""\na,b,c\n"x')
def test_fields_and_malformed_rows_are_those_that_arrow_gives(data: bytes) -> None:
    invalid: list[int] = []
    read = _arrow(data, lambda row: invalid.append(row.number - 2) or "skip")
    starts, _ = _find(data, final=True)
    (offsets, joined, nulls, begins), malformed, _ = _native.csv_fields(data, starts, ord(","), 2, [1, 0])
    rows = len(starts) - len(malformed)
    columns = [
        each.cast(pa.large_binary()).to_pylist()
        for each in string_columns(2, rows, offsets, joined, nulls, begins)
    ]
    assert malformed.tolist() == invalid
    assert columns == [read["y"].to_pylist(), read["x"].to_pylist()]


@pytest.mark.parametrize("starts", [[1, 1], [2, 1], [-1], [9]])
def test_rows_that_do_not_lie_in_the_data_are_refused(starts: list[int]) -> None:
    with pytest.raises(ValueError, match="rows must rise"):
        _native.csv_fields(b"a,b\nc,d\n", np.array(starts, np.int64), ord(","), 2, [0])
    with pytest.raises(ValueError, match="beyond the last"):
        _native.csv_fields(b"a,b\n", np.zeros(1, np.int64), ord(","), 2, [2])
