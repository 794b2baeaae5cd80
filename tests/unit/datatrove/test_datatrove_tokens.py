"""Tokens that tasks wrote become the dataset that `krill preprocess` makes, and are loaded as they are."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("datatrove")

from datatrove_samples import documents_of, some_documents, totals

import krill
from conftest import dataset_bytes
from krill.datatrove import PackDataset, Tokenize
from krill.errors import ConfigError, InputError
from krill.tokenizer import load, train

SEQUENCE_LEN = 128


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return [document.text.strip() for document in some_documents(120, step=11)]


@pytest.fixture(scope="module")
def tokenizer(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    (folder / "corpus.txt").write_text("\n".join(texts))
    train([str(folder / "corpus.txt")], vocab_size=1000, output=str(folder / "made"))
    return folder / "made"


@pytest.fixture(scope="module")
def tokens(texts: list[str], tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`.ds` files of four tasks, one of which had nothing to do."""
    folder = tmp_path_factory.mktemp("tokens")
    for rank, part in enumerate((texts[:70], [], texts[70:100], texts[100:])):
        Tokenize(str(folder), tokenizer, batch_bytes="50kB").run(iter(documents_of(part)), rank, 4)
    return folder


@pytest.mark.parametrize("packing", ["wrapped", "bfd", "none"])
def test_the_packed_dataset_is_byte_for_byte_that_of_preprocess(
    texts: list[str], tokenizer: Path, tokens: Path, tmp_path: Path, packing: str
) -> None:
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    (tmp_path / "input.jsonl").write_text(lines)
    settings = {
        "prepared_path": str(tmp_path / "prepared"),
        "sequence_len": SEQUENCE_LEN,
        "packing": packing,
        "min_chars": 0,
        "min_length": 0,
        "dedup": "none",
        "token_dtype": "uint16",
        "shard_size": "100kB",
    }
    krill.preprocess(
        {
            "datasets": [{"path": str(tmp_path / "input.jsonl")}],
            "tokenizer": {"path": str(tokenizer)},
            "preprocess": settings,
        }
    )
    PackDataset(
        str(tokens), tmp_path / "packed", tokenizer, SEQUENCE_LEN, packing=packing, shard_size="100kB"
    ).run()
    assert dataset_bytes(tmp_path / "packed") == dataset_bytes(tmp_path / "prepared")


def test_the_dataset_is_loaded_validated_and_not_packed_twice(
    tokenizer: Path, tokens: Path, tmp_path: Path
) -> None:
    step = PackDataset(str(tokens), tmp_path / "packed", tokenizer, SEQUENCE_LEN)
    step.run()
    dataset = krill.load(tmp_path / "packed")
    assert totals(step)["rows"] == len(dataset) > 50
    assert totals(step)["tokens"] == len(dataset) * SEQUENCE_LEN
    report = krill.dataset.validate(tmp_path / "packed")
    assert report.rows == len(dataset)
    before = (tmp_path / "packed" / "krill-run.json").stat().st_mtime_ns
    step.run()
    assert (tmp_path / "packed" / "krill-run.json").stat().st_mtime_ns == before


def test_a_second_dataset_of_other_settings_is_refused_in_the_same_place(
    tokenizer: Path, tokens: Path, tmp_path: Path
) -> None:
    PackDataset(str(tokens), tmp_path / "packed", tokenizer, SEQUENCE_LEN).run()
    with pytest.raises(ConfigError, match="sequence_len: `128` -> `64`"):
        PackDataset(str(tokens), tmp_path / "packed", tokenizer, 64).run()


def test_documents_of_ds_files_are_loaded_as_rows(texts: list[str], tokenizer: Path, tokens: Path) -> None:
    encoder = load(tokenizer).encoder
    expected = [[*load(tokenizer).encode(text).tolist(), encoder.eos_id] for text in texts]
    dataset = krill.load(tokens)
    assert [row["input_ids"].tolist() for row in dataset] == expected
    assert dataset[[119, 0, 75]]["input_ids"][2].tolist() == expected[75]
    assert dataset.source.tokens == sum(map(len, expected))
    assert dataset.source.width == max(map(len, expected))
    again = pickle.loads(pickle.dumps(dataset))
    assert again[3]["input_ids"].tolist() == expected[3]
    assert again.source.fingerprint == dataset.source.fingerprint


def test_rows_are_found_over_the_borders_of_index_chunks(tmp_path: Path) -> None:
    lengths = np.arange(9_000) % 3
    tokens = np.arange(lengths.sum()) % 50_000
    tokens.astype("<u2").tofile(tmp_path / "a.ds")
    np.cumsum(lengths).astype("<u8").tofile(tmp_path / "a.ds.index")
    dataset = krill.load(tmp_path)
    begins = np.concatenate(([0], np.cumsum(lengths)))
    for row in (0, 1, 2, 4095, 4096, 4097, 8191, 8192, 8999):
        assert dataset[row]["input_ids"].tolist() == tokens[begins[row] : begins[row + 1]].tolist()
    assert len(dataset) == 9_000


def test_files_that_do_not_fit_their_index_are_refused(tokens: Path, tmp_path: Path, tokenizer: Path) -> None:
    np.zeros(10, "<u2").tofile(tmp_path / "a.ds")
    with pytest.raises(InputError, match="no such file"):
        krill.load(tmp_path)
    with pytest.raises(InputError, match=r"can't read `.*a\.ds\.index`"):
        PackDataset(str(tmp_path), tmp_path / "packed", tokenizer).run()
    np.array([4, 9], "<u8").tofile(tmp_path / "a.ds.index")
    for attempt in (
        lambda: krill.load(tmp_path),
        PackDataset(str(tmp_path), tmp_path / "out", tokenizer).run,
    ):
        with pytest.raises(InputError, match="has 20 bytes, and its index has 9 tokens"):
            attempt()
    np.array([9, 4, 10], "<u8").tofile(tmp_path / "a.ds.index")
    with pytest.raises(InputError, match="is not an index"):
        krill.load(tmp_path)


def ds_file(folder: Path, tokens: list[int], ends: list[int], metadata: str | None = None) -> Path:
    folder.mkdir()
    np.array(tokens, "<u2").tofile(folder / "a.ds")
    np.array(ends, "<u8").tofile(folder / "a.ds.index")
    if metadata is not None:
        (folder / "a.ds.metadata").write_text(metadata)
    return folder


def test_a_file_is_not_read_in_another_width_than_it_was_written_in(tmp_path: Path, tokenizer: Path) -> None:
    """Half of the index is an index too: of half as many tokens, each twice as wide."""
    tokens = list(range(256))
    whole = ds_file(tmp_path / "whole", tokens, [128, 256], "made|up|2\n256\n256 T")
    assert krill.load(whole).source.tokens == 256
    for name, said in {"width": "t|2\n256\n256 T", "count": "t|4\n256\n256 T"}.items():
        folder = ds_file(tmp_path / name, tokens, [128], said)
        for attempt in (
            lambda folder=folder: krill.load(folder),
            PackDataset(str(folder), tmp_path / "out", tokenizer, 64).run,
        ):
            with pytest.raises(InputError, match=r"128 tokens of 4 bytes, and `.*metadata` says something"):
                attempt()
    for number, said in enumerate(
        ("t\n256", "", "\xff|x\n?", "t|2")
    ):  # an older file's, and what datatrove doesn't write
        folder = ds_file(tmp_path / f"other{number}", tokens, [256], said)
        assert krill.load(folder).source.tokens == 256


def test_a_token_outside_of_the_vocabulary_is_not_packed(tmp_path: Path, tokenizer: Path) -> None:
    folder = ds_file(tmp_path / "tokens", [7] * 200 + [7 | 1 << 15] + [7] * 100, [301])
    for packing in ("wrapped", "bfd"):
        with pytest.raises(InputError, match=r"have the token 32775, and the vocabulary of .* has 1,000"):
            PackDataset(str(folder), tmp_path / "out", tokenizer, 64, packing=packing).run()
        assert not (tmp_path / "out").exists()


def test_packing_is_one_task_and_needs_enough_tokens(tokens: Path, tmp_path: Path, tokenizer: Path) -> None:
    with pytest.raises(ConfigError, match="is one task, not 2"):
        PackDataset(str(tokens), tmp_path / "packed", tokenizer).run(None, 0, 2)
    with pytest.raises(InputError, match="too few tokens for a row of 10,000,000"):
        PackDataset(str(tokens), tmp_path / "packed", tokenizer, 10_000_000, memory="1GB").run()
    with pytest.raises(InputError, match=r"no `\.ds` file"):
        PackDataset(str(tmp_path / "none"), tmp_path / "packed", tokenizer).run()
