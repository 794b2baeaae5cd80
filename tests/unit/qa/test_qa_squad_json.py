"""SQuAD's JSON comes paragraph by paragraph, however it is cut into reads, and damage is said."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill.errors import InputError
from krill.qa import squad_json
from krill.qa.squad_json import read_paragraphs
from properties import tried
from questions import question, squad

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
paragraphs = st.lists(
    st.dictionaries(st.sampled_from(["context", "qas", "é\n"]), values, max_size=3), max_size=4
)


class Dribble(io.BytesIO):
    """Gives at most `most` bytes at a time."""

    def __init__(self, content: bytes, most: int) -> None:
        super().__init__(content)
        self.most = most

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(self.most, size or 0))


def read(content: bytes, most: int = 10**6) -> list[dict[str, Any]]:
    return list(read_paragraphs(Dribble(content, most), "a.json"))


@tried(60)
@given(
    st.lists(
        st.dictionaries(st.sampled_from(["title", "paragraphs", "x"]), paragraphs, max_size=3), max_size=3
    ),
    st.dictionaries(st.sampled_from(["version", "a"]), values, max_size=2),
    st.integers(1, 40),
    st.sampled_from([None, 1]),
    st.booleans(),
)
def test_paragraphs_are_those_of_a_plain_parser(articles, others, most, indent, escaped) -> None:
    content = json.dumps({**others, "data": articles, "z": 1}, indent=indent, ensure_ascii=escaped)
    expected = [one for article in articles for one in article.get("paragraphs", [])]
    assert read(content.encode(errors="surrogatepass") if escaped else content.encode(), most) == expected


def test_what_is_held_is_a_paragraph_and_not_the_file(monkeypatch) -> None:
    held = []
    walk_read = squad_json._Walk._read

    def watched(self, size):
        walk_read(self, size)
        held.append(len(self._text))

    monkeypatch.setattr(squad_json._Walk, "_read", watched)
    content = json.dumps(squad(*[("c" * 5000, [question(n, "q?")]) for n in range(500)])).encode()
    assert len(read(content)) == 500
    assert len(content) > 2_500_000
    assert max(held) <= squad_json.READ_BYTES + 6000


CONTENT = json.dumps(squad(("a context", [question(1, "who?", ("context", 2))]))).encode()


@pytest.mark.parametrize("end", range(1, len(CONTENT) - 1, 7))
def test_a_file_that_is_cut_short_is_refused_wherever_it_is_cut(end) -> None:
    with pytest.raises(InputError, match=r"`a\.json` (is cut short|has no key)"):
        read(CONTENT[:end], 16)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[]", "`[` where `{` is expected at character 0"),
        (b'{"version": 1}', "has no key `data`"),
        (b'{"data": 5}', "`5` where `[` is expected"),
        (b'{"data": [{"paragraphs": [3]}]}', "a paragraph that is not an object"),
        (
            b'{"data": [{"paragraphs": [{"a": tru}]}], "more": "text"}',
            "is not JSON: expecting value at character 32",
        ),
        (b'{"data": []} x', "text after the end at character 13"),
        (b'{"data": [], 1: 2}', "a key that is not a string"),
        (b'{"data": "\xff"}', "is not UTF-8"),
        (b'{"data": [{"paragraphs": [' + b"[" * 100_000, "values nested too deeply"),
    ],
)
def test_what_is_not_squad_is_refused_with_its_place(content, said) -> None:
    with pytest.raises(InputError) as refused:
        read(content)
    assert said in refused.value.message
    assert refused.value.hint


def test_a_quote_that_never_ends_does_not_take_the_whole_file(monkeypatch) -> None:
    monkeypatch.setattr(squad_json, "LONGEST_VALUE", 10_000)
    with pytest.raises(InputError, match="a value of more than 10,000 characters"):
        read(b'{"data": [{"paragraphs": [{"context": "' + b"a" * 5_000_000)
