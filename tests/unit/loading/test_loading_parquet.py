"""Parquet with a column of ids: rows in any order, each row group decoded once."""

from __future__ import annotations

import os
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from saved_rows import cut_rows, opened, random_rows, read_pieces, read_rows

from krill.errors import BudgetError, InputError, StorageError

ROWS = random_rows(530)
SOME = [529, 0, 17, 17, 18, 19, 250, 3, 400, 99, 100]


def write(path: Path, rows: list[list[int]], kind: pa.DataType | None = None, **options: object) -> Path:
    table = pa.table({"text": ["x"] * len(rows), "input_ids": pa.array(rows, kind or pa.list_(pa.int32()))})
    pq.write_table(table, path, **({"row_group_size": 100} | options))
    return path


def cached_files(cache: Path) -> list[Path]:
    return sorted(path for path in cache.rglob("*") if path.is_file() and path.name != "krill-cache.lock")


@pytest.mark.parametrize("kind", [pa.list_(pa.uint16()), pa.large_list(pa.int64()), pa.list_(pa.int32())])
def test_rows_are_read_in_the_order_asked_for(tmp_path: Path, kind: pa.DataType) -> None:
    source = opened(write(tmp_path / "a.parquet", ROWS, kind), tmp_path / "cache")
    assert (source.rows, source.width, source.fixed) == (530, max(map(len, ROWS)), False)
    assert (source.dtype, source.block_rows) == (np.dtype(str(kind.value_type)), 100)
    assert read_rows(source, SOME) == [ROWS[row] for row in SOME]
    assert read_rows(source, range(530)) == ROWS
    assert read_pieces(source, SOME) == [[len(ROWS[row])] if ROWS[row] else [] for row in SOME]


def test_a_folder_and_a_glob_are_all_their_files_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(3):
        write(folder / f"part-{number}.parquet", ROWS[number * 200 : number * 200 + 200])
    for path in (folder, f"{folder}/*.parquet"):
        assert read_rows(opened(path, tmp_path / "cache"), range(530)) == ROWS
    with pytest.raises(InputError, match=r"no split `test` in `.*`; there are: `train`"):
        opened(folder, tmp_path / "cache", split="test")


def test_files_that_are_named_after_splits_belong_to_them(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder / "validation-0.parquet", ROWS[:7])
    for number in range(2):
        write(folder / f"train-{number}.parquet", ROWS[number * 9 : number * 9 + 9])
    assert read_rows(opened(folder, tmp_path / "cache", split="validation"), range(7)) == ROWS[:7]
    assert read_rows(opened(folder, tmp_path / "cache"), range(18)) == ROWS[:18]
    with pytest.raises(InputError, match=r"no split `test` in `.*`; there are: `train`, `validation`"):
        opened(folder, tmp_path / "cache", split="test")


def test_seq_lengths_say_where_documents_begin(tmp_path: Path) -> None:
    pieces = [None if number % 5 == 0 else cut for number, cut in enumerate(cut_rows(ROWS))]
    table = pa.table({"input_ids": ROWS, "seq_lengths": pa.array(pieces, pa.list_(pa.int64()))})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=64)
    source = opened(tmp_path / "a.parquet", tmp_path / "cache")
    expected = [
        [len(row)] if cut is None and row else cut or [] for row, cut in zip(ROWS, pieces, strict=True)
    ]
    assert read_pieces(source, range(530)) == expected
    assert read_rows(source, range(530)) == ROWS


def test_rows_of_one_width_are_fixed_and_only_the_outer_groups_are_read_to_see_it(tmp_path: Path) -> None:
    rows = random_rows(530, longest=12, shortest=12)
    source = opened(write(tmp_path / "a.parquet", rows), tmp_path / "cache")
    assert (source.width, source.fixed) == (12, True)
    assert [path.name for path in cached_files(tmp_path / "cache")] == ["rows-00000", "rows-00005"]
    assert read_rows(source, SOME) == [rows[row] for row in SOME]
    fixed = write(tmp_path / "b.parquet", rows, pa.list_(pa.int32(), 12))
    source = opened(fixed, tmp_path / "other")
    assert (source.width, source.fixed, cached_files(tmp_path / "other")) == (12, True, [])
    assert read_rows(source, SOME) == [rows[row] for row in SOME]


def test_rows_that_only_look_equally_long_are_not_taken_for_it(tmp_path: Path) -> None:
    source = opened(write(tmp_path / "a.parquet", [[1], [2, 3, 4], [5, 6]]), tmp_path / "cache")
    assert (source.width, source.fixed) == (3, False)
    odd = [[1, 2]] * 100 + [[1], [1, 2, 3]] * 50 + [[1, 2]] * 100
    source = opened(write(tmp_path / "b.parquet", odd), tmp_path / "cache")
    assert read_rows(source, [0, 250]) == [[1, 2], [1, 2]]
    with pytest.raises(InputError, match=r"rows of `.*b.parquet` vary in length"):
        read_rows(source, [100])


def test_each_row_group_is_decoded_once_whoever_reads_it(tmp_path: Path) -> None:
    path, cache = write(tmp_path / "a.parquet", ROWS), tmp_path / "cache"
    source = opened(path, cache)
    assert read_rows(source, SOME) == [ROWS[row] for row in SOME]
    made = {file: file.stat().st_ino for file in cached_files(cache)}
    assert len(made) == 6
    again = pickle.loads(pickle.dumps(source))
    assert read_rows(again, range(530)) == ROWS
    assert read_rows(opened(path, cache), SOME) == [ROWS[row] for row in SOME]
    assert {file: file.stat().st_ino for file in cached_files(cache)} == made


def test_a_file_that_was_written_anew_is_decoded_anew(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", ROWS)
    before = opened(path, tmp_path / "cache")
    assert read_rows(before, [0]) == [ROWS[0]]
    after = opened(write(path, ROWS[::-1]), tmp_path / "cache")
    assert read_rows(after, [0]) == [ROWS[-1]]
    assert after.fingerprint != before.fingerprint


def test_the_cache_keeps_to_its_size_and_rows_stay_the_same(tmp_path: Path) -> None:
    path, cache = write(tmp_path / "a.parquet", ROWS), tmp_path / "cache"
    limit = 25_000  # of about 55,000 bytes that all row groups take
    source = opened(path, cache, cache_size=limit)
    for row in [*SOME, *SOME[::-1]]:
        assert read_rows(source, [row]) == [ROWS[row]]
        assert sum(file.stat().st_size for file in cached_files(cache)) <= limit


def test_a_row_group_that_the_cache_can_not_hold_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", ROWS)
    with pytest.raises(BudgetError, match=r"may hold 5.00 kB, and `rows-00000` alone takes") as error:
        opened(path, tmp_path / "cache", cache_size=5_000)
    assert "cache_size=" in str(error.value.hint)
    assert cached_files(tmp_path / "cache") == []


@pytest.mark.skipif(os.geteuid() == 0, reason="everything may be written by this user")
def test_a_cache_that_can_not_be_written_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir(mode=0o500)
    with pytest.raises(StorageError, match=r"cannot write .*permission denied"):
        opened(write(tmp_path / "a.parquet", ROWS), tmp_path / "cache")


def test_a_cache_in_the_place_of_a_file_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    with pytest.raises(StorageError, match=r"cannot write `.*cache`"):
        opened(write(tmp_path / "a.parquet", ROWS), tmp_path / "cache")


def test_what_a_killed_process_left_half_written_is_removed(tmp_path: Path) -> None:
    path, cache = write(tmp_path / "a.parquet", ROWS), tmp_path / "cache"
    opened(path, cache)
    made = cached_files(cache)[0]
    leftover = made.with_name(f".{made.name}.0000.krill-tmp")
    leftover.write_bytes(b"half")
    made.unlink()
    assert read_rows(opened(path, cache), [0]) == [ROWS[0]]
    assert not leftover.exists()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"text": ["a"]}), r"no column `input_ids` in .*; there are: `text`"),
        (pa.table({"input_ids": ["a"]}), r"has the type `string`"),
        (pa.table({"input_ids": pa.array([[1], None], pa.list_(pa.int32()))}), r"has nulls"),
        (pa.table({"input_ids": pa.array([[1, None]], pa.list_(pa.int32()))}), r"has nulls"),
        (pa.table({"input_ids": pa.array([], pa.list_(pa.int32()))}), r"has no rows"),
        (pa.table({"input_ids": pa.array([[], []], pa.list_(pa.int32()))}), r"are empty"),
    ],
)
def test_what_can_not_be_read_is_refused_by_name(tmp_path: Path, table: pa.Table, message: str) -> None:
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(InputError, match=message):
        opened(tmp_path / "a.parquet", tmp_path / "cache")


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_damaged_file_is_an_error_or_reads_something_but_never_breaks(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = write(Path(name) / "a.parquet", ROWS[:30], row_group_size=8)
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 3))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content[: data.draw(st.sampled_from([len(content), len(content) // 2]))])
        try:
            source = opened(path, Path(name) / "cache")
            read_rows(source, range(source.rows))
        except InputError as error:
            assert "a.parquet" in error.message
