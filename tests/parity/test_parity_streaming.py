"""Streaming beside the loop that people write: `datasets` reads, `tokenizers` encodes, lists are cut."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

import krill
from krill.loading.stream.loader import StreamingDataLoader
from real_text import real_texts

SEQ_LEN, BATCH = 64, 8


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, sample: Path) -> Path:
    """Real documents in several languages, one of them empty."""
    path = tmp_path_factory.mktemp("corpus") / "documents.jsonl"
    texts = [*islice(real_texts(), 60), "", *islice(real_texts(), 60, 100)]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def tokenizer(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("tokenizer") / "tokenizer"
    krill.tokenizer.train([str(corpus)], vocab_size=1000, memory="256MB", output=folder)
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def peer_batches(
    corpus: Path, tokenizer: Tokenizer, stride: int, max_examples: int | None = None
) -> list[dict[str, Any]]:
    """The loop, in input order."""
    from datasets import load_dataset

    buffer: list[int] = []
    rows: list[list[int]] = []
    batches = []
    eos = tokenizer.token_to_id("<|endoftext|>")
    dataset = load_dataset("json", data_files=str(corpus), split="train", streaming=True)
    for number, example in enumerate(dataset):
        if max_examples is not None and number >= max_examples:
            break
        if not example["text"]:
            continue
        buffer.extend([*tokenizer.encode(example["text"]).ids, eos])
        while len(buffer) >= SEQ_LEN + 1:
            rows.append(buffer[: SEQ_LEN + 1])
            buffer = buffer[stride:]
            if len(rows) == BATCH:
                batch = np.array(rows, np.int32)
                batches.append({"input_ids": batch[:, :-1], "labels": batch[:, 1:]})
                rows = []
    return batches


def loader_of(corpus: Path, tokenizer: Any, **options: Any) -> StreamingDataLoader:
    return StreamingDataLoader(str(corpus), tokenizer, SEQ_LEN, BATCH, memory="300MB", **options)


def check_equal(ours: StreamingDataLoader, theirs: list[dict[str, Any]]) -> None:
    found = list(ours)
    assert len(found) == len(theirs)
    for mine, other in zip(found, theirs, strict=True):
        for name in ("input_ids", "labels"):
            assert mine[name].dtype == other[name].dtype
            assert np.array_equal(mine[name], other[name])


@pytest.mark.parametrize("stride", [SEQ_LEN, 48])
def test_batches_equal_the_loop_where_the_order_is_left_alone(
    corpus: Path, tokenizer: Tokenizer, stride: int
) -> None:
    loader = loader_of(corpus, tokenizer, stride=stride, shuffle_buffer_size=0)
    assert loader.why_not_native is None
    check_equal(loader, peer_batches(corpus, tokenizer, stride))


def test_max_examples_end_where_the_loop_ends(corpus: Path, tokenizer: Tokenizer) -> None:
    loader = loader_of(corpus, tokenizer, max_examples=70, shuffle_buffer_size=0)
    check_equal(loader, peer_batches(corpus, tokenizer, SEQ_LEN, max_examples=70))


def test_a_tokenizer_that_is_not_accelerated_gives_the_same_batches_as_its_library(
    corpus: Path, tokenizer: Tokenizer
) -> None:
    from tokenizers.processors import TemplateProcessing

    twice = Tokenizer.from_str(tokenizer.to_str())
    twice.post_processor = TemplateProcessing(single="$A $A")
    loader = loader_of(corpus, twice, max_examples=40, shuffle_buffer_size=0, max_document_bytes="500KB")
    assert loader.why_not_native == "its template holds the text more than once"
    check_equal(loader, peer_batches(corpus, twice, SEQ_LEN, max_examples=40))


def test_shuffled_batches_have_the_sequences_of_the_loop_once_each(
    corpus: Path, tokenizer: Tokenizer
) -> None:
    theirs = peer_batches(corpus, tokenizer, SEQ_LEN)
    wanted = Counter(row.tobytes() for batch in theirs for row in batch["input_ids"])
    for options in ({"shuffle_buffer_size": 200}, {"streaming": False}):
        loader = loader_of(corpus, tokenizer, **options)
        found = Counter(row.tobytes() for batch in loader for row in batch["input_ids"])
        # The last short batch is dropped, which sequences that is depends on the order.
        assert found.total() == wanted.total()
        assert (found - wanted).total() < BATCH
