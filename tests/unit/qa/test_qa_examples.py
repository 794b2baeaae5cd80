"""Questions from every form they come in, as paragraphs."""

from __future__ import annotations

import io
import json

import pytest

from krill.errors import InputError
from krill.qa import examples
from krill.qa.examples import Paragraph, Question, first_questions, line_paragraphs, squad_paragraphs
from questions import question, squad


def lines(*rows: object) -> io.BytesIO:
    return io.BytesIO("".join(json.dumps(row) + "\n" for row in rows).encode())


def row(number: int, context: str, answers: object) -> dict[str, object]:
    return {"id": number, "question": f"q{number}", "context": context, "answers": answers}


def test_squad_and_lines_in_both_forms_of_answers_give_the_same_paragraphs() -> None:
    expected = [
        Paragraph("one two", [Question("1", "q1", (("two", 4),)), Question("2", "q2", ())]),
        Paragraph("three", [Question("3", "q3", (("three", 0), ("thr", 0)))]),
    ]
    listed = [{"text": "three", "answer_start": 0}, {"text": "thr", "answer_start": 0}]
    columns = {"text": ["two"], "answer_start": [4]}
    from_lines = lines(
        row(1, "one two", columns),
        row(2, "one two", {"text": [], "answer_start": []}),
        row(3, "three", listed),
    )
    assert list(line_paragraphs(from_lines, "a.jsonl")) == expected
    content = squad(
        ("one two", [question(1, "q1", ("two", 4)), question(2, "q2")]),
        ("three", [question(3, "q3", ("three", 0), ("thr", 0))]),
    )
    assert list(squad_paragraphs(io.BytesIO(json.dumps(content).encode()), "a.json")) == expected


def test_version_1_has_no_word_on_impossible_questions() -> None:
    content = squad(("one two", [question(1, "q1", ("two", 4))]))
    del content["data"][0]["paragraphs"][0]["qas"][0]["is_impossible"]
    (paragraph,) = squad_paragraphs(io.BytesIO(json.dumps(content).encode()), "a.json")
    assert paragraph.questions == [Question("1", "q1", (("two", 4),))]


def test_a_context_with_very_many_questions_comes_in_parts(monkeypatch) -> None:
    monkeypatch.setattr(examples, "MOST_QUESTIONS", 3)
    content = squad(("text", [question(number, "q") for number in range(7)]))
    found = list(squad_paragraphs(io.BytesIO(json.dumps(content).encode()), "a.json"))
    assert [[one.id for one in part.questions] for part in found] == [["0", "1", "2"], ["3", "4", "5"], ["6"]]
    assert {part.context for part in found} == {"text"}
    rows = lines(*(row(number, "text", []) for number in range(7)))
    assert [len(part.questions) for part in line_paragraphs(rows, "a.jsonl")] == [3, 3, 1]


def test_the_first_questions_end_inside_a_paragraph() -> None:
    parts = [Paragraph("a", [Question(str(n), "q", ()) for n in range(3)])] * 2
    assert [len(part.questions) for part in first_questions(parts, 4)] == [3, 1]
    assert [len(part.questions) for part in first_questions(parts, None)] == [3, 3]
    assert list(first_questions(parts, 0)) == []


def test_half_a_character_becomes_one_that_stands_for_it_and_nothing_moves() -> None:
    content = squad(("a\ud800b", [question(1, "q\udfff", ("b", 2))]))
    (paragraph,) = squad_paragraphs(io.BytesIO(json.dumps(content).encode()), "a.json")
    assert paragraph == Paragraph("a\ufffdb", [Question("1", "q\ufffd", (("b", 2),))])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"id": 1\n', "line 1 is not JSON"),
        (b"\n[1]\n", "line 2 is not an object"),
        (b'{"id": 1, "question": "q", "answers": []}\n', "row 1: `context` is `None`"),
        (
            b'{"context": "c", "question": "q", "answers": []}\n',
            "row 1: a question can't be read: no key 'id'",
        ),
        (b'{"id": 1, "context": "c", "question": 7, "answers": []}\n', "another type"),
        (
            b'{"id": 1, "context": "c", "question": "q", "answers": [{"text": "a"}]}\n',
            "no key 'answer_start'",
        ),
        (
            b'{"id": 1, "context": "c", "question": "q", "answers": {"text": ["a"], "answer_start": []}}',
            "`answers` has 1 of `text` and 0 of `answer_start`",
        ),
        (b'{"id": 1, "context": "c", "question": "q"}\n', "row 1 has no key `answers`"),
        (b'{"id": null, "context": "c", "question": "q", "answers": []}\n', "the question `None` has an id"),
        (
            b'{"id":1,"context":"c","question":"q","answers":[{"text":"c","answer_start":2147483648}]}',
            "another type",
        ),
        (
            b'{"id": 1, "context": "c", "question": "q", "answers": [{"text": "c", "answer_start": true}]}',
            "another type",
        ),
    ],
)
def test_a_row_that_is_wrong_is_named(content, said) -> None:
    with pytest.raises(InputError) as refused:
        list(line_paragraphs(io.BytesIO(content), "a.jsonl"))
    assert said in refused.value.message
    assert "a.jsonl" in refused.value.message


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    row = b'{"id": 1, "context": "c", "question": "q", "answers": []}\r\n'
    (paragraph,) = line_paragraphs(io.BytesIO(b"\xef\xbb\xbf" + row), "a.jsonl")
    assert paragraph == Paragraph("c", [Question("1", "q", ())])
    with pytest.raises(InputError, match="line 2 is not JSON"):
        list(line_paragraphs(io.BytesIO(row + b"\xef\xbb\xbf" + row), "a.jsonl"))
