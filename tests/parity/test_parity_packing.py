"""Rows equal TRL's, and go through TRL's own collators."""

from __future__ import annotations

import gzip
import json
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import krill
from krill import _native
from krill.pack import piece_lengths
from peers import peer

trl = peer("trl")
datasets = peer("datasets")


def packed_by_trl(documents: list[list[int]], sequence_len: int, strategy: str) -> list[dict[str, Any]]:
    dataset = datasets.Dataset.from_dict({"input_ids": documents})
    packed = trl.pack_dataset(dataset, sequence_len, strategy, map_kwargs={"batch_size": len(documents)})
    return [dict(row) for row in packed]


def packed_by_krill(documents: list[list[int]], sequence_len: int) -> list[dict[str, Any]]:
    window = _native.PackedWindow(np.array([len(d) for d in documents], np.uint32), sequence_len, True)
    tokens = np.concatenate([np.array(document) for document in documents])
    starts, lengths, offsets = window.pieces(0, window.rows)
    rows = []
    for first, end in pairwise(offsets):
        pieces = [tokens[starts[i] : starts[i] + lengths[i]] for i in range(first, end)]
        rows.append(
            {"input_ids": np.concatenate(pieces).tolist(), "seq_lengths": lengths[first:end].tolist()}
        )
    return rows


@pytest.mark.parametrize(
    ("count", "sequence_len", "typical"), [(1500, 64, 30), (700, 100, 300), (200, 2048, 700), (300, 7, 5)]
)
def test_best_fit_is_trls_row_by_row(count: int, sequence_len: int, typical: int) -> None:
    rng = np.random.default_rng(count)
    lengths = np.maximum(1, rng.lognormal(np.log(typical), 1, count)).astype(int)
    documents = [rng.integers(0, 30_000, length).tolist() for length in lengths]
    assert packed_by_krill(documents, sequence_len) == packed_by_trl(documents, sequence_len, "bfd_split")


def test_pieces_of_wrapped_rows_are_as_long_as_trls_rows() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 90, 400)
    documents = [rng.integers(0, 30_000, length).tolist() for length in lengths]
    theirs = packed_by_trl(documents, 64, "wrapped")
    rows = int(lengths.sum()) // 64
    ends = np.cumsum(lengths, dtype=np.int64)
    offsets, pieces = piece_lengths(ends[ends <= rows * 64], rows, 64)
    sums = [int(pieces[a:b].sum()) for a, b in pairwise(offsets)]
    assert sums == [len(row["input_ids"]) for row in theirs[:rows]]


def prepared(folder: Path, texts: list[str], packing: str, **settings: Any) -> Any:
    """The rows of a whole run, as Hugging Face opens them."""
    (folder / "input.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    defaults = {"prepared_path": str(folder / "out"), "min_length": 0, "min_chars": 0, "strip": False}
    krill.preprocess(
        {
            "memory": "300MB",
            "datasets": [{"path": str(folder / "input.jsonl")}],
            "tokenizer": {"builtin": "bytes"},
            "preprocess": {**defaults, "dedup": "none", "packing": packing, **settings},
        }
    )
    return datasets.load_from_disk(str(folder / "out"))


def test_a_whole_run_on_real_text_gives_trls_rows(tmp_path: Path, sample: Path) -> None:
    with gzip.open(sample) as file:
        texts = [json.loads(line)["text"] for line in islice(file, 150)]
    documents = [[*text.encode(), 256] for text in texts]
    assert max(map(len, documents)) < 250_000, "documents must pass whole"
    found = prepared(
        tmp_path, texts, "bfd", sequence_len=1000, unit_bytes="300KB", max_document_bytes="250KB"
    )
    assert [dict(row) for row in found] == packed_by_trl(documents, 1000, "bfd_split")


@pytest.mark.parametrize("padding_free", [True, False])
@pytest.mark.parametrize("packing", ["wrapped", "bfd", "none"])
def test_rows_go_through_trls_collators(tmp_path: Path, packing: str, padding_free: bool) -> None:
    torch = pytest.importorskip("torch")
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

    texts = [f"document {number} " * (1 + number % 13) for number in range(60)]
    rows = [dict(row) for row in prepared(tmp_path, texts, packing, sequence_len=100)]
    collator = DataCollatorForLanguageModeling(pad_token_id=0, padding_free=padding_free)
    for start in range(0, len(rows), 8):
        batch = rows[start : start + 8]
        found = collator(batch)
        ids = [row["input_ids"] for row in batch]
        if padding_free:
            assert found["input_ids"].tolist() == [[token for row in ids for token in row]]
            positions = [list(range(length)) for row in batch for length in row["seq_lengths"]]
            assert found["position_ids"].tolist() == [[at for piece in positions for at in piece]]
        else:
            assert found["attention_mask"].sum(dim=1).tolist() == [len(row) for row in ids]
            for row, tokens in zip(found["input_ids"], ids, strict=True):
                assert row[: len(tokens)].tolist() == tokens
        assert found["labels"].dtype == torch.int64
