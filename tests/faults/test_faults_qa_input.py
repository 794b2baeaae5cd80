"""Questions that are not as they should be, through the command: a reason that is counted, or an error that
says what, where and how to mend it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from krill.qa import QaDataset
from questions import question, squad, story, tokenizer_of

CONTEXT = story(40)
GOOD = question("good", "which word?", ("word7", CONTEXT.index("word7")))
WINDOW = ("--max-seq-length", "64", "--doc-stride", "8")


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizers")
    for kind in ("wordpiece", "byte_bpe"):
        tokenizer_of(kind).save_pretrained(folder / kind)
    return folder


@pytest.fixture
def prepared(krill, tmp_path, tokenizers):
    """Runs `krill qa prepare` on some content, and says how it ended."""

    def run(content: str, *options: str, kind: str = "wordpiece") -> Any:
        (tmp_path / "a.json").write_text(content, encoding="utf-8")
        where = ("--tokenizer", tokenizers / kind, "--output", "out", "--json", "--quiet", "--threads", "1")
        window = () if options[:1] == ("--max-seq-length",) else WINDOW
        return krill("qa", "prepare", "a.json", *where, *window, *options, cwd=tmp_path)

    return run


def content_of(*asked: dict[str, Any]) -> str:
    """A good question and others on its context."""
    return json.dumps(squad((CONTEXT, [GOOD, *asked])))


def content_with(context: str, *asked: dict[str, Any]) -> str:
    """A good question, and others on a context of their own."""
    return json.dumps(squad((CONTEXT, [GOOD]), (context, asked)))


BLANK = question("blank", "which?")
MISSING = question("missing", "which whale?", ("whale", 3))


@pytest.mark.parametrize(
    ("content", "options", "counts", "examples"),
    [
        (content_of(MISSING), (), {"answers_not_in_context": 1}, 2),
        (content_of(MISSING), ("--missing-answers", "drop"), {"answers_not_in_context": 1}, 1),
        (content_of(question("far", "which?", ("word9", 9999))), (), {"answers_moved": 1}, 2),
        (content_of(question("below", "which?", ("word9", -5))), (), {"answers_moved": 1}, 2),
        (content_of(question("none", "which?", ("", 3))), (), {"answers_not_in_context": 1}, 2),
        (content_with("", MISSING), (), {"answers_not_in_context": 1, "empty_contexts": 1}, 2),
        (content_with(" \n ", BLANK), (), {"empty_contexts": 1}, 2),
        (content_of(question("long", story(90))), (), {"questions_too_long": 1}, 1),
        (content_of(GOOD, GOOD), (), {"duplicate_ids": 2}, 1),
        (content_of(question("empty", "")), (), {}, 2),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_what_can_be_gone_on_with_is_counted(prepared, tmp_path, content, options, counts, examples) -> None:
    outcome = prepared(content, *options)
    assert outcome.code == 0, outcome.err
    assert outcome.result["counts"] == counts
    assert outcome.result["examples"] == examples
    dataset = QaDataset(tmp_path / "out")
    assert [feature["has_answer"] for feature in dataset.document(0)].count(True) >= 1
    for feature in dataset.document(dataset.documents - 1):
        if feature["example_id"] in ("missing", "none", "blank", "empty"):
            assert not feature["has_answer"]
            assert feature["start_positions"] == feature["end_positions"] == feature["cls_index"]


@pytest.mark.parametrize(
    ("content", "options", "code", "said"),
    [
        (content_of()[:-40], (), 3, "`a.json` is cut short in the value that begins at character"),
        (content_of()[:-3], (), 3, "`a.json` is cut short"),
        ("", (), 3, "`a.json`"),
        ("[1, 2]", (), 3, "`a.json`"),
        ('{"data": [{"paragraphs": [{"context": 1, "qas": []}]}]}', (), 3, "`context` is not a string"),
        (content_of({"question": "no id"}), (), 3, "paragraph 1: a question can't be read: no key 'id'"),
        (
            content_of(),
            ("--max-seq-length", "64", "--doc-stride", "61"),
            2,
            "`doc_stride` is `61`, but a window holds 61 tokens at most: the overlap must be smaller",
        ),
        (
            content_of(),
            ("--max-seq-length", "3"),
            2,
            "`max_seq_length` is `3`, and the tokenizer puts 3 special tokens into each feature",
        ),
        (content_of(), ("--max-segments", "0"), 2, "`max_n_segs` (--max-segments) is `0`"),
        (json.dumps(squad((CONTEXT, [question("long", story(90))]))), (), 3, "1 questions too long"),
        (json.dumps(squad()), (), 3, "no question of `a.json` has a feature: it has none"),
    ],
)
def test_what_can_t_be_gone_on_with_is_an_error_without_a_traceback(
    prepared, tmp_path, content, options, code, said
) -> None:
    outcome = prepared(content, *options)
    assert outcome.code == code, outcome.err
    assert said in " ".join(outcome.err.split())
    assert "hint:" in outcome.err
    assert "Traceback" not in outcome.err
    assert not (tmp_path / "out").exists()


def test_a_cache_of_another_tokenizer_is_refused_and_left_as_it_was(prepared, tmp_path) -> None:
    assert prepared(content_of()).code == 0
    before = (tmp_path / "out" / "krill-run.json").read_bytes()
    outcome = prepared(content_of(), kind="byte_bpe")
    assert outcome.code == 2
    assert "the tokenizer" in outcome.err
    assert "--overwrite" in outcome.err
    assert (tmp_path / "out" / "krill-run.json").read_bytes() == before
    assert prepared(content_of(), "--overwrite", kind="byte_bpe").code == 0
