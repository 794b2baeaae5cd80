"""Documents that are whole rows: records of JSON as they stand, and rows of tables as JSON."""

from __future__ import annotations

import json
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill import _native
from krill.corpus import DatasetSource, open_corpus
from krill.corpus.json_rows import ROW, json_rows
from krill.errors import InputError

LIMIT = 60
values = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
records = st.lists(
    st.dictionaries(st.sampled_from(["text", "messages", "é"]), values, max_size=3), max_size=5
)


def read(
    data: bytes, cuts: list[int], *, array: bool, limit: int = LIMIT
) -> tuple[list[str], list[int], Any]:
    reader = _native.JsonReader(b"text", [], limit, True, True, array, True)
    at = 0
    for end in [*sorted({min(cut, len(data)) for cut in cuts}), len(data)]:
        reader.feed(data[at:end], at)
        at = end
    reader.finish()
    offsets, found, nulls, starts, _, counts = reader.take()
    assert not nulls.any()
    texts = [bytes(found[a:b]).decode() for a, b in pairwise(offsets)]
    return texts, starts.tolist(), counts


@given(records, st.lists(st.integers(0, 300), max_size=6), st.booleans(), st.booleans())
def test_a_record_is_given_as_it_stands_however_it_is_fed(
    given_records: list[Any], cuts: list[int], ascii_only: bool, array: bool
) -> None:
    written = [json.dumps(record, ensure_ascii=ascii_only) for record in given_records]
    text = f"[{', '.join(written)}]" if array else "".join(f" {line}\r\n" for line in written)
    texts, starts, counts = read(text.encode(), cuts, array=array)
    short = [line for line in written if len(line.encode()) <= LIMIT]
    assert texts == short
    assert counts["records"] == len(written)
    assert counts["oversize"] == len(written) - len(short)
    assert [
        text.encode()[start:].decode()[: len(line)] for start, line in zip(starts, short, strict=True)
    ] == short


def test_a_malformed_line_is_left_out_and_the_next_one_is_whole() -> None:
    texts, starts, counts = read(b'{"a": [1}\n{"b": 2}\n{"c"', [3, 12], array=False)
    assert (texts, starts) == (['{"b": 2}'], [10])
    assert (counts["records"], counts["malformed"]) == (3, 2)


def test_a_whole_record_can_not_be_split() -> None:
    with pytest.raises(ValueError, match="can't be split"):
        _native.JsonReader(b"", [], LIMIT, False, False, False, True)


SOURCE = DatasetSource("x", text_column=ROW, row_columns=("messages", "tools"), columns=("id",))


@given(
    st.lists(st.tuples(st.lists(st.text(max_size=5), max_size=3) | st.none(), st.integers(0, 9)), max_size=40)
)
def test_rows_of_tables_are_json_with_their_nested_values(rows: list[tuple[list[str] | None, int]]) -> None:
    messages = [None if texts is None else [{"content": text} for text in texts] for texts, _ in rows]
    kind = pa.list_(pa.struct([("content", pa.string())]))
    batch = pa.RecordBatch.from_arrays(
        [pa.array(messages, kind), pa.array([number for _, number in rows], pa.int64())], ["messages", "id"]
    )
    found = json_rows(SOURCE, batch)
    assert [json.loads(text) for text in found.column(ROW).to_pylist()] == [{"messages": m} for m in messages]
    assert found.column("id").to_pylist() == [number for _, number in rows]
    assert json_rows(SOURCE, found) is found


def test_what_json_has_no_word_for_is_null_or_text() -> None:
    batch = pa.RecordBatch.from_arrays(
        [pa.array([b"\xff"]), pa.array([date(2025, 1, 31)])], ["messages", "tools"]
    )
    source = DatasetSource("x", text_column=ROW, row_columns=("messages", "tools"))
    [text] = json_rows(source, batch).column(ROW).to_pylist()
    assert json.loads(text) == {"messages": None, "tools": "2025-01-31"}


def corpus_of(path: Path, **limits: Any) -> Any:
    source = DatasetSource(str(path), text_column=ROW, row_columns=("messages",))
    options = {
        "unit_bytes": 64_000,
        "max_document_bytes": 1000,
        "drop_oversize": True,
        "skip_malformed": False,
        "default_separator": "",
        "batch_rows": None,
    }
    return open_corpus([source], **(options | limits))


def test_a_table_without_such_a_column_and_plain_text_are_refused(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    table = tmp_path / "a.parquet"
    pq.write_table(pa.table({"question": ["a"]}), table)
    with pytest.raises(InputError, match="no column of conversations; there are: `question`"):
        [block.documents() for unit in corpus_of(table).units() for block in corpus_of(table).blocks(unit)]
    text = tmp_path / "a.txt"
    text.write_text("hello")
    with pytest.raises(InputError, match="is plain text, and a conversation is a row"):
        corpus_of(text)


@pytest.mark.parametrize("rows_in_group", [3, 1000])
def test_a_row_of_a_table_above_the_limit_is_dropped_and_counted(tmp_path: Path, rows_in_group: int) -> None:
    import pyarrow.parquet as pq

    table = tmp_path / "a.parquet"
    pq.write_table(pa.table({"messages": ["x" * 10, "y" * 2000, "z"]}), table, row_group_size=rows_in_group)
    corpus = corpus_of(table)
    found = [block.documents() for unit in corpus.units() for block in corpus.blocks(unit)]
    texts = [text for documents in found for text in documents.batch.column("text").to_pylist()]
    assert [json.loads(text)["messages"] for text in texts] == ["x" * 10, "z"]
    assert sum(documents.counts.get("oversize", 0) for documents in found) == 1
