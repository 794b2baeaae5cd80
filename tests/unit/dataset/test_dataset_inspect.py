"""`krill inspect` as data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import orjson
import pytest
from dataset_samples import VOCAB_SIZE, Rows, write_dataset, write_text

from krill.dataset import Layout, inspect
from krill.dataset.inspection import Bucket, SampleDocument, log2_histogram
from krill.errors import InputError


def test_it_tells_what_the_run_was(tmp_path: Path) -> None:
    write_dataset(tmp_path, Rows(Layout(8, "uint16", 4), 21), 10)
    found = inspect(tmp_path)
    assert (found.krill, found.command, found.seconds) == ("0.1.0", "preprocess", 1.5)
    assert found.dropped == {"too_short": 1, "duplicate": 1}
    assert [(stage["name"], stage["seconds"]) for stage in found.stages] == [("scan", 1.0)]
    assert (found.predicted_peak, found.measured_peak) == (200_000_000, 190_000_000)
    assert found.text is None


def test_it_describes_the_rows(tmp_path: Path) -> None:
    rows = Rows(Layout(8, "uint16", 4), 21)
    write_dataset(tmp_path, rows, 10)
    found = inspect(tmp_path).dataset
    assert found is not None
    assert (found.rows, found.tokens, found.shards, found.sampled_rows) == (21, 168, 3, 21)
    assert (found.sequence_len, found.token_dtype, found.vocab_size) == (8, "uint16", VOCAB_SIZE)
    assert found.bytes == sum(path.stat().st_size for path in tmp_path.glob("*.arrow"))
    counts = [len(lengths) for lengths in rows.documents]
    assert found.documents_per_row is not None
    assert found.documents_per_row.least == min(counts)
    assert found.documents_per_row.median == np.median(counts)
    assert found.documents_per_row.most == max(counts)
    lengths = np.concatenate(rows.documents)
    for bucket in found.piece_lengths:
        assert bucket.count == sum(bucket.low <= length <= bucket.high for length in lengths)
    assert sum(bucket.count for bucket in found.piece_lengths) == len(lengths)


def test_lengths_come_from_a_bounded_number_of_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("krill.dataset.inspection._MOST_BATCHES", 4)
    write_dataset(tmp_path, Rows(Layout(8, "uint16", 1), 33), 10)
    found = inspect(tmp_path).dataset
    assert found is not None
    assert found.sampled_rows == 4


def test_samples_are_rows_of_the_dataset_chosen_by_the_seed(tmp_path: Path) -> None:
    rows = Rows(Layout(8, "uint16", 4), 50)
    write_dataset(tmp_path, rows, 20)
    found = inspect(tmp_path, samples=5, seed=7, decode=lambda ids: f"{len(ids)} ids").dataset
    assert found is not None
    assert found == inspect(tmp_path, samples=5, seed=7, decode=lambda ids: f"{len(ids)} ids").dataset
    chosen = [sample.row for sample in found.samples]
    assert chosen == sorted(set(chosen))
    assert len(chosen) == 5
    for sample in found.samples:
        assert sample.input_ids == rows.input_ids[sample.row].tolist()
        assert sample.seq_lengths == rows.documents[sample.row].tolist()
        assert sample.text == "8 ids"
    other = inspect(tmp_path, samples=5, seed=8).dataset
    assert other is not None
    assert [sample.row for sample in other.samples] != chosen


def test_no_rows_make_no_distribution(tmp_path: Path) -> None:
    write_dataset(tmp_path, Rows(Layout(8, "uint16", 4), 0), 10)
    found = inspect(tmp_path).dataset
    assert found is not None
    assert (found.sampled_rows, found.documents_per_row, found.piece_lengths, found.samples) == (
        0,
        None,
        (),
        (),
    )


def test_documents_are_sampled_and_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("krill.dataset.text_shard.ROW_GROUP_BYTES", 10)
    texts = [f"document {number} " + "x" * (number * 500) for number in range(9)]
    write_text(tmp_path, [texts[:5], texts[5:]])
    found = inspect(tmp_path, samples=100)
    assert found.dataset is None
    assert found.text is not None
    assert (found.text.rows, found.text.shards) == (9, 2)
    assert found.text.samples == tuple(
        SampleDocument(row, len(text), text[:2000]) for row, text in enumerate(texts)
    )


def test_buckets_are_powers_of_two() -> None:
    lengths = np.array([4, 7, 8, 15, 16, 2**20 - 1, 2**20], dtype=np.int32)
    buckets = {(bucket.low, bucket.high): bucket.count for bucket in log2_histogram(lengths) if bucket.count}
    assert buckets == {(4, 7): 2, (8, 15): 2, (16, 31): 1, (2**19, 2**20 - 1): 1, (2**20, 2**21 - 1): 1}
    assert log2_histogram(lengths)[0] == Bucket(4, 7, 2)


def test_it_can_be_printed_as_json(tmp_path: Path) -> None:
    write_dataset(tmp_path, Rows(Layout(8, "uint16", 4), 21), 10)
    content = orjson.loads(orjson.dumps(inspect(tmp_path).to_json()))
    assert content["dataset"]["rows"] == 21
    assert len(content["dataset"]["samples"][0]["input_ids"]) == 8


def test_damaged_documents_are_an_input_error(tmp_path: Path) -> None:
    write_text(tmp_path, [["a document"]])
    path = tmp_path / "text-00000.parquet"
    path.write_bytes(b"\0" * path.stat().st_size)
    with pytest.raises(InputError, match=r"text-00000\.parquet` cannot be decoded"):
        inspect(tmp_path)
