"""COMPAT, preprocessing: tokenise without truncation, append EOS; TRL wrapped packing; exact dedup, first one
wins; cleaning. The seed's standard pipeline is run as it was: datasets, Hugging Face tokenizers, TRL."""

import gzip
import json
from itertools import islice

import numpy as np
import pytest
import yaml
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from peers import peer

datasets = peer("datasets")
trl = peer("trl")

SEQUENCE_LEN = 1024
MIN_LENGTH = 150


@pytest.fixture(scope="module")
def tokenizer(sample, tmp_path_factory):
    with gzip.open(sample, "rt", encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line, _ in zip(file, range(100), strict=False)]
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=4000,
            special_tokens=["<|endoftext|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    folder = tmp_path_factory.mktemp("tokenizer")
    made.save(str(folder / "tokenizer.json"))
    return folder


def clean_text(text):
    """The seed's cleaning."""
    if not isinstance(text, str):
        return ""
    return text.encode("utf-8", "ignore").decode("utf-8", "ignore").strip()


def standard_pipeline(sample, tokenizer_file):
    """datasets + tokenizers + TRL on one whole batch, as the seed describes it."""
    dataset = datasets.load_dataset("json", data_files=str(sample), split="train")
    dataset = dataset.map(lambda row: {"text": clean_text(row["text"])})
    dataset = dataset.filter(lambda row: len(row["text"]) >= 100)
    seen = set()

    def first_time(row):
        if row["text"] in seen:
            return False
        seen.add(row["text"])
        return True

    dataset = dataset.filter(first_time, num_proc=None, load_from_cache_file=False)
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    eos = tokenizer.token_to_id("<|endoftext|>")

    def tokenize(rows):
        return {"input_ids": [[*encoding.ids, eos] for encoding in tokenizer.encode_batch(rows["text"])]}

    tokens = dataset.map(tokenize, batched=True, remove_columns=dataset.column_names)
    kept = tokens.filter(lambda row: len(row["input_ids"]) >= MIN_LENGTH)
    packed = trl.pack_dataset(kept, SEQUENCE_LEN, "wrapped", map_kwargs={"batch_size": len(kept)})
    rows = packed.with_format("numpy")["input_ids"]
    return [row for row in rows if len(row) == SEQUENCE_LEN], dataset, tokens, kept


@pytest.mark.parametrize("documents", [300, pytest.param(6000, marks=pytest.mark.soak)])
def test_packed_rows_equal_those_of_the_standard_pipeline(
    krill, sample, tokenizer, tmp_path, monkeypatch, documents
):
    with gzip.open(sample) as whole, gzip.open(tmp_path / "sample.jsonl.gz", "wb", 1) as part:
        part.writelines(islice(whole, documents))
    sample = tmp_path / "sample.jsonl.gz"
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    config = {
        "datasets": [{"path": str(sample)}],
        "tokenizer": {"path": str(tokenizer)},
        "preprocess": {
            "prepared_path": str(tmp_path / "dataset"),
            "sequence_len": SEQUENCE_LEN,
            "min_length": MIN_LENGTH,
            "output": "both",
        },
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    outcome = krill("preprocess", tmp_path / "config.yaml", "--memory", "2GB", "--json")
    assert outcome.code == 0, outcome.err
    rows, dataset, tokens, kept = standard_pipeline(sample, tokenizer / "tokenizer.json")

    ours = datasets.load_from_disk(str(tmp_path / "dataset")).with_format("numpy")["input_ids"]
    assert np.array_equal(np.stack(list(ours)), np.stack(rows))

    result = outcome.result
    read = result["documents"]
    assert read["read"] == documents
    assert read["kept"] == len(kept)
    assert read["dropped"]["too_few_tokens"] == len(tokens) - len(kept)
    assert result["tokens"]["dropped_short"] == sum(map(len, tokens["input_ids"])) - sum(
        map(len, kept["input_ids"])
    )
    assert result["tokens"]["dropped_tail"] == sum(map(len, kept["input_ids"])) - len(rows) * SEQUENCE_LEN

    texts = datasets.load_dataset(
        "parquet", data_files=str(tmp_path / "dataset" / "*.parquet"), split="train"
    )["text"]
    assert list(texts) == list(dataset["text"])
