"""Hugging Face datasets on disk that Krill did not write: any row is read where it lies."""

from __future__ import annotations

import json
import os
import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from saved_rows import cut_rows, opened, random_rows, read_pieces, read_rows, save_folder, write_stream

from krill.errors import ConfigError, InputError

ROWS = random_rows(530)
SOME = [529, 0, 17, 17, 18, 19, 250, 3, 400, 99, 100]


def table_of(rows: list[list[int]], kind: pa.DataType | None = None, **columns: pa.Array) -> pa.Table:
    return pa.table({"input_ids": pa.array(rows, kind or pa.list_(pa.int32())), **columns})


@pytest.mark.parametrize("token", ["uint16", "int32", "int64", "uint64"])
@pytest.mark.parametrize("make_list", [pa.list_, pa.large_list])
def test_rows_of_every_type_are_read_in_the_order_asked_for(
    tmp_path: Path, token: str, make_list: Any
) -> None:
    kind = make_list(pa.type_for_alias(token))
    folder = save_folder(tmp_path / "saved", [table_of(ROWS[:200], kind), table_of(ROWS[200:], kind)])
    source = opened(folder, tmp_path)
    assert (source.rows, source.width, source.fixed) == (530, max(map(len, ROWS)), False)
    assert (source.dtype, source.block_rows, source.tokens) == (np.dtype(token), 100, sum(map(len, ROWS)))
    assert read_rows(source, SOME) == [ROWS[row] for row in SOME]
    assert read_rows(source, range(530)) == ROWS
    assert read_rows(source, []) == []


def test_rows_of_one_width_are_fixed_whether_or_not_their_type_says_so(tmp_path: Path) -> None:
    rows = random_rows(120, longest=12, shortest=12)
    for number, kind in enumerate([pa.list_(pa.int32(), 12), pa.list_(pa.int32())]):
        source = opened(save_folder(tmp_path / str(number), [table_of(rows, kind)]), tmp_path)
        assert (source.width, source.fixed) == (12, True)
        assert read_rows(source, [119, 5, 5]) == [rows[119], rows[5], rows[5]]


def test_without_seq_lengths_a_row_is_one_document(tmp_path: Path) -> None:
    source = opened(save_folder(tmp_path / "saved", [table_of(ROWS)]), tmp_path)
    assert read_pieces(source, SOME) == [[len(ROWS[row])] if ROWS[row] else [] for row in SOME]


@pytest.mark.parametrize("kind", [pa.list_(pa.int32()), pa.list_(pa.int64()), pa.large_list(pa.uint16())])
def test_seq_lengths_say_where_documents_begin(tmp_path: Path, kind: pa.DataType) -> None:
    pieces = cut_rows(ROWS)
    table = table_of(ROWS, seq_lengths=pa.array(pieces, kind))
    source = opened(save_folder(tmp_path / "saved", [table]), tmp_path)
    assert read_pieces(source, SOME) == [pieces[row] for row in SOME]


def test_a_row_whose_seq_lengths_are_null_is_one_document(tmp_path: Path) -> None:
    pieces = [None if number % 3 == 0 else cut for number, cut in enumerate(cut_rows(ROWS))]
    table = table_of(ROWS, seq_lengths=pa.array(pieces, pa.list_(pa.int32())))
    source = opened(save_folder(tmp_path / "saved", [table]), tmp_path)
    expected = [
        [len(row)] if cut is None and row else cut or [] for row, cut in zip(ROWS, pieces, strict=True)
    ]
    assert read_pieces(source, range(530)) == expected


def test_other_columns_are_passed_by(tmp_path: Path) -> None:
    count = len(ROWS)
    others = {
        "text": pa.array(["x" * (number % 5) for number in range(count)]),
        "scores": pa.array([[0.5] * (number % 3) for number in range(count)]),
        "nothing": pa.nulls(count),
        "flag": pa.array([number % 2 == 0 for number in range(count)]),
        "meta": pa.array([{"a": number, "b": ["c"] if number % 2 else None} for number in range(count)]),
        "kind": pa.array([str(number % 4) for number in range(count)]).dictionary_encode(),
        "pair": pa.array([[1, 2]] * count, pa.list_(pa.int8(), 2)),
        "map": pa.array([[("k", number)] for number in range(count)], pa.map_(pa.string(), pa.int64())),
    }
    table = pa.table({**others, "input_ids": pa.array(ROWS, pa.list_(pa.int32())), "last": others["text"]})
    source = opened(save_folder(tmp_path / "saved", [table]), tmp_path)
    assert read_rows(source, SOME) == [ROWS[row] for row in SOME]


def test_a_dataset_dict_gives_the_split_asked_for(tmp_path: Path) -> None:
    save_folder(tmp_path / "both" / "train", [table_of(ROWS[:300])])
    save_folder(tmp_path / "both" / "test", [table_of(ROWS[300:])])
    (tmp_path / "both" / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    assert opened(tmp_path / "both", tmp_path).rows == 300
    assert read_rows(opened(tmp_path / "both", tmp_path, split="test"), [0]) == [ROWS[300]]
    with pytest.raises(InputError, match=r"no split `validation` in `.*both`; there are: `train`, `test`"):
        opened(tmp_path / "both", tmp_path, split="validation")


def test_single_arrow_files_of_both_formats_are_read(tmp_path: Path) -> None:
    write_stream(tmp_path / "a.arrow", table_of(ROWS[:200]))
    path = str(tmp_path / "b.arrow")
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table_of(ROWS).schema) as writer:
        writer.write_table(table_of(ROWS[200:]), max_chunksize=64)
    assert read_rows(opened(tmp_path / "b.arrow", tmp_path), [0, 329]) == [ROWS[200], ROWS[529]]
    assert read_rows(opened(tmp_path / "*.arrow", tmp_path), SOME) == [ROWS[row] for row in SOME]


def test_the_fingerprint_is_that_of_the_data_and_not_of_its_place(tmp_path: Path) -> None:
    first = opened(save_folder(tmp_path / "a", [table_of(ROWS)]), tmp_path).fingerprint
    assert opened(save_folder(tmp_path / "b", [table_of(ROWS)]), tmp_path).fingerprint == first
    changed = [*ROWS[:-1], [1, *ROWS[-1]]]
    assert opened(save_folder(tmp_path / "c", [table_of(changed)]), tmp_path).fingerprint != first
    saved_anew = save_folder(tmp_path / "d", [table_of(ROWS)], _fingerprint="another")
    assert opened(saved_anew, tmp_path).fingerprint != first


def test_a_source_goes_on_after_pickling_closing_and_a_fork(tmp_path: Path) -> None:
    source = opened(save_folder(tmp_path / "saved", [table_of(ROWS)]), tmp_path)
    expected = [ROWS[row] for row in SOME]
    assert read_rows(source, SOME) == expected
    assert read_rows(pickle.loads(pickle.dumps(source)), SOME) == expected
    source.close()
    assert read_rows(source, SOME) == expected
    child = os.fork()
    if child == 0:
        os._exit(0 if read_rows(source, SOME) == expected else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_selection_that_was_saved_beside_the_rows_is_refused(tmp_path: Path) -> None:
    folder = save_folder(
        tmp_path / "saved", [table_of(ROWS)], _indices_data_files=[{"filename": "indices.arrow"}]
    )
    with pytest.raises(InputError, match=r"selection or order of its rows") as error:
        opened(folder, tmp_path)
    assert "flatten_indices()" in str(error.value.hint)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            pa.table({"text": ["a"], "tokens": [[1]]}),
            "no column `input_ids` in .*; there are: `text`, `tokens`",
        ),
        (pa.table({"input_ids": ["a"]}), "has the type `string`, not a list of integers"),
        (pa.table({"input_ids": [[0.5]]}), "has the type `list<.*double>`, not a list of integers"),
        (pa.table({"input_ids": pa.array([[1], None], pa.list_(pa.int32()))}), "`input_ids` in .* has nulls"),
        (pa.table({"input_ids": pa.array([[1, None]], pa.list_(pa.int32()))}), "`input_ids` in .* has nulls"),
        (pa.table({"input_ids": pa.array([], pa.list_(pa.int32()))}), "has no rows"),
        (pa.table({"input_ids": pa.array([[], []], pa.list_(pa.int32()))}), "are empty"),
        (pa.table({"input_ids": [[1, 2]], "seq_lengths": [5]}), "`seq_lengths` in .* has the type `int64`"),
    ],
)
def test_what_can_not_be_read_is_refused_by_name(tmp_path: Path, table: pa.Table, message: str) -> None:
    with pytest.raises(InputError, match=message):
        opened(save_folder(tmp_path / "saved", [table]), tmp_path)


def test_seq_lengths_that_do_not_add_up_are_refused_when_the_row_is_read(tmp_path: Path) -> None:
    table = pa.table({"input_ids": [[1, 2, 3], [4, 5]], "seq_lengths": [[3], [1]]})
    source = opened(save_folder(tmp_path / "saved", [table]), tmp_path)
    assert read_rows(source, [0]) == [[1, 2, 3]]
    with pytest.raises(InputError, match=r"`seq_lengths` of row 1 .* add up to 1, but the row has 2 tokens"):
        read_rows(source, [0, 1])


@pytest.mark.parametrize(
    ("kind", "value"), [("int64", -100), ("int32", -1), ("uint32", 2**31), ("uint64", 2**63)]
)
def test_an_id_that_is_none_is_refused_with_its_row(tmp_path: Path, kind: str, value: int) -> None:
    rows = [[1, 2], [], [3, value, 4], [2**31 - 1]]
    table = table_of(rows, pa.list_(pa.type_for_alias(kind)))
    source = opened(save_folder(tmp_path / "saved", [table]), tmp_path)
    assert read_rows(source, [3, 0]) == [[2**31 - 1], [1, 2]]
    with pytest.raises(InputError, match=rf"row 2 of `.*saved` has the id `{value}`"):
        read_rows(source, [1, 3, 2])


def test_a_compressed_file_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    write_stream(path, table_of(ROWS), options=pa.ipc.IpcWriteOptions(compression="zstd"))
    with pytest.raises(InputError, match=r"is compressed"):
        opened(path, tmp_path)


def test_files_that_differ_are_refused(tmp_path: Path) -> None:
    folder = save_folder(tmp_path / "saved", [table_of(ROWS), table_of(ROWS, pa.list_(pa.int64()))])
    with pytest.raises(InputError, match=r"data-00001.* has columns of other types than .*data-00000"):
        opened(folder, tmp_path)


def test_missing_and_torn_files_are_named(tmp_path: Path) -> None:
    folder = save_folder(tmp_path / "saved", [table_of(ROWS), table_of(ROWS)])
    second = folder / "data-00001-of-00002.arrow"
    source = opened(folder, tmp_path)
    content = second.read_bytes()
    second.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"data-00001-of-00002.arrow` is not a whole Arrow IPC file"):
        opened(folder, tmp_path)
    with pytest.raises(InputError, match=r"data-00001-of-00002.arrow"):
        read_rows(source, [1059])
    second.unlink()
    with pytest.raises(InputError, match=r"no such file: `.*data-00001-of-00002.arrow`"):
        opened(folder, tmp_path)


@pytest.mark.parametrize("name", ["../data.arrow", "/etc/passwd", ".hidden", ""])
def test_a_state_can_not_name_files_outside_of_its_folder(tmp_path: Path, name: str) -> None:
    folder = save_folder(tmp_path / "saved", [table_of(ROWS)], _data_files=[{"filename": name}])
    with pytest.raises(InputError, match=r"which is not a file name"):
        opened(folder, tmp_path)


def test_paths_that_lead_nowhere_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such file or folder"):
        opened(tmp_path / "missing", tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        InputError, match=r"nothing to load in `.*empty`: no dataset, and no Parquet, Arrow or"
    ):
        opened(tmp_path / "empty", tmp_path)
    folder = save_folder(tmp_path / "saved", [table_of(ROWS)])
    (folder / "state.json").write_text("{")
    with pytest.raises(InputError, match=r"state.json` is not valid JSON"):
        opened(folder, tmp_path)


def test_checks_that_need_a_manifest_are_refused(tmp_path: Path) -> None:
    folder = save_folder(tmp_path / "saved", [table_of(ROWS)])
    with pytest.raises(ConfigError, match=r"`verify=True` needs checksums"):
        opened(folder, tmp_path, verify=True)
    with pytest.raises(ConfigError, match='`on_missing="skip"`'):
        opened(folder, tmp_path, on_missing="skip")


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_rows_of_any_table_are_those_of_its_lists(data: st.DataObject) -> None:
    lists = st.lists(st.lists(st.integers(0, 60_000), max_size=9), min_size=1, max_size=40)
    rows = data.draw(lists.filter(any))
    pieces = [data.draw(st.sampled_from([None, cut])) for cut in cut_rows(rows)]
    wanted = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=60))
    make = data.draw(st.sampled_from([pa.list_, pa.large_list]))
    columns = {
        "input_ids": pa.array(rows, make(pa.uint16())),
        "seq_lengths": pa.array(pieces, make(pa.int32())),
    }
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "a.arrow"
        write_stream(path, pa.table(columns), batch_rows=data.draw(st.integers(1, 20)))
        source = opened(path, Path(name), reading_bytes=data.draw(st.sampled_from([0, 200, 10**6])))
        assert read_rows(source, wanted) == [rows[row] for row in wanted]
        expected = [pieces[row] or ([len(rows[row])] if rows[row] else []) for row in wanted]
        assert read_pieces(source, wanted) == expected


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_damaged_file_is_an_error_or_reads_something_but_never_breaks(data: st.DataObject) -> None:
    """Any byte may be anything: numbers from a file are checked before they are used."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pieces = cut_rows(ROWS[:40])
        table = table_of(ROWS[:40], seq_lengths=pa.array(pieces, pa.list_(pa.int32())))
        write_stream(folder / "a.arrow", table, batch_rows=16)
        content = bytearray((folder / "a.arrow").read_bytes())
        for _ in range(data.draw(st.integers(1, 3))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        (folder / "a.arrow").write_bytes(content)
        try:
            source = opened(folder / "a.arrow", folder)
            read_rows(source, range(source.rows))
        except InputError as error:
            assert "a.arrow" in error.message
