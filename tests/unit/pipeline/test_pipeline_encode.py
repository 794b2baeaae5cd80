"""What documents begin with, and tokenizers that don't fit the config."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

import krill
from krill import _native
from krill.dataset import Dataset
from krill.errors import ConfigError
from krill.pipeline.block_encoder import EncodedBlock, SeenBlock, TokenQuota, missing_bos
from krill.tokenizer import ByteEncoder
from krill.tokenizer.open import open_file

TEXTS = ["a first document", "another one, longer than the first", "<s>a third"]


def write_tokenizer(folder: Path, *, special: list[str], adds: bool = False, declares: Any = None) -> Path:
    """A byte-level BPE; it may put its first special token before every text, or declare a BOS."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=special, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(TEXTS, trainer)
    if adds:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{special[0]} $A", special_tokens=[(special[0], 0)]
        )
    tokenizer.save(str(folder / "tokenizer.json"))
    if declares is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": declares}))
    return folder / "tokenizer.json"


def test_the_declared_token_comes_before_well_known_names(tmp_path: Path) -> None:
    file = write_tokenizer(tmp_path, special=["</s>", "<s>", "<go>"], declares={"content": "<go>"})
    assert missing_bos(open_file(file, None, 1)) == 2
    file = write_tokenizer(tmp_path / "other", special=["</s>", "<s>"])
    assert missing_bos(open_file(file, None, 1)) == 1


def test_one_token_may_begin_and_end_documents(tmp_path: Path) -> None:
    file = write_tokenizer(tmp_path, special=["<|endoftext|>"], declares="<|endoftext|>")
    assert missing_bos(open_file(file, None, 1)) == 0


def test_a_tokenizer_that_adds_its_own_needs_no_other(tmp_path: Path) -> None:
    file = write_tokenizer(tmp_path, special=["<s>", "</s>"], adds=True)
    assert missing_bos(open_file(file, None, 1)) is None


def test_a_tokenizer_without_one_is_refused(tmp_path: Path) -> None:
    file = write_tokenizer(tmp_path, special=["</s>"], declares="<gone>")
    for encoder in (open_file(file, None, 1), ByteEncoder()):
        with pytest.raises(ConfigError, match="has no beginning-of-text token") as caught:
            missing_bos(encoder)
        assert "declare a `bos_token`" in str(caught.value.hint)


def prepare(folder: Path, tokenizer: dict[str, Any], **settings: Any) -> Path:
    (folder / "input.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    defaults = {"prepared_path": str(folder / "out"), "sequence_len": 64, "min_length": 0, "min_chars": 0}
    krill.preprocess(
        {
            "memory": "256MB",
            "datasets": [{"path": str(folder / "input.jsonl")}],
            "tokenizer": tokenizer,
            "preprocess": {**defaults, "packing": "none", **settings},
        }
    )
    return folder / "out"


@pytest.mark.parametrize("adds", [False, True])
def test_each_document_begins_with_one_bos(tmp_path: Path, adds: bool) -> None:
    file = write_tokenizer(tmp_path, special=["<s>", "</s>"], adds=adds)
    library = Tokenizer.from_file(str(file))
    expected = [[0, *library.encode(text, add_special_tokens=False).ids, 1] for text in TEXTS]
    out = prepare(tmp_path, {"path": str(file)}, bos=True, token_dtype="int32")
    assert [row["input_ids"].tolist() for row in Dataset(out)] == expected
    # The text that begins with the token itself has it twice, as it should.
    assert expected[2][:2] == [0, 0]


def test_ids_beyond_the_declared_vocabulary_are_refused(tmp_path: Path) -> None:
    file = write_tokenizer(tmp_path, special=["<s>", "</s>"])
    size = Tokenizer.from_file(str(file)).get_vocab_size()
    message = rf"`tokenizer.vocab_size` is 256, and the tokenizer `.*` has ids up to {size - 1}"
    with pytest.raises(ConfigError, match=message) as caught:
        prepare(tmp_path, {"path": str(file), "vocab_size": 256})
    assert f"set it to {size}" in str(caught.value.hint)
    assert not (tmp_path / "out").exists()
    prepare(tmp_path, {"path": str(file), "vocab_size": size})


def test_a_vocabulary_that_nobody_declared_is_not_held_against_a_tokenizer(tmp_path: Path) -> None:
    file = write_tokenizer(tmp_path, special=["<s>", *(f"<{number}>" for number in range(32_100))])
    assert len(Dataset(prepare(tmp_path, {"path": str(file)}))) == len(TEXTS)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_beginnings_are_put_before_documents_of_any_type(dtype: str) -> None:
    ids, lengths = _native.prepend_token(np.arange(6, dtype=dtype), np.array([2, 0, 4], np.uint32), 9)
    assert ids.tolist() == [9, 0, 1, 9, 9, 2, 3, 4, 5]
    assert ids.dtype == dtype
    assert lengths.tolist() == [3, 1, 5]


def test_lengths_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(ValueError, match="lengths don't add up"):
        _native.prepend_token(np.arange(6, dtype=np.uint16), np.array([2, 5], np.uint32), 9)


def encoded(outcomes: list[int], lengths: list[int]) -> EncodedBlock:
    ids = np.repeat(np.arange(len(lengths)), lengths)
    runs = []
    for split in (0, 1):
        chosen = [at for at, outcome in enumerate(outcomes) if outcome == split]
        runs.append((ids[np.isin(ids, chosen)], np.array([lengths[at] for at in chosen], np.uint32)))
    seen = SeenBlock(len(lengths), 0, {}, np.zeros(len(lengths), np.int64), [])
    return EncodedBlock(seen, {}, np.array(outcomes, np.uint8), np.array(lengths, np.uint32), tuple(runs))


def test_a_quota_ends_with_the_first_document_that_does_not_fit() -> None:
    quota = TokenQuota(10)
    first = quota.take(encoded([0, 1, 2, 0], [4, 50, 60, 5]))
    assert [run[1].tolist() for run in first.splits] == [[4, 5], [50]]
    assert not quota.full
    second = quota.take(encoded([1, 0, 0, 1, 0], [3, 1, 2, 9, 1]))
    assert [run[1].tolist() for run in second.splits] == [[1], [3]]
    assert [run[0].tolist() for run in second.splits] == [[1], [0, 0, 0]]
    assert (len(second.outcomes), second.documents) == (2, 5)
    assert quota.full
    third = quota.take(encoded([0, 1], [1, 1]))
    assert [len(run[0]) for run in third.splits] == [0, 0]
    assert (len(third.outcomes), third.documents) == (0, 2)


def test_a_quota_goes_on_where_it_was() -> None:
    quota = TokenQuota(10)
    quota.resume({"train": {"tokens": 8}, "full": False})
    assert len(quota.take(encoded([0, 0], [2, 1])).outcomes) == 1
    quota = TokenQuota(10)
    quota.resume({"train": {"tokens": 8}, "full": True})
    assert len(quota.take(encoded([0], [1])).outcomes) == 0
