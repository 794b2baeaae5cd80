"""In notebooks, summaries, datasets and tokenizers show what they are, and nothing in them is obeyed."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path

import krill
from krill.notebook import facts_html, tokens_html
from krill.tokenizer.sample_texts import SAMPLE_TEXTS
from report_runs import HOSTILE, make_dataset, make_tokenizer, write_documents

NAME = '<script>alert(1)<\u202ex> & "more"'


def rows_of(shown: str) -> dict[str, str]:
    found = re.findall(r"<tr><td[^>]*>(.*?)</td><td[^>]*>(.*?)</td></tr>", shown)
    return {html.unescape(label): html.unescape(value) for label, value in found}


def assert_harmless(shown: str) -> None:
    assert set(re.findall(r"<\s*/?\s*(\w+)", shown)) <= {"div", "b", "table", "tr", "td", "pre", "span"}
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e]", shown)
    assert set(re.findall(r" (\w+)=\"", shown)) <= {"style", "title"}


def test_a_summary_has_counts_reasons_memory_and_the_command_for_more(tmp_path: Path) -> None:
    write_documents(tmp_path / "documents.jsonl")
    config = {
        "datasets": [{"path": str(tmp_path / "documents.jsonl")}],
        "tokenizer": {"builtin": "bytes"},
        "preprocess": {
            "prepared_path": str(tmp_path / "out put"),
            "sequence_len": 128,
            "min_length": 0,
            "min_chars": 50,
        },
    }
    summary = krill.preprocess(config, memory="400MB")
    shown = summary._repr_html_()
    rows = rows_of(shown)
    assert "krill preprocess: done" in shown
    assert rows["documents"] == "64 read, 61 kept"
    assert rows["rows"] == f"{summary.manifest.dataset.rows:,}"
    assert rows["memory"].endswith("of 400 MB")
    assert rows["more"] == f"krill report '{tmp_path / 'out put'}'"
    assert "2 duplicate" in shown and "1 too_short" in shown


def test_a_summary_of_a_tokenizer_has_its_figures(tmp_path: Path) -> None:
    source = write_documents(tmp_path / "documents.jsonl")
    trained = krill.tokenizer.train([source], vocab_size=400, memory="300MB", output=tmp_path / NAME)
    shown = trained._repr_html_()
    assert_harmless(shown)
    rows = rows_of(shown)
    assert rows["vocab size"] == "400"
    assert rows["output"].endswith(NAME.replace("\u202e", r"\u202e"))


def test_a_dataset_says_what_is_in_it_without_reading_a_row(tmp_path: Path) -> None:
    folder = make_dataset(tmp_path, NAME)
    dataset = krill.load(folder, memory="64MB")
    for shard in folder.glob("*.arrow"):
        shard.unlink()
    shown = dataset._repr_html_()
    assert_harmless(shown)
    rows = rows_of(shown)
    assert rows["rows"] == f"{len(dataset):,}"
    assert rows["tokens in a row"] == "128"
    assert rows["tokens"] == f"{128 * len(dataset):,}"
    assert rows["budget"] == "64.0 MB"


def test_a_tokenizer_shows_how_it_cuts_texts(tmp_path: Path) -> None:
    tokenizer = krill.tokenizer.load(make_tokenizer(tmp_path), memory="128MB", threads=1)
    shown = tokenizer._repr_html_()
    assert_harmless(shown)
    texts = re.findall(r"<pre[^>]*>(.*?)</pre>", shown, re.DOTALL)
    tokens = re.findall(r"<span title=\"(\d+)\"[^>]*>(.*?)</span>", texts[0])
    assert [int(number) for number, _ in tokens] == tokenizer.encode(SAMPLE_TEXTS["English"]).tolist()
    assert html.unescape("".join(text for _, text in tokens)) == SAMPLE_TEXTS["English"]
    assert len(shown) < 30_000


def test_texts_of_any_kind_are_shown_and_not_obeyed() -> None:
    shown = facts_html(HOSTILE, [(HOSTILE, HOSTILE), ("long", "x" * 1000)]) + tokens_html([(7, HOSTILE)])
    assert_harmless(shown)
    assert shown.count("&lt;script&gt;") == 4
    assert "x" * 300 + "..." in shown and "x" * 301 not in shown


def test_nothing_that_draws_is_loaded(tmp_path: Path) -> None:
    folder = make_tokenizer(tmp_path)
    script = "import sys, krill; krill.tokenizer.load(sys.argv[1])._repr_html_(); print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script, folder], check=True, capture_output=True, text=True
    ).stdout.split()
    assert "krill.notebook" in loaded
    assert not {"matplotlib", "jinja2", "krill.report"} & set(loaded)
