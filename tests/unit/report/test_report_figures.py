"""A report reads manifests that anybody may have written."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from krill.report.figures import Figures

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def test_a_figure_is_read_by_its_type() -> None:
    figures = Figures(
        {"count": 3, "number": 1.5, "text": "a", "inner": {"count": 4}, "list": [{"count": 5}, 6]}
    )
    assert (figures.count("count"), figures.number("number"), figures.text("text")) == (3, 1.5, "a")
    assert figures.inner("inner").count("count") == 4
    assert [entry.count("count") for entry in figures.inners("list")] == [5]
    assert figures.notes == {}


def test_what_is_missing_or_wrong_is_none_and_noted_where_it_was_wanted() -> None:
    figures = Figures({"count": -1, "number": math.nan, "text": 5, "flag": True, "inner": {"bytes": 2**70}})
    assert (figures.count("count"), figures.number("number"), figures.text("text")) == (None, None, None)
    assert (figures.count("flag"), figures.inner("inner").count("bytes")) == (None, None)
    assert figures.count("older", wanted=False) is None
    assert figures.list("gone") == []
    assert list(figures.notes) == [
        "`count` is not a count: -1",
        "`number` is not a number: not finite",
        "`text` is not a text: 5",
        "`flag` is not a count: True",
        f"`inner.bytes` is not a count: {2**70}",
        "`gone` is missing",
    ]


@given(JSON)
def test_no_value_can_make_reading_fail(value: object) -> None:
    figures = Figures({"value": value})
    count, number = figures.count("value"), figures.number("value")
    assert count is None or count >= 0
    assert number is None or math.isfinite(number)
    assert all(isinstance(inner, Figures) for inner in figures.inners("value"))
    assert isinstance(list(figures.inner("value").counts()), list)
