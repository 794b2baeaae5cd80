"""Rows of any length on disk: written, opened by others, checked, described."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from dataset_samples import VOCAB_SIZE, Rows, save_manifest, write_dataset, write_shard
from hypothesis import given
from hypothesis import strategies as st

from krill.dataset import (
    MANIFEST_NAME,
    Dataset,
    DatasetPart,
    Layout,
    Manifest,
    SourceRows,
    inspect,
    validate,
    write_dataset_parts,
)
from krill.dataset.shard import HashingFile
from krill.errors import InputError
from properties import tried

LAYOUT = Layout(8, "uint16", 4, fixed=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_dataset(tmp_path, Rows(LAYOUT, 21), 10)
    return tmp_path


def fault(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        validate(folder)
    return caught.value.message


def test_a_layout_of_variable_rows_survives_json() -> None:
    assert Layout.from_json(LAYOUT.to_json()) == LAYOUT
    assert LAYOUT.to_json()["fixed"] is False
    assert "fixed" not in Layout(8, "uint16", 4).to_json()


def test_a_batch_beyond_what_arrow_counts_is_refused() -> None:
    with pytest.raises(ValueError, match="longer than Arrow can count"):
        Layout(2**30, "uint16", 2, fixed=False)
    content = LAYOUT.to_json() | {"sequence_len": 2**30}
    with pytest.raises(InputError, match="`rows_per_batch` must be between 1 and 1"):
        Layout.from_json(content)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "int32"])
def test_hugging_face_opens_rows_of_any_length(tmp_path: Path, dtype: str) -> None:
    datasets = pytest.importorskip("datasets")
    rows = Rows(Layout(16, dtype, 4, fixed=False), 23)
    write_dataset(tmp_path, rows, rows_per_shard=10)
    dataset = datasets.load_from_disk(str(tmp_path))
    assert dataset.data.schema.field("input_ids").type == pa.list_(pa.from_numpy_dtype(dtype))
    assert dataset["input_ids"][:] == [ids.tolist() for ids in rows.input_ids]
    assert dataset["seq_lengths"][:] == [lengths.tolist() for lengths in rows.documents]


@tried(30)
@given(count=st.integers(0, 40), step=st.integers(1, 45), per_batch=st.integers(1, 12))
def test_the_bytes_do_not_depend_on_the_calls(
    tmp_path_factory: pytest.TempPathFactory, count: int, step: int, per_batch: int
) -> None:
    path = tmp_path_factory.mktemp("calls") / "data.arrow"
    rows = Rows(Layout(8, "uint16", per_batch, fixed=False), count)
    at_once = write_shard(path, rows, step=max(1, count))
    content = path.read_bytes()
    assert write_shard(path, rows, step=step) == at_once
    assert path.read_bytes() == content
    assert at_once.tokens == sum(map(len, rows.input_ids))


def test_a_whole_dataset_passes_and_is_counted_in_tokens(folder: Path) -> None:
    tokens = sum(map(len, Rows(LAYOUT, 21).input_ids))
    assert (validate(folder).rows, validate(folder).tokens) == (21, tokens)
    manifest = Manifest.load(folder)
    assert manifest.dataset is not None
    assert manifest.dataset.tokens == tokens
    shards = orjson.loads((folder / MANIFEST_NAME).read_bytes())["dataset"]["shards"]
    assert sum(shard["tokens"] for shard in shards) == tokens


def test_a_flipped_bit_in_any_byte_is_found(tmp_path: Path) -> None:
    write_dataset(tmp_path, Rows(LAYOUT, 5), 5)
    path = tmp_path / "data-00000.arrow"
    content = path.read_bytes()
    for at in range(0, len(content), 3):
        path.write_bytes(content[:at] + bytes([content[at] ^ (1 << at % 8)]) + content[at + 1 :])
        assert f"`{path}` " in fault(tmp_path)


def replace_batch(folder: Path, ids: list[list[int]], lengths: list[list[int]], tokens: int) -> None:
    """A dataset of one batch of four rows that were never checked, with the right checksums."""
    file = HashingFile(folder / "data-00000.arrow")
    columns = [pa.array(ids, pa.list_(pa.uint16())), pa.array(lengths, pa.list_(pa.int32()))]
    with pa.ipc.new_stream(file, LAYOUT.schema) as stream:
        stream.write_batch(pa.RecordBatch.from_arrays(columns, schema=LAYOUT.schema))
    shard = file.commit(4, (LAYOUT.schema.serialize().size,), tokens)
    part = DatasetPart(LAYOUT, (shard,))
    write_dataset_parts(folder, [part])
    save_manifest(folder, dataset=part)


@pytest.mark.parametrize(
    ("ids", "lengths", "problem"),
    [
        ([[1, 2], [3], list(range(9)), [4]], [[2], [1], [9], [1]], "row 2 has 9 tokens, not between 1 and 8"),
        ([[1, 2], [], [3, 4, 5], [4]], [[2], [], [3], [1]], "row 1 has 0 tokens, not between 1 and 8"),
        ([[1], [2, VOCAB_SIZE], [3], [4]], [[1], [2], [1], [1]], "row 1 has token id 200, outside"),
        (
            [[1], [2], [3, 4], [5]],
            [[1], [1], [1], [1]],
            "row 2 has 2 tokens, but its `seq_lengths` add up to 1",
        ),
        ([[1], [2], [3], [4]], [[1], [1], [1], [1]], "has 4 tokens, and the manifest says 13"),
    ],
)
def test_faulty_rows_are_named(
    tmp_path: Path, ids: list[list[int]], lengths: list[list[int]], problem: str
) -> None:
    replace_batch(tmp_path, ids, lengths, 13)
    assert problem in fault(tmp_path)


def test_the_reader_refuses_a_row_that_is_too_long(tmp_path: Path) -> None:
    replace_batch(tmp_path, [[1], list(range(9)), [2], [3]], [[1], [9], [1], [1]], 12)
    with pytest.raises(InputError, match=r"is damaged at record batch 0 .*: a row is longer than 8 tokens"):
        Dataset(tmp_path)[0]


def change(folder: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    content = orjson.loads((folder / MANIFEST_NAME).read_bytes())
    edit(content["dataset"])
    (folder / MANIFEST_NAME).write_bytes(orjson.dumps(content))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda part: part["shards"][0].pop("tokens"), "`dataset.shards[0].tokens` is missing"),
        (
            lambda part: part["shards"][0].update(tokens=9),
            "`dataset.shards[0].tokens` is 9, which is not poss",
        ),
        (
            lambda part: part["shards"][0].update(tokens=81),
            "tokens` is 81, which is not possible for 10 rows",
        ),
        (lambda part: part["shards"][0].update(tokens=12), "`dataset.tokens` is "),
        (lambda part: part.update(fixed="no"), "`dataset.fixed` must be true or false, not `'no'`"),
        (lambda part: part.update(rows_per_batch=2**30), "`dataset.rows_per_batch` must be between"),
    ],
)
def test_a_manifest_that_does_not_add_up_is_refused(
    folder: Path, edit: Callable[[dict[str, Any]], Any], message: str
) -> None:
    change(folder, edit)
    assert message in fault(folder)


def test_it_tells_how_long_rows_are(folder: Path) -> None:
    found = inspect(folder).dataset
    assert found is not None
    widths = [len(ids) for ids in Rows(LAYOUT, 21).input_ids]
    assert found.row_lengths is not None
    spread = (found.row_lengths.least, found.row_lengths.median, found.row_lengths.most)
    assert spread == (min(widths), np.median(widths), max(widths))
    assert (found.rows, found.tokens, found.split, found.sources) == (21, sum(widths), None, ())


def with_sources(folder: Path, *sources: SourceRows) -> None:
    manifest = Manifest.load(folder)
    assert manifest.dataset is not None
    save_manifest(folder, dataset=replace(manifest.dataset, sources=sources))


def test_the_rows_of_weighted_sources_are_kept(folder: Path) -> None:
    sources = (SourceRows(0, 2.0, 0, 13, 50), SourceRows(1, 0.5, 13, 8, 40))
    with_sources(folder, *sources)
    manifest = Manifest.load(folder)
    assert manifest.dataset is not None
    assert manifest.dataset.sources == sources
    found = inspect(folder)
    assert found.dataset is not None
    assert found.dataset.sources == sources
    assert orjson.loads(orjson.dumps(found.to_json()))["dataset"]["sources"][1]["weight"] == 0.5


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        (
            (SourceRows(0, 1.0, 0, 13, 1), SourceRows(1, 1.0, 12, 8, 1)),
            "`dataset.sources[1].first` is 12, not 13",
        ),
        ((SourceRows(0, 1.0, 0, 13, 1),), "`dataset.sources` is 13, but the shards add up to 21"),
        ((SourceRows(0, -1.0, 0, 21, 1),), "`dataset.sources[0].weight` must be a non-negative number"),
    ],
)
def test_sources_that_do_not_cover_the_rows_are_refused(
    folder: Path, sources: tuple[SourceRows, ...], message: str
) -> None:
    with_sources(folder, *sources)
    assert message in fault(folder)
