"""The same documents give the same dataset, whatever they are written in."""

import bz2
import csv
import gzip
import json
import lzma
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
import zstandard

import krill as package
from conftest import dataset_bytes
from peers import peer
from real_text import real_texts

datasets = peer("datasets")

SEPARATOR = "<|endoftext|>"


@pytest.fixture(scope="module")
def texts():
    found = [text for text in islice(real_texts(), 300) if "\r" not in text and len(text.strip()) >= 200]
    return [*found, *found[:7], "short", "x" * 300_000]


def jsonl(texts):
    return "".join(json.dumps({"text": text, "n": n}) + "\n" for n, text in enumerate(texts)).encode()


def write_hf(path, texts):
    datasets.Dataset.from_dict({"text": texts}).save_to_disk(str(path), num_shards=3)


def write_arrow(path, texts):
    table = pa.table({"text": texts})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=50):
            writer.write_batch(batch)


def write_csv(path, texts):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text"])
        writer.writerows([text] for text in texts)


WRITERS = {
    "documents.jsonl": lambda path, texts: path.write_bytes(jsonl(texts)),
    "documents.jsonl.gz": lambda path, texts: path.write_bytes(gzip.compress(jsonl(texts), 1)),
    "documents.ndjson.zst": lambda path, texts: path.write_bytes(zstandard.compress(jsonl(texts))),
    "documents.jsonl.bz2": lambda path, texts: path.write_bytes(bz2.compress(jsonl(texts), 1)),
    "documents.jsonl.xz": lambda path, texts: path.write_bytes(lzma.compress(jsonl(texts), preset=0)),
    "documents.json": lambda path, texts: path.write_text(json.dumps([{"text": t} for t in texts], indent=1)),
    "documents.txt": lambda path, texts: path.write_text(SEPARATOR.join(texts), newline=""),
    "documents.parquet": lambda path, texts: pq.write_table(
        pa.table({"text": texts}), path, row_group_size=60
    ),
    "documents.arrow": write_arrow,
    "documents.csv": write_csv,
    "save_to_disk": write_hf,
}


def prepare(folder, source, **preprocess):
    config = {
        "datasets": [{"path": str(source)}],
        "tokenizer": {"builtin": "bytes"},
        "preprocess": {
            "prepared_path": str(folder / "dataset"),
            "sequence_len": 512,
            "unit_bytes": "400KB",
            "max_document_bytes": "200KB",
            "shard_size": "300KB",
            **preprocess,
        },
    }
    folder.mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    return package.preprocess(folder / "config.yaml", memory="500MB", threads=2)


@pytest.fixture(scope="module")
def expected(texts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("expected")
    source = folder / "documents.jsonl"
    source.write_bytes(jsonl(texts))
    summary = prepare(folder / "run", source)
    assert summary.manifest.documents["dropped"] == {"too_short": 1, "duplicate": 7}
    assert summary.manifest.documents["notes"] == {"oversize_split": 1}
    assert len(summary.manifest.dataset.shards) > 3
    return dataset_bytes(folder / "run" / "dataset")


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_dataset(texts, expected, tmp_path, name):
    WRITERS[name](tmp_path / name, texts)
    prepare(tmp_path / "run", tmp_path / name)
    assert dataset_bytes(tmp_path / "run" / "dataset") == expected


def test_many_small_files_give_the_same_dataset(texts, expected, tmp_path):
    (tmp_path / "parts").mkdir()
    for number in range(0, len(texts), 9):
        part = tmp_path / "parts" / f"{number:05d}.jsonl"
        part.write_bytes(jsonl(texts[number : number + 9]))
    prepare(tmp_path / "run", tmp_path / "parts")
    assert dataset_bytes(tmp_path / "run" / "dataset") == expected


def test_a_text_output_as_input_gives_the_same_dataset(texts, expected, tmp_path):
    source = tmp_path / "documents.jsonl"
    source.write_bytes(jsonl(texts))
    prepare(tmp_path / "cleaned", source, output="text")
    prepare(tmp_path / "run", tmp_path / "cleaned" / "dataset", dedup="none")
    assert dataset_bytes(tmp_path / "run" / "dataset") == expected
