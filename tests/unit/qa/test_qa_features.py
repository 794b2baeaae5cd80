"""Features in columns are those of the reference, one at a time, for every layout."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from krill.errors import ConfigError, InputError
from krill.qa.answers import find_windows
from krill.qa.encoding import QaTokenizer, open_tokenizer
from krill.qa.examples import Paragraph, Question
from krill.qa.features import MadeUnit, Shape, make_unit
from krill.qa.layout import configure_memory_tokens
from krill.qa.stored import Assembler, FeatureRows
from oracles.qa import reference_features, reference_windows
from properties import tried
from questions import KINDS, library_of, story, tokenizer_of

WORDS = ["one", "krill", "é", "日本", "😀", "£1", "(a)", "  ", "ﬁsh", "x" * 30, "Übersee", "\n"]


def rows_of(made: MadeUnit, layout: Any, width: int) -> FeatureRows:
    count = len(made.unit.features.example)
    assembler = Assembler(layout, width)
    rows = assembler.padding(count)
    assembler.fill(rows, np.arange(count), made.unit, np.arange(count))
    return rows


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("features", "example", 1),
        ("features", "example", -1),
        ("features", "begin", 1000),
        ("features", "begin", -1),
        ("features", "length", 2**31 - 1),
        ("features", "length", -1),
        ("features", "first", 60),
        ("features", "last", -2),
        ("examples", "paragraph", 1),
        ("examples", "paragraph", -1),
    ],
)
def test_a_feature_that_contradicts_its_unit_is_refused(table, column, value) -> None:
    tokenizer = open_tokenizer(tokenizer_of("wordpiece"))
    unit = make_unit([Paragraph(story(60), [Question("1", "which one?", ())])], tokenizer, Shape(64, 8)).unit
    columns = getattr(unit, table)
    numbers = getattr(columns, column).copy()
    numbers[0] = value
    damaged = replace(unit, **{table: replace(columns, **{column: numbers})})
    assembler = Assembler(tokenizer.layout, 64)
    with pytest.raises(InputError, match="feature 0 of a unit contradicts the unit's tables"):
        assembler.fill(assembler.padding(1), np.array([0]), damaged, np.array([0]))
    with pytest.raises(InputError, match="feature 9999 of a unit contradicts"):
        assembler.fill(assembler.padding(1), np.array([0]), unit, np.array([9999]))
    with pytest.raises(InputError, match="contradicts"):
        narrow = Assembler(tokenizer.layout, 32)
        narrow.fill(narrow.padding(1), np.array([0]), unit, np.array([0]))


contexts = st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join)


@st.composite
def paragraphs(draw: Any) -> list[Paragraph]:
    made = []
    for number in range(draw(st.integers(1, 3))):
        context = draw(contexts)
        questions = []
        for part in range(draw(st.integers(0, 3))):
            begin = draw(st.integers(0, len(context)))
            text = context[begin : begin + draw(st.integers(1, 12))]
            answers = ((text, begin),) if text and draw(st.booleans()) else ()
            asked = draw(st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join))
            questions.append(Question(f"{number}-{part}", asked, answers))
        made.append(Paragraph(context, questions))
    return made


@pytest.mark.parametrize("memory_tokens", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
@tried(40)
@given(
    asked=paragraphs(),
    width=st.integers(16, 60),
    stride=st.integers(0, 8),
    most=st.sampled_from([None, 1, 2]),
)
def test_columns_are_those_of_the_reference(kind, memory_tokens, asked, width, stride, most) -> None:
    tokenizer, library = opened(kind, memory_tokens)
    made = make_unit(asked, tokenizer, Shape(width, stride, most))
    expected = [
        (question.id, segment, feature)
        for paragraph in asked
        for question in paragraph.questions
        for segment, feature in enumerate(
            reference_features(
                library,
                tokenizer.layout,
                paragraph.context,
                question.text,
                (question.answers[0][1], question.answers[0][1] + len(question.answers[0][0]))
                if question.answers
                else None,
                max_seq_length=width,
                doc_stride=stride,
                max_n_segs=most,
            )
        )
    ]
    features, examples = made.unit.features, made.unit.examples
    assert [examples.ids[example].as_py() for example in features.example] == [one[0] for one in expected]
    assert features.segment.tolist() == [one[1] for one in expected]
    rows = rows_of(made, tokenizer.layout, width)
    for name in expected[0][2] if expected else ():
        assert getattr(rows, name).tolist() == [one[2][name] for one in expected], name


@cache
def opened(kind: str, memory_tokens: int) -> tuple[QaTokenizer, Tokenizer]:
    """The tokenizer as features are made with it, and the library's."""
    tokenizer = tokenizer_of(kind, memory_tokens)
    return open_tokenizer(tokenizer), library_of(tokenizer)


@tried(300)
@given(st.integers(0, 200), st.integers(-5, 60), st.integers(0, 30))
def test_windows_are_those_of_the_reference(tokens, room, stride) -> None:
    found = find_windows(np.array([0]), np.array([tokens]), room=room, stride=stride, most=None)
    expected = reference_windows(tokens, room, stride)
    windows = [
        (begin, begin + length)
        for begin, length in zip(found.begin.tolist(), found.length.tolist(), strict=True)
    ]
    assert windows == expected
    assert found.counts.tolist() == [len(expected)]


@pytest.mark.parametrize("kind", KINDS)
def test_memory_tokens_stand_before_the_question_and_after_the_context(kind) -> None:
    tokenizer, library = opened(kind, 3)
    ids = configure_memory_tokens(library, 3)
    for key, name in (("mem_read_ids", "READ"), ("mem_write_ids", "WRITE")):
        assert [library.id_to_token(token) for token in ids[key]] == [f"[MEM_{name}_{n}]" for n in range(3)]
    made = make_unit([Paragraph(story(60), [Question("1", "which one?", ())])], tokenizer, Shape(64, 8))
    rows = rows_of(made, tokenizer.layout, 64)
    question = library.encode("which one?", add_special_tokens=False).ids
    assert len(rows.input_ids) > 1
    for ids_row, offsets in zip(rows.input_ids.tolist(), rows.offset_mapping.tolist(), strict=True):
        read = ids_row.index(ids["mem_read_ids"][0])
        assert ids_row[read : read + 3 + len(question)] == ids["mem_read_ids"] + question
        last_of_context = max(at for at, span in enumerate(offsets) if span != [0, 0])
        assert ids_row[last_of_context + 1 : last_of_context + 4] == ids["mem_write_ids"]


def test_a_context_in_another_normal_form_has_offsets_in_its_own_characters() -> None:
    tokenizer = open_tokenizer(tokenizer_of("wordpiece"))
    context = "un cafe\u0301 noir"
    made = make_unit(
        [
            Paragraph(
                context, [Question("1", "quoi?", (("café", 3),)), Question("2", "quoi?", (("noir", 9),))]
            )
        ],
        tokenizer,
        Shape(64, 8),
    )
    rows = rows_of(made, tokenizer.layout, 64)
    for row, answer in ((0, "cafe\u0301"), (1, "noir")):
        begin = rows.offset_mapping[row, rows.start_positions[row], 0]
        end = rows.offset_mapping[row, rows.end_positions[row], 1]
        assert context[begin:end].strip() == answer
    assert made.unit.examples.answer_text.to_pylist() == ["cafe\u0301", "noir"]
    assert made.counts == {}


def counts_of(paragraph: Paragraph, **shape: Any) -> tuple[dict[str, int], int]:
    made = make_unit(
        [paragraph],
        open_tokenizer(tokenizer_of("wordpiece")),
        Shape(**{"max_seq_length": 32, "doc_stride": 4, **shape}),
    )
    return made.counts, len(made.unit.features.example)


def test_what_is_wrong_with_answers_is_counted() -> None:
    context = "the krill eats and the whale eats the krill"
    moved = Paragraph(context, [Question("1", "who?", (("whale", 3),))])
    assert counts_of(moved) == ({"answers_moved": 1}, 1)
    missing = Paragraph(context, [Question("1", "who?", (("shark", 3),)), Question("2", "who?", ())])
    assert counts_of(missing) == ({"answers_not_in_context": 1}, 2)
    assert counts_of(missing, on_missing="drop") == ({"answers_not_in_context": 1}, 1)
    part = Paragraph(context, [Question("1", "who?", (("rill", 5),))])
    assert counts_of(part)[0].get("spans_not_exact", 0) in (0, 1)


def test_an_empty_context_makes_a_feature_without_answer_and_is_counted() -> None:
    assert counts_of(Paragraph("", [Question("1", "who?", (("x", 0),))])) == (
        {"answers_not_in_context": 1, "empty_contexts": 1},
        1,
    )


def test_a_question_that_leaves_no_room_is_dropped_and_counted() -> None:
    long = Paragraph(story(20), [Question("1", story(30), ()), Question("2", "who?", ())])
    counts, features = counts_of(long)
    assert counts == {"questions_too_long": 1}
    assert features >= 1


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        (Shape(4, 0), "`max_seq_length` is `4`, and the tokenizer puts 3 special tokens"),
        (Shape(32, 29), "`doc_stride` is `29`, but a window holds 29 tokens at most"),
        (Shape(32, -1), "`doc_stride` is `-1`"),
        (Shape(32, 4, 0), "`max_n_segs` (--max-segments) is `0`"),
        (Shape(32, 4, None, "keep"), "`on_missing` is `keep`"),  # type: ignore[arg-type]
    ],
)
def test_a_shape_that_can_t_be_is_refused(shape, said) -> None:
    with pytest.raises(ConfigError) as refused:
        shape.check(open_tokenizer(tokenizer_of("wordpiece")).layout)
    assert said in refused.value.message
    assert refused.value.hint
