"""COMPAT: `run_datatrove_pipeline(config)` and `tokenize_and_pack(data, config)`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import krill
from krill.dataset import Dataset
from krill.errors import InputError

TEXTS = [f"Document {number} speaks of krill, whales and the sea. " * 4 for number in range(20)]


def config(folder: Path) -> dict[str, Any]:
    source = folder / "in.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in [*TEXTS, *TEXTS[:5], "short"]))
    return {
        "memory": "400MB",
        "datasets": [{"path": str(source)}],
        "tokenizer": {"builtin": "bytes"},
        "preprocess": {"prepared_path": str(folder / "out"), "sequence_len": 128, "min_length": 10},
    }


def rows(folder: Path) -> Any:
    return Dataset(folder)[:]["input_ids"]


def test_two_calls_make_what_one_makes(tmp_path: Path) -> None:
    settings = config(tmp_path)
    text = krill.run_datatrove_pipeline(settings)
    assert (text.output, text.manifest.documents["kept"]) == (tmp_path / "out-text", 20)
    krill.tokenize_and_pack(text, settings)
    settings["preprocess"]["prepared_path"] = str(tmp_path / "at-once")
    krill.preprocess(settings)
    assert (rows(tmp_path / "out") == rows(tmp_path / "at-once")).all()


@pytest.mark.parametrize("as_rows", [False, True])
def test_texts_are_packed_as_they_come(tmp_path: Path, as_rows: bool) -> None:
    settings = config(tmp_path)
    data = [{"text": text} for text in TEXTS] if as_rows else TEXTS
    summary = krill.tokenize_and_pack(iter(data), settings)
    assert summary.manifest.documents["kept"] == 20
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out"]


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="document 1 is not text: `5`"):
        krill.tokenize_and_pack(["some text", {"text": 5}], config(tmp_path))
