"""Encoders in their own processes, and how their ids are compared."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from krill.errors import ConfigError, InputError, KrillError
from krill.tokenizer.compare_encode import ENCODE_PEERS, compare_encoders, differing_hashes
from krill.tokenizer.peers import DIGEST, _batches

LINE = "a krill in the sea, <|endoftext|> Ärger im Eis: 1234 鯨, café\r\n"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "corpus.txt"
    file.write_bytes("".join(f"{LINE}{number}\n\n" for number in range(2000)).encode())
    return file


def byte_level(path: Path, normalizer: normalizers.Normalizer | None = None) -> Path:
    """With a template that adds a token at either end."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<s>", "</s>", "<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([LINE], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    tokenizer.save(str(path))
    return path


@pytest.mark.parametrize("threads", [1, 2])
def test_peers_that_load_a_tokenizer_have_our_ids(tmp_path: Path, text: Path, threads: int) -> None:
    tokenizer = byte_level(tmp_path / "tokenizer.json")
    installed = [name for name in ENCODE_PEERS if find_spec(name) is not None]
    assert {"tokenizers", "tiktoken"} <= set(installed)
    seen: list[str] = []
    result = compare_encoders(
        tmp_path, text, threads=threads, peers=installed, each=lambda trial: seen.append(trial.name)
    )
    assert seen == ["krill", *installed]
    assert result.tokenizer == tokenizer
    texts = [piece for batch in _batches(str(text), 10**6) for piece in batch]
    library = Tokenizer.from_file(str(tokenizer))
    tokens = sum(len(library.encode(piece, add_special_tokens=False)) for piece in texts)
    assert result.documents == len(texts) > 30
    assert [(trial.fault, trial.differing, trial.tokens) for trial in result.trials] == [
        (None, 0, tokens) for _ in seen
    ]
    assert all(trial.load > 0 and trial.seconds > 0 and trial.peak > 10**7 for trial in result.trials)


def test_ids_that_are_not_ours_are_counted(tmp_path: Path) -> None:
    """tiktoken takes a word that is in the vocabulary as it is; here no merges make it."""
    file = byte_level(tmp_path / "tokenizer.json")
    spec = json.loads(file.read_bytes())
    spec["model"]["vocab"]["zzz"] = 400
    file.write_text(json.dumps(spec))
    text = tmp_path / "corpus.txt"
    text.write_text("y " * 3000 + "\nzzz" + " y" * 3000 + "\n")
    result = compare_encoders(file, text, threads=1, peers=["tokenizers", "tiktoken"])
    assert [trial.differing for trial in result.trials] == [0, 0, 1]
    assert result.to_json()["encoders"][2]["differing_documents"] == 1


@pytest.mark.skipif(find_spec("gigatoken") is not None, reason="gigatoken is installed")
def test_an_encoder_that_is_not_installed_is_listed_with_how_to_get_it(tmp_path: Path, text: Path) -> None:
    result = compare_encoders(byte_level(tmp_path / "t.json"), text, threads=1, peers=["gigatoken"])
    assert result.to_json()["encoders"][1] == {
        "name": "gigatoken",
        "fault": "not installed",
        "remedy": "pip install gigatoken",
    }


def test_an_encoder_that_cannot_load_it_is_listed_with_its_reason(tmp_path: Path, text: Path) -> None:
    tokenizer = byte_level(tmp_path / "t.json", normalizers.Lowercase())
    result = compare_encoders(tokenizer, text, threads=1, peers=["tiktoken", "tokenizers"])
    _, refused, equal = result.trials
    assert refused.fault == "takes byte-level BPE with one pattern and no normalizer, and nothing else"
    assert (equal.fault, equal.differing) == (None, 0)


def test_what_krill_refuses_is_said_as_krill_says_it(tmp_path: Path, text: Path) -> None:
    with pytest.raises(ConfigError, match="no encoder `minbpe`"):
        compare_encoders(tmp_path, text, threads=1, peers=["minbpe"])
    with pytest.raises(InputError, match="no tokenizer at"):
        compare_encoders(tmp_path / "absent", text, threads=1)
    tokenizer = byte_level(tmp_path / "t.json")
    with pytest.raises(KrillError, match="the budget is too small") as caught:
        compare_encoders(tokenizer, text, threads=1, memory="20MB", peers=[])
    assert caught.value.exit_code == 4
    tokenizer.write_text("{")
    with pytest.raises(KrillError, match=r"t\.json") as caught:
        compare_encoders(tokenizer, text, threads=1, peers=[])
    assert "Traceback" not in str(caught.value)


def test_documents_are_all_of_the_text_in_bounded_pieces(tmp_path: Path) -> None:
    file = tmp_path / "corpus.txt"
    content = "line\r\n\n" * 3000 + "x" * 50_000 + "\nlast"
    file.write_bytes(content.encode())
    batches = list(_batches(str(file), 10_000))
    pieces = [piece for batch in batches for piece in batch]
    assert "".join(pieces) == content
    assert max(map(len, pieces)) <= 8000
    assert all(sum(map(len, batch)) <= 18_000 for batch in batches)
    assert all(piece.endswith("\n") for piece in pieces[:5])


@pytest.mark.parametrize(
    ("left", "right", "count"), [("abc", "abc", 0), ("abc", "axc", 1), ("abc", "ab", 1), ("", "ab", 2)]
)
def test_hashes_are_compared_block_by_block(tmp_path: Path, left: str, right: str, count: int) -> None:
    for name, letters in (("left", left), ("right", right)):
        (tmp_path / name).write_bytes(b"".join(letter.encode() * DIGEST for letter in letters))
    assert differing_hashes(tmp_path / "left", tmp_path / "right", 2 * DIGEST) == count
