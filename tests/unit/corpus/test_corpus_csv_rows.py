"""Rows of CSV: found as Arrow's parser sees them, whatever quotes and newlines there are."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from krill.corpus.csv_rows import CsvRows

_PIECES = ['"', '""', ",", "\n", "\r\n", "\r", "a", "bc", '","', '"\n']
_CSV = st.lists(st.sampled_from(_PIECES), max_size=25).map("".join).map(str.encode)


def _arrow_rows(data: bytes) -> int:
    """How many rows Arrow sees, well-formed or not."""
    invalid = []
    read = pacsv.read_csv(
        pa.py_buffer(b"x,y\n" + data),
        read_options=pacsv.ReadOptions(use_threads=False),
        parse_options=pacsv.ParseOptions(
            newlines_in_values=True, invalid_row_handler=lambda row: invalid.append(row) or "skip"
        ),
        convert_options=pacsv.ConvertOptions(column_types={"x": pa.binary(), "y": pa.binary()}),
    )
    return int(read.num_rows) + len(invalid)


@given(_CSV)
@example(b'a,"b\nc"\n"d,"",\n",e')
@example(b'a"b,c\nd,"e"f\n"g')
def test_there_are_as_many_rows_as_arrow_sees(data: bytes) -> None:
    starts, end = CsvRows(",").find(data, final=True)
    assert len(starts) == _arrow_rows(data)
    assert end == len(data)


@given(_CSV, st.integers(1, 9))
def test_rows_are_the_same_however_the_file_is_cut(data: bytes, step: int) -> None:
    rows = CsvRows(",")
    whole, _ = rows.find(data, final=True)
    found: list[int] = []
    done = seen = 0
    while done < len(data):
        seen = min(seen + step, len(data))
        starts, end = rows.find(data[done:seen], final=False)
        if end == 0 and seen == len(data):
            starts, end = rows.find(data[done:], final=True)
        found += [done + start for start in starts.tolist()]
        done += end
    assert found == whole.tolist()


@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_a_row_without_its_end_is_only_one_in_the_final_stretch(delimiter: str) -> None:
    rows = CsvRows(delimiter)
    data = f'a{delimiter}b\r\n"c{delimiter}\nd"'.encode()
    assert [each.tolist() if hasattr(each, "tolist") else each for each in rows.find(data, final=False)] == [
        [0],
        5,
    ]
    assert rows.find(data, final=True)[0].tolist() == [0, 5]
    assert rows.find(b"a\r", final=False)[1] == 0
