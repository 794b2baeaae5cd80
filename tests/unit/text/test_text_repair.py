"""Repair: control characters and lines are removed, mojibake is mended, and documents are noted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import krill
from krill.config import filters, load_config
from krill.corpus.documents import Documents
from krill.errors import ConfigError
from krill.text.build import changes_text, step_needs
from krill.text.control_chars import WithoutControlChars
from krill.text.ftfy_repair import FtfyRepair
from krill.text.line_cleaner import LineCleaner
from oracles.clean import reference_line_cleaner
from properties import tried


def documents_of(texts: list[str]) -> Documents:
    columns = [pa.array(texts, pa.large_string()), pa.array(range(len(texts)), pa.uint64())]
    return Documents(pa.RecordBatch.from_arrays(columns, ["text", "position"]), {"too_short": 3})


def test_control_characters_go_and_tabs_and_line_ends_stay() -> None:
    result = WithoutControlChars().apply(
        documents_of(["a\0b\x1fc", "tab\tline\r\n\f", "\ufeffé\x7f日\ufffc", ""])
    )
    assert result.batch["text"].to_pylist() == ["abc", "tab\tline\r\n\f", "é日", ""]
    assert result.counts == {"too_short": 3, "control_chars_removed": 2}


def test_nothing_is_copied_where_nothing_is_removed() -> None:
    documents = documents_of(["plain", "größe"])
    assert WithoutControlChars().apply(documents) is documents
    assert LineCleaner(filters.Lines()).apply(documents) is documents
    assert FtfyRepair(filters.Ftfy()).apply(documents_of(["plain", "日本語"])).counts == {"too_short": 3}


@tried(150)
@given(
    st.lists(st.text("a1é日 \t\n\u3000-*=|…", max_size=20), min_size=1, max_size=5),
    st.booleans(),
    st.lists(st.sampled_from(["a", " a1 ", "é-", "日 日", "--"]), min_size=1, max_size=3),
)
def test_lines_are_removed_as_the_reference_removes_them(
    texts: list[str], symbol_only: bool, remove: list[str]
) -> None:
    step = LineCleaner(filters.Lines(symbol_only=symbol_only, remove=tuple(remove)))
    expected = [reference_line_cleaner(text, symbol_only, remove) for text in texts]
    result = step.apply(documents_of(texts))
    assert result.batch["text"].to_pylist() == expected
    changed = sum(text != kept for text, kept in zip(texts, expected, strict=True))
    assert result.counts.get("lines_removed", 0) == changed


def test_lines_of_a_file_are_removed_and_are_a_part_of_the_run(tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("Share on Facebook\n\nRead more »\n")
    step = LineCleaner(filters.Lines(symbol_only=False, remove=str(file)))
    result = step.apply(documents_of(["Title\n  Share on Facebook\t\nText\n\n***\nread more »"]))
    assert result.batch["text"].to_pylist() == ["Title\nText\n\n***\nread more »"]
    before = step.fingerprint()
    file.write_text("Share\n")
    assert LineCleaner(filters.Lines(symbol_only=False, remove=str(file))).fingerprint() != before
    with pytest.raises(ConfigError, match="must have lines to `remove`"):
        load_config({"preprocess": {"filters": [{"lines": {"symbol_only": False}}]}})


def test_mojibake_and_entities_are_mended_in_some_rows_of_a_batch() -> None:
    texts = ["plain", "voilÃ le travail", "schÃ¶n &amp; gut", "é und ü", "“quoted”"]
    result = FtfyRepair(filters.Ftfy()).apply(documents_of(texts))
    assert result.batch["text"].to_pylist() == [
        "plain",
        "voilà le travail",
        "schön & gut",
        "é und ü",
        "“quoted”",
    ]
    assert result.counts == {"too_short": 3, "text_repaired": 2}
    straight = FtfyRepair(filters.Ftfy(uncurl_quotes=True)).apply(documents_of(texts))
    assert straight.batch["text"].to_pylist()[-1] == '"quoted"'


def test_a_run_notes_what_was_mended(tmp_path: Path) -> None:
    texts = ["A page about krill, it is schÃ¶n.", "=====\nA page\0 about whales", "A page about the sea."]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    config: dict[str, Any] = {
        "datasets": [{"path": str(source)}],
        "preprocess": {
            "prepared_path": str(tmp_path / "out"),
            "output": "text",
            "min_chars": 0,
            "filters": ["control_chars", "ftfy", "lines"],
        },
    }
    summary = krill.preprocess(config, memory="400MB")
    assert summary.manifest.documents["notes"] == {
        "text_repaired": 1,
        "control_chars_removed": 1,
        "lines_removed": 1,
    }
    assert summary.manifest.documents["dropped"] == {}
    table = parquet.read_table(tmp_path / "out" / "text-00000.parquet")
    assert table["text"].to_pylist() == [
        "A page about krill, it is schön.",
        "A page about whales",
        "A page about the sea.",
    ]
    settings = load_config(config).preprocess
    assert changes_text(settings)
    assert {need.name for need in step_needs(settings, 1)} == {"ftfy", "lines to remove"}
