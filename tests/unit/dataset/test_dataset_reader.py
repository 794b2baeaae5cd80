"""Rows by number."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from dataset_samples import Rows, write_dataset, write_text
from hypothesis import given
from hypothesis import strategies as st

from krill.dataset import Dataset, Layout
from krill.errors import InputError
from properties import tried


def assert_rows(found: dict[str, Any], rows: Rows, chosen: list[int]) -> None:
    assert isinstance(found["input_ids"], np.ndarray if rows.layout.fixed else list)
    assert [ids.tolist() for ids in found["input_ids"]] == [rows.input_ids[row].tolist() for row in chosen]
    assert {ids.dtype for ids in found["input_ids"]} <= {rows.layout.dtype}
    assert [lengths.tolist() for lengths in found["seq_lengths"]] == [
        rows.documents[row].tolist() for row in chosen
    ]


@tried(25)
@given(
    count=st.integers(1, 60),
    per_batch=st.integers(1, 9),
    per_shard=st.integers(5, 30),
    length=st.integers(1, 9),
    fixed=st.booleans(),
    data=st.data(),
)
def test_any_choice_of_rows_equals_what_was_written(
    tmp_path_factory: pytest.TempPathFactory,
    count: int,
    per_batch: int,
    per_shard: int,
    length: int,
    fixed: bool,
    data: st.DataObject,
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    rows = Rows(Layout(length, "uint16", per_batch, fixed), count)
    write_dataset(folder, rows, per_shard)
    with Dataset(folder, cache_bytes=data.draw(st.sampled_from([0, 100, 8_000_000]))) as dataset:
        assert len(dataset) == count
        for row in range(-count, count):
            found = dataset[row]
            np.testing.assert_array_equal(found["input_ids"], rows.input_ids[row])
            assert found["seq_lengths"].tolist() == rows.documents[row].tolist()
        chosen = data.draw(st.lists(st.integers(-count, count - 1), max_size=20))
        assert_rows(dataset[chosen], rows, [row % count for row in chosen])
        assert_rows(dataset[np.array(chosen, dtype=np.int32)], rows, [row % count for row in chosen])
        cut = data.draw(st.slices(count))
        assert_rows(dataset[cut], rows, list(range(count))[cut])


@tried(25)
@given(
    count=st.integers(0, 60),
    per_batch=st.integers(1, 9),
    per_shard=st.integers(5, 30),
    fixed=st.booleans(),
    data=st.data(),
)
def test_batches_hold_every_row_from_any_start(
    tmp_path_factory: pytest.TempPathFactory,
    count: int,
    per_batch: int,
    per_shard: int,
    fixed: bool,
    data: st.DataObject,
) -> None:
    folder = tmp_path_factory.mktemp("batches")
    rows = Rows(Layout(7, "uint16", per_batch, fixed), count)
    write_dataset(folder, rows, per_shard)
    start = data.draw(st.integers(0, count))
    input_ids, documents = [], []
    for batch in Dataset(folder).batches(start):
        assert 1 <= batch.rows <= per_batch
        assert (batch.offsets[0], batch.seq_offsets[0]) == (0, 0)
        assert (batch.offsets[-1], batch.seq_offsets[-1]) == (len(batch.tokens), len(batch.seq_lengths))
        assert (batch.offsets.dtype, batch.seq_offsets.dtype) == (np.int64, np.int32)
        input_ids += [ids.tolist() for ids in np.split(batch.tokens, batch.offsets[1:-1])]
        documents += [lengths.tolist() for lengths in np.split(batch.seq_lengths, batch.seq_offsets[1:-1])]
    assert input_ids == [ids.tolist() for ids in rows.input_ids[start:]]
    assert documents == [lengths.tolist() for lengths in rows.documents[start:]]


@tried(20)
@given(count=st.integers(1, 60), per_batch=st.integers(1, 9), length=st.integers(1, 40), fixed=st.booleans())
def test_what_is_read_equals_what_pyarrow_decodes_with_tokens_and_without(
    tmp_path_factory: pytest.TempPathFactory, count: int, per_batch: int, length: int, fixed: bool
) -> None:
    folder = tmp_path_factory.mktemp("decoded")
    rows = Rows(Layout(length, "uint8", per_batch, fixed), count)
    (shard,) = write_dataset(folder, rows, count).dataset.shards  # type: ignore[union-attr]
    dataset = Dataset(folder)
    stream = pa.ipc.open_stream((folder / shard.file).read_bytes())
    for decoded, (first, end) in zip(stream, dataset.batch_ranges(), strict=True):
        tokens, documents = decoded.column("input_ids"), decoded.column("seq_lengths")
        for with_tokens in (True, False):
            found = dataset.reader.read(np.arange(first, end), with_tokens=with_tokens)
            assert found.tokens.tolist() == (tokens.flatten().to_pylist() if with_tokens else [])
            assert np.diff(found.offsets).tolist() == [len(ids) for ids in tokens]
            assert np.diff(found.seq_offsets).tolist() == [len(lengths) for lengths in documents]
            assert found.seq_lengths.tolist() == documents.flatten().to_pylist()


def test_results_belong_to_the_caller(tmp_path: Path) -> None:
    rows = Rows(Layout(8, "uint16", 4), 10)
    write_dataset(tmp_path, rows, 10)
    dataset = Dataset(tmp_path)
    for values in dataset[3].values():
        values[:] = 0
    assert_rows(dataset[3:4], rows, [3])


def test_iterating_gives_every_row_once(tmp_path: Path) -> None:
    rows = Rows(Layout(8, "uint16", 4), 21)
    write_dataset(tmp_path, rows, 10)
    found = [row["input_ids"] for row in Dataset(tmp_path)]
    np.testing.assert_array_equal(np.stack(found), np.stack(rows.input_ids))


def test_opening_reads_the_manifest_only(tmp_path: Path) -> None:
    rows = Rows(Layout(8, "uint16", 4), 21)
    write_dataset(tmp_path, rows, 10)
    (tmp_path / "data-00002.arrow").unlink()
    dataset = Dataset(tmp_path)
    assert_rows(dataset[:20], rows, list(range(20)))
    with pytest.raises(InputError, match=r"data-00002\.arrow` is missing, but the manifest names it"):
        dataset[20]


def test_the_cache_stays_inside_its_bytes(tmp_path: Path) -> None:
    rows = Rows(Layout(8, "uint16", 1), 200)
    write_dataset(tmp_path, rows, 200)
    dataset = Dataset(tmp_path, cache_bytes=2000)
    for row in range(200):
        dataset[row]
        assert dataset.reader.native().cached_bytes <= 2000
    assert dataset.reader.native().cached_bytes > 1000


def test_a_record_batch_is_read_without_a_cache(tmp_path: Path) -> None:
    rows = Rows(Layout(8, "uint16", 4), 30)
    write_dataset(tmp_path, rows, 30)
    dataset = Dataset(tmp_path, cache_bytes=0)
    assert_rows(dataset[:], rows, list(range(30)))
    assert dataset.reader.native().cached_bytes == 0


def test_more_shards_than_open_files(tmp_path: Path) -> None:
    rows = Rows(Layout(2, "uint16", 1), 300)
    write_dataset(tmp_path, rows, 1)
    before = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0
    dataset = Dataset(tmp_path)
    assert_rows(dataset[:], rows, list(range(300)))
    assert_rows(dataset[::-1], rows, list(range(299, -1, -1)))
    if before:
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 256


def test_a_pipe_in_place_of_a_shard_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    write_dataset(tmp_path, Rows(Layout(8, "uint16", 4), 10), 10)
    (tmp_path / "data-00000.arrow").unlink()
    os.mkfifo(tmp_path / "data-00000.arrow")
    with pytest.raises(InputError, match=r"data-00000\.arrow` cannot be read: it is not a regular file"):
        Dataset(tmp_path)[0]


def test_threads_read_the_same_rows(tmp_path: Path) -> None:
    rows = Rows(Layout(8, "uint16", 4), 200)
    write_dataset(tmp_path, rows, 11)
    dataset = Dataset(tmp_path, cache_bytes=300)
    order = np.random.default_rng(0).integers(0, 200, 800).tolist()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda row: dataset[row]["input_ids"], order))
    np.testing.assert_array_equal(np.stack(found), np.stack(rows.input_ids)[order])


@pytest.mark.parametrize("row", [10, -11, [0, 10], [-11], np.int64(10)])
def test_rows_outside_are_index_errors(tmp_path: Path, row: Any) -> None:
    write_dataset(tmp_path, Rows(Layout(8, "uint16", 4), 10), 10)
    with pytest.raises(IndexError, match=r"row -?1[01] is out of range: .* has 10 rows"):
        Dataset(tmp_path)[row]


@pytest.mark.parametrize("key", ["input_ids", [0.5], np.array([True, False]), [[1, 2]], None])
def test_other_keys_are_type_errors(tmp_path: Path, key: Any) -> None:
    write_dataset(tmp_path, Rows(Layout(8, "uint16", 4), 10), 10)
    with pytest.raises(TypeError):
        Dataset(tmp_path)[key]


def test_no_rows_at_all(tmp_path: Path) -> None:
    write_dataset(tmp_path, Rows(Layout(8, "uint16", 4), 0), 10)
    dataset = Dataset(tmp_path)
    assert list(dataset.batches()) == []
    assert len(dataset) == 0
    assert dataset[:]["input_ids"].shape == (0, 8)
    assert dataset[[]]["seq_lengths"] == []


def test_a_truncated_shard_is_named(tmp_path: Path) -> None:
    write_dataset(tmp_path, Rows(Layout(8, "uint16", 4), 10), 10)
    path = tmp_path / "data-00000.arrow"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(
        InputError, match=r"data-00000\.arrow` is truncated: it has \d+ bytes, and the manifest"
    ):
        Dataset(tmp_path)[0]


@pytest.mark.parametrize("fixed", [True, False])
def test_a_damaged_header_is_an_input_error_or_harmless(tmp_path: Path, fixed: bool) -> None:
    """Every byte of a batch's header, set to each of a few values."""
    rows = Rows(Layout(8, "uint16", 4, fixed), 8)
    (shard,) = write_dataset(tmp_path, rows, 8).dataset.shards  # type: ignore[union-attr]
    path = tmp_path / shard.file
    content = path.read_bytes()
    start = shard.batches[1]
    refused = 0
    for at in range(start, start + 288):
        for value in (0x01, 0xFF):
            path.write_bytes(content[:at] + bytes([value]) + content[at + 1 :])
            try:
                found = Dataset(tmp_path)[4:8]
            except InputError as error:
                assert "is damaged at record batch 1" in error.message
                refused += 1
            else:
                assert len(found["input_ids"]) == 4
    assert refused > 100


def test_a_folder_of_documents_has_no_rows_to_read(tmp_path: Path) -> None:
    write_text(tmp_path, [["a document"]])
    with pytest.raises(InputError, match="holds documents but no token rows"):
        Dataset(tmp_path)
