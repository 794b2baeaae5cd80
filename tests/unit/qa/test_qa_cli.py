"""`krill qa prepare`: what it prints, and how it ends."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from krill.errors import ConfigError
from krill.qa import QaDataset
from questions import story_file, tokenizer_of


@pytest.fixture
def arguments(tmp_path) -> list[str]:
    story_file(tmp_path / "dev.json")
    tokenizer_of("wordpiece").save_pretrained(tmp_path / "tokenizer")
    return [
        *("qa", "prepare", str(tmp_path / "dev.json"), "--tokenizer", str(tmp_path / "tokenizer")),
        *("--output", str(tmp_path / "out"), "--max-seq-length", "48", "--doc-stride", "12"),
        *("--memory", "800MB", "--threads", "1"),
    ]


def test_the_summary_tells_questions_features_and_memory(krill, arguments, tmp_path) -> None:
    printed = krill(*arguments).out
    assert re.search(r"questions +24\s+contexts +6\s", printed)
    assert f"{len(QaDataset(tmp_path / 'out')):,}" in printed
    assert "nothing to do" in krill(*arguments).out


def test_json_is_the_manifest_but_its_timeline_and_how_it_ended(krill, arguments, tmp_path) -> None:
    result = krill(*arguments, "--json", "--quiet", "--max-examples", "5", "--max-segments", "1").result
    assert (result["status"], result["output"]) == ("done", str(tmp_path / "out"))
    assert (result["examples"], result["features"]) == (5, 5)
    stored = json.loads((Path(result["output"]) / "krill-run.json").read_text())
    assert len(stored.pop("timeline")["samples"]) > 0  # only in the file
    assert {key: result[key] for key in stored} == stored


def test_another_stride_in_the_same_folder_is_refused_unless_overwritten(krill, arguments) -> None:
    assert krill(*arguments, "--quiet").code == 0
    changed = [*arguments, "--quiet"]
    changed[changed.index("--doc-stride") + 1] = "8"
    refused = krill(*changed)
    assert refused.code == ConfigError.exit_code
    assert "doc_stride: `12` -> `8`" in refused.err
    assert krill(*changed, "--overwrite").code == 0
