"""The footer of a Parquet file is read as Arrow reads it; one that contradicts itself is refused."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from krill import _native
from krill.corpus.parquet_metadata import Footer, read_footer

TABLE = pa.table(
    {
        "text": ["a", "b", None, "d"] * 50,
        "nested": [{"x": [1, 2], "y.z": {"w": "q"}}] * 200,
        "map": pa.array([[("k", 1.5)]] * 200, pa.map_(pa.string(), pa.float64())),
        "n": list(range(200)),
    }
)


def written(table: pa.Table, **options: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def footer_of(content: bytes) -> Footer:
    return read_footer(lambda start, end: content[start:end], len(content))


@pytest.mark.parametrize("options", [{}, {"row_group_size": 64}, {"use_dictionary": False, "version": "1.0"}])
def test_it_says_what_arrow_says(options: dict) -> None:
    content = written(TABLE, **options)
    footer, known = footer_of(content), pq.read_metadata(io.BytesIO(content))
    assert footer.columns == ("text", "nested", "nested", "map", "map", "n")
    assert footer.rows.tolist() == [known.row_group(group).num_rows for group in range(known.num_row_groups)]
    for group in range(known.num_row_groups):
        leaves = [known.row_group(group).column(leaf) for leaf in range(known.num_columns)]
        assert footer.values[group].tolist() == [leaf.num_values for leaf in leaves]
        assert footer.uncompressed[group].tolist() == [leaf.total_uncompressed_size for leaf in leaves]
        assert footer.compressed[group].tolist() == [leaf.total_compressed_size for leaf in leaves]
        assert footer.data_page_offsets[group].tolist() == [leaf.data_page_offset for leaf in leaves]
        pages = [leaf.dictionary_page_offset or 0 for leaf in leaves]
        assert footer.dictionary_page_offsets[group].tolist() == pages
    assert footer.arrow.num_rows == 200
    assert footer.leaves(["nested", "n"]).tolist() == [1, 2, 5]


def test_a_table_without_rows_has_no_row_groups_or_empty_ones() -> None:
    footer = footer_of(written(TABLE.slice(0, 0)))
    assert footer.rows.sum() == 0
    assert footer.compressed.shape == (len(footer.rows), 6)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1PAR1", b"PAR1\xff\xff\xff\x7fPAR1", b"x" * 100])
def test_what_has_no_footer_is_refused(content: bytes) -> None:
    with pytest.raises(pa.ArrowInvalid):
        footer_of(content)


@pytest.mark.parametrize("at", range(0, 60, 7))
def test_a_footer_that_is_cut_short_is_refused(at: int) -> None:
    content = written(TABLE)
    footer = content[-8 - int.from_bytes(content[-8:-4], "little") : -8]
    with pytest.raises(ValueError, match=r"cut short|Thrift|schema|column"):
        _native.parquet_footer(footer[: len(footer) * at // 60])


def test_nesting_without_end_is_refused() -> None:
    """Field 1 is a struct whose field 1 is a struct, and so on."""
    with pytest.raises(ValueError, match="Thrift"):
        _native.parquet_footer(b"\x1c" * 100_000)


def test_a_histogram_that_contradicts_the_schema_does_not_end_the_process(tmp_path) -> None:
    """Arrow's accessor to a column's figures calls `terminate` here: its exception crosses a border."""
    content = bytearray(written(pa.table({"text": pa.array(["a", None, "c"])}), compression="none"))
    optional = content.index(b"\x25\x02\x18\x04text")  # of the schema's element: repetition, then its name
    content[optional + 1] = 0
    footer = footer_of(bytes(content))
    assert footer.columns == ("text",)
    assert footer.rows.tolist() == [3]


class _Name(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        _Name.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_finding_the_leaves_of_many_columns_compares_each_name_a_few_times() -> None:
    names = tuple(_Name(f"column {number}") for number in range(500))
    table = np.zeros((1, len(names)), np.int64)
    footer = Footer(None, names, np.zeros(1, np.int64), *[table] * 6)
    wanted = [_Name(f"column {number}") for number in range(1, 500, 2)]
    _Name.compared = 0
    assert footer.leaves(wanted).tolist() == list(range(1, 500, 2))
    assert _Name.compared < 3 * len(names)
