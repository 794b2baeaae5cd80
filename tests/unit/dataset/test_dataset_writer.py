"""The Arrow shard on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from dataset_samples import Rows, write_dataset, write_shard
from hypothesis import given
from hypothesis import strategies as st

from krill.dataset import Layout, RowBatch, ShardInfo, ShardWriter, smallest_dtype
from krill.errors import StorageError
from peers import peer
from properties import tried

datasets = peer("datasets")


def test_the_smallest_type_holds_the_largest_id() -> None:
    sizes = [1, 256, 257, 65_536, 65_537, 2**32, 2**32 + 1]
    names = ["uint8", "uint8", "uint16", "uint16", "uint32", "uint32", "uint64"]
    assert [smallest_dtype(size) for size in sizes] == names


def test_a_batch_holds_a_mebibyte_of_tokens_and_at_least_one_row() -> None:
    assert Layout(2048, "uint16").rows_per_batch == 256
    assert Layout(2**21, "uint16").rows_per_batch == 1
    assert Layout(2048, "uint16") == Layout(2048, "uint16", 256)


def test_a_layout_survives_json() -> None:
    layout = Layout(77, "uint32", 5)
    assert Layout.from_json(layout.to_json()) == layout


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64", "int32", "int64"])
def test_hugging_face_opens_what_was_written(tmp_path: Path, dtype: str) -> None:
    rows = Rows(Layout(16, dtype, 4), 23)
    write_dataset(tmp_path, rows, rows_per_shard=10)
    dataset = datasets.load_from_disk(str(tmp_path))
    assert len(dataset) == 23
    assert str(dataset.features["input_ids"].feature.dtype) == dtype
    assert dataset.features["input_ids"].length == 16
    assert dataset.data.schema.field("input_ids").type == pa.list_(pa.from_numpy_dtype(dtype), 16)
    np.testing.assert_array_equal(np.array(dataset["input_ids"][:]), np.array(rows.input_ids))
    assert dataset["seq_lengths"][:] == [lengths.tolist() for lengths in rows.documents]
    tokens = dataset.with_format("numpy")[5]["input_ids"]
    np.testing.assert_array_equal(tokens, rows.input_ids[5])


def test_hugging_face_opens_a_dataset_without_rows(tmp_path: Path) -> None:
    write_dataset(tmp_path, Rows(Layout(16, "uint16", 4), 0), rows_per_shard=10)
    assert len(datasets.load_from_disk(str(tmp_path))) == 0


def test_hugging_face_can_save_it_again(tmp_path: Path) -> None:
    rows = Rows(Layout(16, "uint16", 4), 9)
    (tmp_path / "ours").mkdir()
    write_dataset(tmp_path / "ours", rows, rows_per_shard=10)
    datasets.load_from_disk(str(tmp_path / "ours")).save_to_disk(str(tmp_path / "theirs"))
    again = datasets.load_from_disk(str(tmp_path / "theirs"))
    np.testing.assert_array_equal(np.array(again["input_ids"][:]), np.array(rows.input_ids))


def test_two_writes_give_equal_folders(tmp_path: Path) -> None:
    contents = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        write_dataset(folder, Rows(Layout(16, "uint16", 4), 23), rows_per_shard=10)
        contents.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert contents[0] == contents[1]
    assert sorted(contents[0]) == [
        "data-00000.arrow",
        "data-00001.arrow",
        "data-00002.arrow",
        "dataset_info.json",
        "krill-run.json",
        "state.json",
    ]


def test_the_fingerprint_follows_the_content(tmp_path: Path) -> None:
    fingerprints = set()
    for seed in (0, 1):
        folder = tmp_path / str(seed)
        folder.mkdir()
        write_dataset(folder, Rows(Layout(16, "uint16", 4), 5, seed=seed), rows_per_shard=10)
        fingerprints.add(datasets.load_from_disk(str(folder))._fingerprint)
    assert len(fingerprints) == 2


@tried(50)
@given(count=st.integers(0, 40), step=st.integers(1, 45), per_batch=st.integers(1, 12))
def test_the_bytes_do_not_depend_on_the_calls(
    tmp_path_factory: pytest.TempPathFactory, count: int, step: int, per_batch: int
) -> None:
    folder = tmp_path_factory.mktemp("calls")
    rows = Rows(Layout(8, "uint16", per_batch), count)
    at_once = write_shard(folder / "data.arrow", rows, step=max(1, count))
    content = (folder / "data.arrow").read_bytes()
    in_steps = write_shard(folder / "data.arrow", rows, step=step)
    assert in_steps == at_once
    assert (folder / "data.arrow").read_bytes() == content


@tried(50)
@given(count=st.integers(0, 40), per_batch=st.integers(1, 12))
def test_each_offset_is_the_beginning_of_its_batch(
    tmp_path_factory: pytest.TempPathFactory, count: int, per_batch: int
) -> None:
    path = tmp_path_factory.mktemp("offsets") / "data.arrow"
    rows = Rows(Layout(8, "uint16", per_batch), count)
    shard = write_shard(path, rows)
    content = path.read_bytes()
    assert len(shard.batches) == -(-count // per_batch)
    for number, offset in enumerate(shard.batches):
        message = pa.ipc.read_message(pa.py_buffer(content[offset:]))
        batch = pa.ipc.read_record_batch(message, rows.layout.schema)
        expected = rows.input_ids[number * per_batch : (number + 1) * per_batch]
        assert batch.num_rows == len(expected)
        assert batch.column("input_ids").to_pylist() == [row.tolist() for row in expected]


def test_the_info_describes_the_file(tmp_path: Path) -> None:
    shard = write_shard(tmp_path / "data-00000.arrow", Rows(Layout(8, "uint16", 4), 10))
    content = (tmp_path / "data-00000.arrow").read_bytes()
    assert (shard.file, shard.rows, shard.bytes) == ("data-00000.arrow", 10, len(content))
    assert shard.sha256 == hashlib.sha256(content).hexdigest()
    assert ShardInfo.from_json(shard.to_json()) == shard


def test_slices_of_larger_arrays_are_written_as_they_are(tmp_path: Path) -> None:
    rows = Rows(Layout(8, "uint16", 4), 12)
    with ShardWriter(tmp_path / "slice.arrow", rows.layout) as writer:
        writer.write(rows.batch(0, 12).slice(3, 9))
    direct = write_shard(tmp_path / "direct.arrow", rows, 3, 9)
    assert writer.close().sha256 == direct.sha256


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: replace(rows, tokens=rows.tokens.astype("uint32")), "tokens must be flat uint16"),
        (lambda rows: replace(rows, offsets=rows.offsets * 9), "row must have"),
        (lambda rows: replace(rows, seq_offsets=rows.seq_offsets[:-1]), "one int32 offset more"),
        (lambda rows: replace(rows, seq_lengths=rows.seq_lengths + 1), "seq_lengths add up to"),
    ],
)
def test_rows_of_another_shape_are_refused(
    tmp_path: Path, change: Callable[[RowBatch], RowBatch], message: str, fixed: bool
) -> None:
    rows = Rows(Layout(8, "uint16", 4, fixed), 3)
    with (
        pytest.raises(ValueError, match=message),
        ShardWriter(tmp_path / "data.arrow", rows.layout) as writer,
    ):
        writer.write(change(rows.batch(0, 3)))
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_when_the_body_raises(tmp_path: Path) -> None:
    rows = Rows(Layout(8, "uint16", 4), 9)
    with pytest.raises(RuntimeError), ShardWriter(tmp_path / "data.arrow", rows.layout) as writer:
        writer.write(rows.batch(0, 9))
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_the_name_appears_only_with_the_whole_file(tmp_path: Path) -> None:
    rows = Rows(Layout(8, "uint16", 4), 9)
    (tmp_path / "data.arrow").write_text("earlier")
    with ShardWriter(tmp_path / "data.arrow", rows.layout) as writer:
        writer.write(rows.batch(0, 9))
        assert (tmp_path / "data.arrow").read_text() == "earlier"
    assert len((tmp_path / "data.arrow").read_bytes()) == writer.close().bytes


def test_a_missing_folder_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="the folder does not exist") as caught:
        ShardWriter(tmp_path / "absent" / "data.arrow", Layout(8, "uint16"))
    assert caught.value.hint == "create the folder, or choose another one"
