"""Pieces of pages: texts side by side, thinned lines, numbers as people read them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from krill.report.charts import thin
from krill.report.examples import common_words, marked
from krill.report.parts import duration, number, percent
from krill.report.tokenizer import script_of

WORDS = st.text("ab .,\n", max_size=40)


@given(WORDS, WORDS)
def test_marked_texts_are_the_texts_and_what_is_unmarked_is_common(left: str, right: str) -> None:
    sides = marked(left, right)
    assert ["".join(piece.text for piece in side) for side in sides] == [left, right]
    common = ["".join(piece.text for piece in side if not piece.mark) for side in sides]
    assert common[0] == common[1]


@given(WORDS, st.lists(WORDS, min_size=1, max_size=3))
def test_of_several_texts_what_all_have_is_unmarked_in_the_first(kept: str, others: list[str]) -> None:
    sides = marked(kept, *others)
    assert ["".join(piece.text for piece in side) for side in sides] == [kept, *others]
    unmarked = ["".join(piece.text for piece in side if not piece.mark) for side in sides]
    pairs = [marked(kept, other) for other in others]
    assert all(side == pair[1] for side, pair in zip(sides[1:], pairs, strict=True))
    assert len(unmarked[0]) <= min(map(len, unmarked[1:]))


def reference_common(left: list[str], right: list[str]) -> int:
    """The length of the longest common subsequence, by the table of the textbooks."""
    row = [0] * (len(right) + 1)
    for word in left:
        above, row = row, [0]
        for place, other in enumerate(right):
            row.append(above[place] + 1 if word == other else max(row[-1], above[place + 1]))
    return row[-1]


@given(st.lists(st.sampled_from("abc"), max_size=80), st.lists(st.sampled_from("abcd"), max_size=80))
def test_common_words_are_the_most_that_can_be(left: list[str], right: list[str]) -> None:
    common = common_words(left, right)
    assert len(common) == reference_common(left, right)
    assert all(left[place] == right[other] for place, other in common.items())
    pairs = sorted(common.items())
    assert [other for _, other in pairs] == sorted(set(common.values()))


def test_a_word_that_differs_is_marked_on_both_sides() -> None:
    left, right = marked("the whale eats krill", "the seal eats krill")
    assert [(piece.text, piece.mark) for piece in left] == [
        ("the ", ""),
        ("whale", "removed"),
        (" eats krill", ""),
    ]
    assert [(piece.text, piece.mark) for piece in right] == [
        ("the ", ""),
        ("seal", "added"),
        (" eats krill", ""),
    ]


@given(st.integers(0, 3000), st.integers(1, 500))
def test_thinned_points_are_few_and_keep_both_ends(count: int, most: int) -> None:
    points: list[tuple[float, float | None]] = [(float(place), 1.0) for place in range(count)]
    found = thin(points, most)
    assert len(found) <= most + 1
    assert set(found) <= set(points)
    assert not points or (found[0], found[-1]) == (points[0], points[-1])


def test_numbers_are_short() -> None:
    assert [duration(value) for value in (0, 0.012, 1.25, 130, 7270)] == [
        "0 s",
        "12 ms",
        "1.2 s",
        "2 min 10 s",
        "2 h 1 min",
    ]
    assert [percent(value) for value in (0, 0.0001, 0.333, 1)] == ["0.0%", "< 0.1%", "33.3%", "100.0%"]
    found = [number(value).text for value in (None, 1315968.0, 0.00012345, 10520.7, 999.96)]
    assert found == ["-", "1,315,968", "0.0001234", "10,521", "1000"]


def test_tokens_have_the_script_of_their_first_letter() -> None:
    tokens = {
        " the": "latin",
        "\u0436\u0438": "cyrillic",
        "\u9bae": "cjk",
        "12": "digits",
        "  ": "spaces",
        "->": "signs",
        "\ufffd": "part of a character",
    }
    assert {token: script_of(token) for token in tokens} == tokens
