"""Exports are opened by the tools that they are for: Hugging Face, DuckDB, Megatron-LM, nanoGPT's loader."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from tokenizers import Tokenizer, processors

import krill
import preloaded
from krill.dataset import Dataset
from krill.dataset.export import export
from real_text import real_texts

SEQUENCE_LEN = 256
DOCUMENTS = 120


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A dataset of real text with a validation split, made by the command, and its tokenizer."""
    folder = tmp_path_factory.mktemp("prepared")
    with (folder / "input.jsonl").open("w", encoding="utf-8") as file:
        for text, _ in zip(real_texts(), range(DOCUMENTS), strict=False):
            file.write(json.dumps({"text": text}) + "\n")
    config = {
        "memory": "300MB",
        "datasets": [{"path": "input.jsonl"}],
        "tokenizer": {"path": "tokenizer"},
        "preprocess": {
            "prepared_path": "dataset",
            "sequence_len": SEQUENCE_LEN,
            "split": {"validation": 0.2},
        },
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    for command in (
        ["tokenizer", "train", "--input", "input.jsonl", "--vocab-size", "1500", "--output", "tokenizer"],
        ["preprocess", "config.yaml"],
    ):
        outcome = preloaded.run([*command, "--quiet"], cwd=folder)
        assert outcome.code == 0, outcome.err
    return folder


@pytest.fixture(scope="module")
def dataset(prepared) -> Path:
    return prepared / "dataset"


def rows_of(dataset: Path, split: str) -> list[list[int]]:
    return [row["input_ids"].tolist() for row in Dataset(dataset, split=split)]


def documents_of(prepared: Path, split: str) -> list[list[int]]:
    """All documents, cut after each EOS, one token at a time."""
    eos = Dataset(prepared / "dataset").manifest.tokenizer["eos_id"]
    documents: list[list[int]] = [[]]
    for row in rows_of(prepared / "dataset", split):
        for token in row:
            documents[-1].append(token)
            if token == eos:
                documents.append([])
    return [document for document in documents if document]


def test_hugging_face_opens_the_parquet_files_with_their_splits_and_types(dataset, tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    output = export(dataset, to="parquet", output=tmp_path / "out").output
    loaded = datasets.load_dataset("parquet", data_dir=str(output))
    assert set(loaded) == {"train", "validation"}
    for split in loaded:
        assert loaded[split]["input_ids"][:] == rows_of(dataset, split)
        assert loaded[split].features["input_ids"].feature.dtype == Dataset(dataset).layout.token_dtype
    streamed = datasets.load_dataset("parquet", data_dir=str(output), split="train", streaming=True)
    assert next(iter(streamed))["input_ids"] == rows_of(dataset, "train")[0]


def test_pyarrow_and_duckdb_read_the_parquet_files(dataset, tmp_path):
    output = export(dataset, to="parquet", output=tmp_path / "out").output
    rows = rows_of(dataset, "train")
    assert pq.read_table(output / "train-00000.parquet")["input_ids"].to_pylist() == rows
    found = duckdb.sql(
        f"select count(*), sum(len(input_ids)), sum(list_sum(input_ids)) from '{output}/train-*.parquet'"
    ).fetchall()[0]
    assert found == (len(rows), len(rows) * SEQUENCE_LEN, sum(map(sum, rows)))


def test_nanogpt_draws_its_batches_from_the_flat_files(dataset, tmp_path):
    """Its loader maps a file as uint16, takes stretches at random places, and their successors as targets."""
    torch = pytest.importorskip("torch")
    output = export(dataset, to="bin", output=tmp_path / "out").output
    tokens = [token for row in rows_of(dataset, "train") for token in row]
    data = np.memmap(output / "train.bin", dtype=np.uint16, mode="r")
    places = torch.randint(len(data) - 64, (8,), generator=torch.Generator().manual_seed(0))
    inputs = torch.stack([torch.from_numpy(data[i : i + 64].astype(np.int64)) for i in places])
    targets = torch.stack([torch.from_numpy(data[i + 1 : i + 65].astype(np.int64)) for i in places])
    assert inputs.tolist() == [tokens[i : i + 64] for i in places.tolist()]
    assert targets[:, :-1].equal(inputs[:, 1:])


def test_text_is_what_hugging_face_decodes(prepared, dataset, tmp_path):
    tokenizer = Tokenizer.from_file(str(prepared / "tokenizer" / "tokenizer.json"))
    output = export(
        dataset, to="jsonl", text=True, tokenizer=prepared / "tokenizer", output=tmp_path / "out"
    ).output
    for split in ("train", "validation"):
        lines = (output / f"{split}.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
        documents = documents_of(prepared, split)
        whole = [document[:-1] for document in documents[:-1]]
        assert [json.loads(line)["text"] for line in lines][: len(whole)] == tokenizer.decode_batch(whole)
        assert len(lines) == len(documents)


def test_text_comes_without_the_token_that_the_tokenizer_puts_before_it(prepared, tmp_path):
    tokenizer = Tokenizer.from_file(str(prepared / "tokenizer" / "tokenizer.json"))
    tokenizer.add_special_tokens(["<s>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )
    (tmp_path / "tokenizer").mkdir()
    tokenizer.save(str(tmp_path / "tokenizer" / "tokenizer.json"))
    settings = {"prepared_path": str(tmp_path / "dataset"), "packing": "none", "sequence_len": 64}
    krill.preprocess(
        {
            "datasets": [{"path": str(prepared / "input.jsonl")}],
            "tokenizer": {"path": str(tmp_path / "tokenizer")},
            "preprocess": {**settings, "min_length": 0, "min_chars": 1, "dedup": "none"},
        }
    )
    summary = export(tmp_path / "dataset", to="jsonl", text=True)
    lines = summary.files[0].read_text(encoding="utf-8").split("\n")[:-1]
    given = (json.loads(line)["text"] for line in (prepared / "input.jsonl").open(encoding="utf-8"))
    assert [json.loads(line)["text"] for line in lines] == [text.strip() for text in given]


def test_megatron_reads_the_documents_and_would_have_written_the_same_bytes(prepared, dataset, tmp_path):
    """Runs where Megatron-LM's `megatron-core` is installed; the unit tests have a reader of their own."""
    megatron = pytest.importorskip("megatron.core.datasets.indexed_dataset")
    output = export(dataset, to="megatron", output=tmp_path / "out").output
    for split in ("train", "validation"):
        documents = documents_of(prepared, split)
        read = megatron.IndexedDataset(str(output / split))
        assert len(read) == len(documents) == len(read.document_indices) - 1
        assert [read[number].tolist() for number in range(len(read))] == documents
        vocab_size = Dataset(dataset).manifest.tokenizer["vocab_size"]
        builder = megatron.IndexedDatasetBuilder(
            str(tmp_path / "theirs.bin"), dtype=megatron.DType.optimal_dtype(vocab_size)
        )
        torch = pytest.importorskip("torch")
        for document in documents:
            builder.add_document(torch.tensor(document), [len(document)])
        builder.finalize(str(tmp_path / "theirs.idx"))
        for suffix in ("bin", "idx"):
            theirs = (tmp_path / f"theirs.{suffix}").read_bytes()
            assert (output / f"{split}.{suffix}").read_bytes() == theirs
