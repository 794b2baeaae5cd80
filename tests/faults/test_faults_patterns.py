"""A pattern that can't be matched in some text is an error of that document, wherever it is used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from krill.errors import InputError
from krill.loading import StreamingDataLoader
from krill.qa import prepare
from krill.tokenizer import load

PATTERN = "(?:(a|a)+)+$"
FOREVER = "a" * 200_000 + "b"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tokenizer whose pattern matches a run of one letter in more ways than can be tried."""
    split = {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False}
    tokenizer: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": split,
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "a": 1}, "unk_token": "[UNK]"},
    }
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "tokenizer" / "tokenizer.json").write_text(json.dumps(tokenizer))
    rows = [{"text": "fine " * 30}, {"text": FOREVER}]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_preprocessing_names_the_file_the_place_and_the_pattern(krill: Any, folder: Path) -> None:
    config = {
        "datasets": [{"path": "texts.jsonl"}],
        "tokenizer": {"path": "tokenizer"},
        "preprocess": {"sequence_len": 64, "prepared_path": "out", "max_document_bytes": "1MB"},
    }
    (folder / "config.yaml").write_text(json.dumps(config))
    done = krill("preprocess", "config.yaml", "--memory", "400MB", "--quiet", cwd=folder)
    assert done.code == 3
    offset = len(json.dumps({"text": "fine " * 30})) + 1
    assert f"`texts.jsonl`, the document at byte {offset}" in done.err
    assert PATTERN in done.err
    assert "Traceback" not in done.err


def test_encoding_a_file_names_it_too(krill: Any, folder: Path) -> None:
    done = krill(
        *("tokenizer", "encode", "--tokenizer", "tokenizer", "--input", "texts.jsonl", "--output", "out.bin"),
        cwd=folder,
    )
    assert done.code == 3
    assert "`texts.jsonl`, the document at byte" in done.err and PATTERN in done.err


def test_the_python_face_raises_an_input_error(folder: Path) -> None:
    tokenizer = load(folder / "tokenizer", memory="400MB", threads=1)
    for call in (
        tokenizer.encode,
        tokenizer.encode_offsets,
        lambda text: tokenizer.encode_batch(["a", text]),
    ):
        with pytest.raises(InputError, match=r"gave up on it \(its pattern is"):
            call(FOREVER)


def test_streaming_names_the_document(folder: Path) -> None:
    with pytest.raises(InputError, match=r"texts.jsonl`, the document at byte \d+: the tokenizer gave up"):
        list(StreamingDataLoader(folder / "texts.jsonl", folder / "tokenizer", batch_size=1, seq_len=16))


def test_questions_name_the_text(folder: Path) -> None:
    row = {"id": "1", "question": "what?", "context": FOREVER, "answers": []}
    (folder / "questions.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(InputError, match=r"the text that begins `aaaa.*gave up on it"):
        prepare(folder / "questions.jsonl", folder / "tokenizer", output=folder / "cache", memory="400MB")
