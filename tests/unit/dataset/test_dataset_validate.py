"""`krill validate`: every fault is found and named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dataset_samples import VOCAB_SIZE, Rows, save_manifest, write_dataset, write_text

from krill.dataset import (
    DatasetPart,
    Layout,
    Manifest,
    Report,
    ShardInfo,
    TextPart,
    validate,
    write_dataset_parts,
)
from krill.dataset.shard import HashingFile
from krill.errors import InputError

LAYOUT = Layout(8, "uint16", 4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_dataset(tmp_path, Rows(LAYOUT, 21), 10)
    return tmp_path


def fault(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        validate(folder)
    assert caught.value.exit_code == 3
    return caught.value.message


def test_a_whole_dataset_passes(folder: Path) -> None:
    size = sum(path.stat().st_size for path in folder.glob("*.arrow"))
    assert validate(folder) == Report(files=3, bytes=size, rows=21, tokens=168, documents=0)


def test_whole_documents_pass(tmp_path: Path) -> None:
    write_text(tmp_path, [["a", "b"], ["\U0001f980"]])
    size = sum(path.stat().st_size for path in tmp_path.glob("*.parquet"))
    assert validate(tmp_path) == Report(files=2, bytes=size, rows=0, tokens=0, documents=3)


def test_a_dataset_without_rows_passes(tmp_path: Path) -> None:
    write_dataset(tmp_path, Rows(LAYOUT, 0), 10)
    assert validate(tmp_path).rows == 0


def test_a_folder_that_is_not_ours_is_named(tmp_path: Path) -> None:
    assert "is not a finished Krill output" in fault(tmp_path)


def test_a_missing_shard_is_named(folder: Path) -> None:
    (folder / "data-00001.arrow").unlink()
    assert fault(folder) == f"`{folder}/data-00001.arrow` is missing, but the manifest names it"


@pytest.mark.parametrize(("change", "state"), [(-1, "truncated"), (-300, "truncated"), (1, "too long")])
def test_a_shard_of_another_size_is_named(folder: Path, change: int, state: str) -> None:
    path = folder / "data-00001.arrow"
    content = path.read_bytes()
    path.write_bytes(content[:change] if change < 0 else content + b"\0" * change)
    expected = (
        f"`{path}` is {state}: it has {len(content) + change} bytes, and the manifest says {len(content)}"
    )
    assert fault(folder) == expected


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.soak)])
def test_a_flipped_bit_in_any_byte_is_found(tmp_path: Path, step: int) -> None:
    write_dataset(tmp_path, Rows(LAYOUT, 5), 5)
    path = tmp_path / "data-00000.arrow"
    content = path.read_bytes()
    for at in range(0, len(content), step):
        path.write_bytes(content[:at] + bytes([content[at] ^ (1 << at % 8)]) + content[at + 1 :])
        assert f"`{path}` " in fault(tmp_path)


def test_a_flipped_token_inside_the_vocabulary_fails_the_checksum(folder: Path) -> None:
    path = folder / "data-00001.arrow"
    shard = Manifest.load(folder).dataset.shards[1]  # type: ignore[union-attr]
    content = bytearray(path.read_bytes())
    at = content.index(Rows(LAYOUT, 21).input_ids[10].tobytes())
    content[at] ^= 1
    path.write_bytes(content)
    assert f"`{path}` has the checksum " in (message := fault(folder))
    assert message.endswith(f"and the manifest says {shard.sha256[:16]}...")


def write_consistent(
    folder: Path, change: Callable[[int, pa.RecordBatch], pa.RecordBatch], schema: pa.Schema = LAYOUT.schema
) -> None:
    """Replace the first shard by a changed one whose size, offsets and checksum are right."""
    dataset = Manifest.load(folder).dataset
    assert dataset is not None
    path = folder / "data-00000.arrow"
    batches = list(pa.ipc.open_stream(path.read_bytes()))
    file = HashingFile(path)
    offsets = []
    with pa.ipc.new_stream(file, schema) as stream:
        for number, batch in enumerate(batches):
            offsets.append(file.tell() or schema.serialize().size)
            stream.write_batch(change(number, batch))
    shard = file.commit(10, tuple(offsets))
    shards = (shard, *dataset.shards[1:])
    part = DatasetPart(LAYOUT, shards)
    write_dataset_parts(folder, [part])
    save_manifest(folder, dataset=part)


def columns(ids: np.ndarray, lengths: list[list[int]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.FixedSizeListArray.from_arrays(pa.array(ids.reshape(-1)), 8),
            pa.array(lengths, pa.list_(pa.int32())),
        ],
        schema=LAYOUT.schema,
    )


def tokens_of(batch: pa.RecordBatch) -> np.ndarray:
    return np.array(batch.column("input_ids").to_pylist(), dtype=np.uint16)


def test_a_token_outside_the_vocabulary_is_named_with_its_row(folder: Path) -> None:
    def change(number: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        ids = tokens_of(batch)
        if number == 1:
            ids[2, 5] = VOCAB_SIZE
        return columns(ids, batch.column("seq_lengths").to_pylist())

    write_consistent(folder, change)
    expected = f"`{folder}/data-00000.arrow` row 6 has token id 200, outside a vocabulary of 200"
    assert fault(folder) == expected


@pytest.mark.parametrize(
    ("lengths", "problem"),
    [
        ([3, 4], "row 6 has 8 tokens, but its `seq_lengths` add up to 7"),
        ([], "row 6 has 8 tokens, but its `seq_lengths` add up to 0"),
        ([8, 0], "row 6 has a document of length 0 in `seq_lengths`"),
        ([9, -1], "row 6 has a document of length -1 in `seq_lengths`"),
    ],
)
def test_wrong_lengths_are_named_with_their_row(folder: Path, lengths: list[int], problem: str) -> None:
    def change(number: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        found = batch.column("seq_lengths").to_pylist()
        if number == 1:
            found[2] = lengths
        return columns(tokens_of(batch), found)

    write_consistent(folder, change)
    assert fault(folder) == f"`{folder}/data-00000.arrow` {problem}"


def test_a_batch_with_too_few_rows_is_named(folder: Path) -> None:
    write_consistent(folder, lambda number, batch: batch.slice(0, 3) if number == 1 else batch)
    assert fault(folder) == f"`{folder}/data-00000.arrow` has 3 rows in the record batch of row 4, not 4"


def test_a_null_is_named(folder: Path) -> None:
    def change(number: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        found = batch.column("seq_lengths").to_pylist()
        return columns(tokens_of(batch), [None, *found[1:]])

    write_consistent(folder, change)
    assert fault(folder) == f"`{folder}/data-00000.arrow` has a null in the record batch of row 0"


def test_another_schema_is_named(folder: Path) -> None:
    schema = pa.schema([("input_ids", pa.list_(pa.uint16(), 8)), ("lengths", pa.list_(pa.int32()))])
    write_consistent(folder, lambda number, batch: batch.rename_columns(schema.names).cast(schema), schema)
    assert "has another schema than the manifest: `input_ids: fixed_size_list" in fault(folder)


@pytest.mark.parametrize("name", ["state.json", "dataset_info.json"])
def test_changed_dataset_files_are_named(folder: Path, name: str) -> None:
    content = orjson.loads((folder / name).read_bytes())
    (folder / name).write_bytes(orjson.dumps(content | {"_split": "train"}))
    assert fault(folder) == f"`{folder}/{name}` differs from what the manifest describes"
    (folder / name).unlink()
    assert fault(folder) == f"`{folder}/{name}` is missing, but the manifest names it"


def test_a_flipped_bit_in_text_fails_the_checksum(tmp_path: Path) -> None:
    write_text(tmp_path, [["a document"]])
    path = tmp_path / "text-00000.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert f"`{path}` has the checksum " in fault(tmp_path)


def describe(path: Path, rows: int) -> ShardInfo:
    """What a writer would have said of this file."""
    file = HashingFile(path.with_suffix(".copy"))
    file.write(path.read_bytes())
    shard = file.commit(rows)
    path.with_suffix(".copy").unlink()
    return replace(shard, file=path.name)


def save_text(folder: Path, table: pa.Table, rows: int) -> Path:
    path = folder / "text-00000.parquet"
    pq.write_table(table, path)
    save_manifest(folder, text=TextPart((describe(path, rows),)))
    return path


def test_invalid_utf8_is_named_with_its_row(tmp_path: Path) -> None:
    binary = pa.array([b"fine", b"\xff", b"fine"], pa.large_binary())
    table = pa.table({"text": pa.LargeStringArray.from_buffers(3, *binary.buffers()[1:])})
    path = save_text(tmp_path, table, 3)
    assert fault(tmp_path).startswith(f"`{path}` row 1: ")
    assert "UTF8" in fault(tmp_path)


def test_a_wrong_number_of_documents_is_named(tmp_path: Path) -> None:
    path = save_text(tmp_path, pa.table({"text": ["a", "b"]}), 3)
    assert fault(tmp_path) == f"`{path}` has 2 rows, and the manifest says 3"


def test_documents_without_text_are_named(tmp_path: Path) -> None:
    path = save_text(tmp_path, pa.table({"words": ["a", "b"]}), 2)
    assert fault(tmp_path) == f"`{path}` has no column `text` of strings"


def test_what_is_not_parquet_is_named(tmp_path: Path) -> None:
    path = tmp_path / "text-00000.parquet"
    path.write_bytes(b"not a table")
    save_manifest(tmp_path, text=TextPart((describe(path, 1),)))
    assert fault(tmp_path).startswith(f"`{path}` cannot be decoded: ")
