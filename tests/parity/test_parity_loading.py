"""Loading beside the libraries whose files and conventions it claims to know."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from krill.loading.dataset import LoadedDataset, load
from peers import peer

os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
datasets = peer("datasets")
torch = peer("torch")


def rows_of(count: int = 2500, shortest: int = 0) -> list[list[int]]:
    chance = np.random.default_rng(1)
    lengths = chance.integers(shortest, 60, size=count)
    return [chance.integers(0, 30_000, size=length).tolist() for length in lengths]


def table() -> Any:
    rows = rows_of()
    return datasets.Dataset.from_dict(
        {
            "text": ["t" * (number % 9) for number in range(len(rows))],
            "input_ids": rows,
            "attention_mask": [[1] * len(row) for row in rows],
            "meta": [{"source": "a", "score": number / 3} for number in range(len(rows))],
        }
    )


def loaded(path: Path, tmp_path: Path, **options: Any) -> LoadedDataset:
    return load(path, memory="100MB", cache_dir=tmp_path / "cache", **options)


def assert_same_rows(ours: LoadedDataset, theirs: Any) -> None:
    expected = theirs.with_format(None)["input_ids"]
    assert len(ours) == len(expected)
    assert [row.tolist() for row in ours[:]["input_ids"]] == list(expected)
    picked = np.random.default_rng(0).integers(0, len(ours), size=64)
    assert [row.tolist() for row in ours[picked]["input_ids"]] == [expected[row] for row in picked]


FORMS: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda dataset: dataset,
    "shuffled": lambda dataset: dataset.shuffle(seed=3),
    "selected": lambda dataset: dataset.select(range(17, 900, 3)),
    "filtered": lambda dataset: dataset.filter(lambda row: len(row["input_ids"]) > 20),
    "concatenated": lambda dataset: datasets.concatenate_datasets([dataset, dataset.select(range(40))]),
    "renamed": lambda dataset: dataset.rename_column("input_ids", "x").rename_column("x", "input_ids"),
    "typed": lambda dataset: dataset.cast_column("input_ids", datasets.Sequence(datasets.Value("int64"))),
    "formatted": lambda dataset: dataset.with_format("numpy"),
}


@pytest.mark.parametrize("form", FORMS)
def test_what_datasets_saves_is_loaded_as_datasets_loads_it(tmp_path: Path, form: str) -> None:
    dataset = FORMS[form](table())
    dataset.save_to_disk(tmp_path / "saved", num_shards=3)
    assert_same_rows(loaded(tmp_path / "saved", tmp_path), datasets.load_from_disk(tmp_path / "saved"))


def test_splits_of_a_dataset_dict_are_the_same(tmp_path: Path) -> None:
    parts = table().train_test_split(test_size=0.2, seed=1)
    parts.save_to_disk(tmp_path / "saved")
    for split in ("train", "test"):
        theirs = datasets.load_from_disk(tmp_path / "saved")[split]
        assert_same_rows(loaded(tmp_path / "saved", tmp_path, split=split), theirs)


def test_parquet_that_datasets_writes_is_loaded_as_datasets_loads_it(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for number in range(2):
        table().shard(2, number, contiguous=True).to_parquet(
            tmp_path / "data" / f"train-{number}.parquet", batch_size=300
        )
    theirs = datasets.load_dataset(
        "parquet",
        data_files=str(tmp_path / "data" / "*.parquet"),
        cache_dir=str(tmp_path / "hf"),
        split="train",
    )
    assert_same_rows(loaded(tmp_path / "data", tmp_path), theirs)


@pytest.mark.parametrize("strategy", ["bfd", "wrapped"])
def test_rows_that_trl_packs_keep_their_documents(tmp_path: Path, strategy: str) -> None:
    trl = pytest.importorskip("trl")
    dataset = datasets.Dataset.from_dict({"input_ids": rows_of(shortest=1)})
    packed = trl.pack_dataset(dataset, seq_length=64, strategy=strategy)
    packed.save_to_disk(tmp_path / "saved")
    ours = loaded(tmp_path / "saved", tmp_path)
    assert_same_rows(ours, packed)
    rows = packed.with_format(None)
    expected = rows["seq_lengths"] if "seq_lengths" in packed.column_names else None
    found = [lengths.tolist() for lengths in ours[:]["seq_lengths"]]
    assert found == (list(expected) if expected is not None else [[len(row)] for row in rows["input_ids"]])


def test_both_kinds_of_labels_give_the_loss_of_a_real_model(tmp_path: Path) -> None:
    """Hugging Face's model shifts `hf` labels itself; `shifted` ones are compared as they are."""
    transformers = pytest.importorskip("transformers")
    trl = pytest.importorskip("trl")
    packed = trl.pack_dataset(
        datasets.Dataset.from_dict({"input_ids": rows_of(80, shortest=2)}), seq_length=64, strategy="bfd"
    )
    packed.save_to_disk(tmp_path / "saved")
    dataset = loaded(tmp_path / "saved", tmp_path)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=30_000,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=64,
    )
    model = transformers.AutoModelForCausalLM.from_config(config)
    batch = next(iter(dataset.torch(batch_size=8, attention_mask=True, position_ids=True)))
    shifted = next(iter(dataset.loader(batch_size=8, labels="shifted")))
    with torch.no_grad():
        outcome = model(**batch)
        by_hand = torch.nn.functional.cross_entropy(
            outcome.logits.flatten(0, 1),
            torch.from_numpy(shifted["labels"]).long().flatten(),
            ignore_index=-100,
        )
    assert outcome.loss.item() == pytest.approx(by_hand.item(), rel=1e-5)
    counted = int((shifted["labels"] != -100).sum())
    documents = sum(len(lengths) for lengths in dataset[:8]["seq_lengths"])
    tokens = sum(len(row) for row in dataset[:8]["input_ids"])
    assert counted == int((batch["labels"] != -100).sum()) == tokens - documents
