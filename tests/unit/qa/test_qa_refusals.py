"""Wrong splits, spans that are called inexact, records that are too long, and budgets in the seed's words."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from krill.errors import BudgetError, InputError
from krill.qa import QaDataset, Shape, prepare, process_and_cache_dataset
from krill.qa.examples import line_paragraphs, squad_paragraphs
from krill.qa.squad_json import RecordTooLong
from questions import tokenizer_of

ROW = {
    "id": "one",
    "question": "Who?",
    "context": "Robert Guiscard came to Italy.",
    "answers": {"text": ["Robert Guiscard"], "answer_start": [0]},
}


def lines_file(path: Path) -> Path:
    path.write_text(json.dumps(ROW) + "\n")
    return path


@pytest.mark.parametrize(
    ("name", "split", "said"),
    [
        ("train.jsonl", "validation", "has no split `validation`: it is one split, `train`"),
        ("dev-v2.0.jsonl", "train", "has no split `train`: it is one split, `dev`"),
        ("mine.jsonl", "trian", "has no split `trian`"),
        ("mine.jsonl", "train[:10%]", re.escape("has no split `train[:10%]`")),
    ],
)
def test_a_file_is_refused_as_a_split_that_it_is_not(
    tmp_path: Path, name: str, split: str, said: str
) -> None:
    source = lines_file(tmp_path / name)
    with pytest.raises(InputError, match=said):
        prepare(source, tokenizer_of("wordpiece"), output=tmp_path / "out", split=split)


@pytest.mark.parametrize(
    ("name", "split"), [("dev.jsonl", None), ("dev.jsonl", "validation"), ("mine.jsonl", "validation")]
)
def test_a_file_is_taken_as_a_split_that_it_may_be(tmp_path: Path, name: str, split: str | None) -> None:
    source = lines_file(tmp_path / name)
    made = prepare(source, tokenizer_of("wordpiece"), output=tmp_path / "out", split=split)
    assert made.features == 1


def test_an_answer_that_begins_a_context_is_exact_behind_the_mark_of_a_space(tmp_path: Path) -> None:
    source = lines_file(tmp_path / "mine.jsonl")
    made = prepare(source, tokenizer_of("unigram"), output=tmp_path / "out", shape=Shape(64, 8))
    dataset = QaDataset(made.folder)
    spans = dataset[0]["offset_mapping"]
    first = dataset[0]["start_positions"]
    assert (spans[first - 1] == spans[first]).all()  # the mark has the span of the first letter
    assert list(dataset.inexact()) == []
    assert "spans_not_exact" not in made.manifest["counts"]


def test_a_record_that_may_not_be_held_is_told_with_its_length_before_it_is_read() -> None:
    line = json.dumps({**ROW, "answers": {"text": ["x"] * 200_000, "answer_start": [1] * 200_000}}).encode()
    with pytest.raises(RecordTooLong) as long_line:
        list(line_paragraphs(io.BytesIO(json.dumps(ROW).encode() + b"\n" + line + b"\n{}"), "file", 300_000))
    assert (long_line.value.place, long_line.value.size) == ("`file`, line 2", len(line))
    squad = json.dumps({"data": [{"paragraphs": [{"context": "x" * 10**6, "qas": []}]}]}).encode()
    with pytest.raises(RecordTooLong) as long_value:
        list(squad_paragraphs(io.BytesIO(squad), "file", 300_000))
    assert 10**6 < long_value.value.size <= len(squad)


def test_lines_are_the_same_however_they_are_read() -> None:
    rows = [{**ROW, "id": str(number), "question": "q" * number} for number in range(0, 3000, 7)]
    content = b"\xef\xbb\xbf" + b"\n".join(json.dumps(row).encode() for row in rows)
    for data in (content, content + b"\n", content.replace(b"\n", b"\n\n")):
        found = [
            question.id for one in line_paragraphs(io.BytesIO(data), "file") for question in one.questions
        ]
        assert found == [row["id"] for row in rows]


def test_a_refusal_of_the_seeds_call_names_its_own_parameter(tmp_path: Path) -> None:
    source = lines_file(tmp_path / "train.jsonl")
    with pytest.raises(BudgetError) as refused:
        process_and_cache_dataset(
            str(source),
            "train",
            str(tmp_path),
            None,
            64,
            8,
            100,
            tokenizer_of("wordpiece"),
            max_memory_gb=0.001,
        )
    assert "--memory" not in str(refused.value)
    (figure,) = re.findall(r"max_memory_gb=([0-9.]+) would do", str(refused.value))
    made = process_and_cache_dataset(
        str(source),
        "train",
        str(tmp_path),
        None,
        64,
        8,
        100,
        tokenizer_of("wordpiece"),
        max_memory_gb=float(figure),
    )
    assert made == 1
