"""Krill's steps in the place of datatrove's own: the same files and survivors, read by the same tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("datatrove")

from datatrove.data import Document
from datatrove.pipeline.dedup import (
    ExactDedupFilter,
    ExactDedupSignature,
    ExactFindDedups,
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
    MinhashDedupSignature,
)
from datatrove.pipeline.dedup.exact_dedup import ExactDedupConfig
from datatrove.pipeline.tokens import DocumentTokenizer, DocumentTokenizerMerger
from datatrove.utils.hashing import HashConfig
from near_duplicates import with_near_duplicates

import krill
from krill.dataset.export import export
from krill.dataset.export.token_files import format_tokens
from krill.datatrove import ExactSignatures, MinhashSignatures, PackDataset, Tokenize
from krill.tokenizer import load, train
from peers import peer
from real_text import real_texts

peer("spacy")
peer("torch")

BUCKETS = 14
TASKS = 2
SEQUENCE_LEN = 100


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Documents of ten-odd languages, changed copies of some, and some twice."""
    some = with_near_duplicates([text[:3000] for text in islice(real_texts(), 0, 6000, 60)], 50)
    return [*some, *some[::10], "too short"]


def task_documents(texts: list[str], rank: int) -> Iterator[Document]:
    return (Document(text=text, id=f"{rank}/{at}") for at, text in enumerate(texts[rank::TASKS]))


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def signed(step: Any, texts: list[str], folder: Path) -> dict[str, bytes]:
    for rank in range(TASKS):
        step.run(task_documents(texts, rank), rank, TASKS)
    return files_of(folder)


@pytest.fixture(scope="module")
def minhash(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The signatures that datatrove wrote, with spaCy's words, and ours."""
    folders = tmp_path_factory.mktemp("theirs"), tmp_path_factory.mktemp("ours")
    signed(MinhashDedupSignature(str(folders[0])), texts, folders[0])
    signed(MinhashSignatures(str(folders[1]), batch_bytes="100kB"), texts, folders[1])
    return folders


def test_minhash_signatures_are_byte_for_byte_datatroves(minhash: tuple[Path, Path]) -> None:
    theirs, ours = map(files_of, minhash)
    assert len(theirs) == BUCKETS * TASKS
    assert ours == theirs


def test_the_next_stages_of_minhash_take_our_signatures(
    texts: list[str], minhash: tuple[Path, Path], tmp_path: Path
) -> None:
    for bucket in range(BUCKETS):
        MinhashDedupBuckets(str(minhash[1]), str(tmp_path / "pairs")).run(None, bucket, BUCKETS)
    MinhashDedupCluster(str(tmp_path / "pairs"), str(tmp_path / "removed")).run(None, 0, 1)
    last = MinhashDedupFilter(str(tmp_path / "removed"))
    kept = [
        document.id
        for rank in range(TASKS)
        for document in last.run(task_documents(texts, rank), rank, TASKS)
    ]
    assert "0/0" in kept or "1/0" in kept
    # Copies and changed copies are gone: about 50 of near-duplicates, and a tenth that stood twice.
    assert 40 < len(texts) - len(kept) < 90


@pytest.mark.parametrize("workers", [1, 3])
def test_exact_signatures_are_datatroves_and_its_next_stages_take_them(
    texts: list[str], tmp_path: Path, workers: int
) -> None:
    def whole_text(document: Document) -> str:
        return document.text

    config = ExactDedupConfig(content_getter=whole_text)
    theirs = signed(
        ExactDedupSignature(str(tmp_path / "theirs"), config, workers), texts, tmp_path / "theirs"
    )
    step = ExactSignatures(str(tmp_path / "ours"), finder_workers=workers, batch_bytes="100kB")
    assert signed(step, texts, tmp_path / "ours") == theirs
    for rank in range(workers):
        ExactFindDedups(str(tmp_path / "ours"), str(tmp_path / "found"), step.config).run(None, rank, workers)
    kept = [
        document.text
        for rank in range(TASKS)
        for document in ExactDedupFilter(str(tmp_path / "found"), step.config).run(
            task_documents(texts, rank), rank, TASKS
        )
    ]
    assert sorted(kept) == sorted(set(texts))


@pytest.fixture(scope="module")
def tokenizer(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    (folder / "corpus.txt").write_text("\n".join(texts))
    train([str(folder / "corpus.txt")], vocab_size=2000, output=str(folder / "made"))
    return folder / "made" / "tokenizer.json"


@pytest.fixture(scope="module")
def tokens(texts: list[str], tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What datatrove's tokenizer wrote."""
    folder = tmp_path_factory.mktemp("tokens")
    step = DocumentTokenizer(str(folder), str(tokenizer), eos_token="<|endoftext|>", shuffle_documents=False)
    signed(step, texts, folder)
    return folder


def test_tokens_index_and_metadata_are_byte_for_byte_datatroves(
    texts: list[str], tokenizer: Path, tokens: Path, tmp_path: Path
) -> None:
    ours = signed(Tokenize(str(tmp_path), tokenizer, batch_bytes="100kB"), texts, tmp_path)
    assert len(ours) == 3 * TASKS
    assert ours == files_of(tokens)


def test_datatroves_tokens_are_loaded_and_packed_by_krill(
    texts: list[str], tokenizer: Path, tokens: Path, tmp_path: Path
) -> None:
    encode = load(tokenizer).encode
    eos = load(tokenizer).eos_id
    in_order = [text for rank in range(TASKS) for text in texts[rank::TASKS]]
    expected = [[*encode(text).tolist(), eos] for text in in_order]
    assert [row["input_ids"].tolist() for row in krill.load(tokens)] == expected
    PackDataset(str(tokens), tmp_path / "packed", tokenizer, SEQUENCE_LEN).run()
    rows = krill.load(tmp_path / "packed")
    stream = np.concatenate(expected)
    assert len(rows) == len(stream) // SEQUENCE_LEN
    assert rows[:]["input_ids"].reshape(-1).tolist() == stream[: len(rows) * SEQUENCE_LEN].tolist()


def test_what_datatrove_shuffled_and_merged_is_loaded(
    texts: list[str], tokenizer: Path, tmp_path: Path
) -> None:
    folder = str(tmp_path / "tokens")
    step = DocumentTokenizer(folder, str(tokenizer), eos_token="<|endoftext|>", seed=1)
    signed(step, texts, tmp_path / "tokens")
    DocumentTokenizerMerger(folder, str(tmp_path / "merged"), "all", seed=2).run(None, 0, 1)
    encode = load(tokenizer).encode
    eos = load(tokenizer).eos_id
    found = [row["input_ids"].tolist() for row in krill.load(tmp_path / "merged")]
    assert sorted(found) == sorted([*encode(text).tolist(), eos] for text in texts)


def test_an_export_is_read_by_datatroves_dataset(texts: list[str], tokenizer: Path, tmp_path: Path) -> None:
    (tmp_path / "input.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    settings = {"prepared_path": str(tmp_path / "dataset"), "sequence_len": SEQUENCE_LEN + 1, "min_length": 0}
    krill.preprocess(
        {
            "datasets": [{"path": str(tmp_path / "input.jsonl")}],
            "tokenizer": {"path": str(tokenizer)},
            "preprocess": settings,
        }
    )
    summary = export(tmp_path / "dataset", to="datatrove")
    assert [path.name for path in summary.files] == ["train.ds", "train.ds.index", "train.ds.metadata"]
    rows = krill.load(tmp_path / "dataset")
    from datatrove.utils.dataset import DatatroveFolderDataset

    theirs = DatatroveFolderDataset(str(summary.output), SEQUENCE_LEN, return_positions=True)
    assert len(theirs) == len(rows) > 100
    for number, row in enumerate(rows):
        found = theirs[number]
        assert found["input_ids"].tolist() == row["input_ids"].tolist()
    begins = np.concatenate([np.arange(length) for length in rows[0]["seq_lengths"]])
    assert theirs[0]["positions"].tolist() == begins.tolist()
    assert sum(len(row["input_ids"]) for row in krill.load(summary.files[0])) == len(rows) * (
        SEQUENCE_LEN + 1
    )


@pytest.mark.parametrize(
    "tokens", [0, 7, 99, 100, 999, 1000, 1234, 65_536, 999_499, 1_234_567, 10**9, 3 * 10**12]
)
def test_numbers_of_tokens_are_told_as_datatrove_tells_them(tokens: int) -> None:
    humanize = pytest.importorskip("humanize")
    assert format_tokens(tokens) == humanize.metric(tokens, unit="T")


def _site(document: Document) -> str:
    return str(document.metadata["url"]).split("/")[0]


def _site_bytes(document: Document) -> bytes:
    return _site(document).encode("utf-16")


_site_bytes.__annotations__["return"] = bytes  # datatrove looks at it, and takes no text for a type


def _priority(document: Document) -> int:
    return 1 + len(document.text) % 65_535


@pytest.mark.parametrize(
    "config",
    [
        ExactDedupConfig(content_getter=_site),
        ExactDedupConfig(content_getter=_site_bytes, document_priority=_priority),
        ExactDedupConfig(content_getter=lambda document: document.text, document_priority=_priority),
        ExactDedupConfig(_site, _priority, HashConfig(precision=32)),
        ExactDedupConfig(_site_bytes, _priority, HashConfig(hash_fc="sha1")),
        ExactDedupConfig(_site, hash_config=HashConfig(precision=32, hash_fc="sha1")),
    ],
    ids=[
        "text",
        "bytes and priority",
        "whole text and priority",
        "32 bits",
        "sha1 of bytes",
        "32 bits of sha1",
    ],
)
def test_exact_signatures_of_any_config_are_byte_for_byte_datatroves(
    texts: list[str], tmp_path: Path, config: ExactDedupConfig
) -> None:
    def documents(rank: int) -> list[Document]:
        return [
            Document(text=text, id=f"{rank}/{at}", metadata={"url": f"site{at % 7}.org/{at}"})
            for at, text in enumerate(texts[rank::TASKS])
        ]

    for name, step in (("theirs", ExactDedupSignature), ("ours", ExactSignatures)):
        for rank in range(TASKS):
            step(str(tmp_path / name), config, finder_workers=3).run(documents(rank), rank, TASKS)
        step(str(tmp_path / name), config, finder_workers=3).run(iter([]), TASKS, TASKS + 1)
    assert files_of(tmp_path / "ours") == files_of(tmp_path / "theirs")
    kept = []
    for name in ("theirs", "ours"):
        for rank in range(3):
            ExactFindDedups(str(tmp_path / name), str(tmp_path / f"{name}-found"), config).run(None, rank, 3)
        left = ExactDedupFilter(str(tmp_path / f"{name}-found"), config)
        kept.append([document.id for rank in range(TASKS) for document in left.run(documents(rank), rank)])
    assert 7 <= len(kept[0]) < len(texts)
    assert kept[0] == kept[1]
