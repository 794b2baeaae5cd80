"""Word by word, the library's tokens are those of the whole texts."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, normalizers, pre_tokenizers

from krill.qa.encoding import open_tokenizer
from krill.qa.wordwise import Words, find_words
from properties import tried
from questions import library_of, tokenizer_of

PIECES = ["Krill", "eats", "don't", "(a)", " ", "  ", "\t", "\n", "\r\n", "\x0b", "\x00", "\x1c", "é", "日本"]
PIECES += ["[SEP]", "<sep>", "<mask>", "``", "a-b", "X" * 120, "\u00a8", "\u2003", "\u0301", "9,000.5"]
texts = st.lists(st.lists(st.sampled_from(PIECES), max_size=12).map(lambda some: " ".join(some)), max_size=4)
joined = st.lists(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), max_size=4)


def changed(kind: str) -> Tokenizer:
    """A tokenizer with everything that cutting at spaces must cope with."""
    library = library_of(tokenizer_of(kind))
    library.add_special_tokens([AddedToken("<mask>", lstrip=True, rstrip=True, normalized=False)])
    if kind == "unigram":
        steps = [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
        library.normalizer = normalizers.Sequence([normalizers.Replace("``", '"'), *steps])
    return library


@cache
def opened(kind: str) -> tuple[Tokenizer, Any]:
    """A library's tokenizer, and Krill's of it."""
    library = changed("unigram" if kind == "split" else kind)
    if kind == "split":
        library.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="first")]
        )
    return library, open_tokenizer(library)


@pytest.mark.parametrize("kind", ["wordpiece", "unigram", "split"])
@tried(80)
@given(texts | joined)
def test_tokens_and_spans_are_those_of_the_whole_texts(kind, some) -> None:
    library, ours = opened(kind)
    assert find_words(library.to_str().encode()) is not None
    found = ours.encoder.encode_spans(some)
    for number, text in enumerate(some):
        expected = library.encode(text, add_special_tokens=False)
        own = slice(found.starts[number], found.starts[number + 1])
        assert found.values[own].tolist() == expected.ids
        assert [tuple(span) for span in found.spans[own].tolist()] == expected.offsets


def test_texts_are_cut_only_where_that_is_safe() -> None:
    plain, single = Words(False, ("<mask>",)), Words(True, ())
    assert plain.of("a  b\nc ") == ["a", "  b", "\nc"]
    assert plain.of("a <mask> b") == ["a <mask> b"]
    assert plain.of("a é") == ["a", " é"]
    assert plain.of("") == []
    assert single.of("a b c") == ["a", " b", " c"]
    assert single.of("a  b") == ["a  b"]
    assert single.of(" a") == [" a"]
    assert single.of("a\u2003b c") == ["a\u2003b c"]


def added(content: str, **flags: bool) -> dict[str, Any]:
    plain = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False}
    return {"added_tokens": [{"content": content, **plain, **flags}]}


@pytest.mark.parametrize(
    "change",
    [
        {"pre_tokenizer": {"type": "Whitespace"}},
        {"pre_tokenizer": None},
        {"pre_tokenizer": {"type": "Metaspace", "replacement": "_", "split": False}},
        {"normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}},
        {"normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "_"}},
        {"normalizer": {"type": "Replace", "pattern": {"Regex": "a."}, "content": "_"}},
        added("a b"),
        added("a", lstrip=True, normalized=True),
    ],
)
def test_a_tokenizer_that_may_look_across_spaces_is_not_cut(change) -> None:
    content = json.loads(library_of(tokenizer_of("wordpiece")).to_str())
    assert find_words(json.dumps(content).encode()) == Words(False, ())
    assert find_words(json.dumps({**content, **change}).encode()) is None
