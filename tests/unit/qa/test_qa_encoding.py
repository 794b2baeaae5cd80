"""Texts of questions have the ids and spans that the library gives them."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, normalizers, pre_tokenizers, processors

from krill.qa.encoding import open_tokenizer
from properties import tried
from questions import library_of, tokenizer_of

PIECES = ["Krill", "eats", "don't", "(a)", " ", "  ", "\t", "\n", "\r\n", "\x0b", "\x00", "\x1c", "é", "日本"]
PIECES += ["[SEP]", "<sep>", "<mask>", "``", "a-b", "X" * 120, "\u00a8", "\u2003", "\u0301", "9,000.5"]
texts = st.lists(st.lists(st.sampled_from(PIECES), max_size=12).map(lambda some: " ".join(some)), max_size=4)
joined = st.lists(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), max_size=4)


def changed(kind: str) -> Tokenizer:
    """A tokenizer of which words may look different from the text that they are in."""
    library = library_of(tokenizer_of(kind))
    library.add_special_tokens([AddedToken("<mask>", lstrip=True, rstrip=True, normalized=False)])
    if kind == "unigram":
        steps = [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
        library.normalizer = normalizers.Sequence([normalizers.Replace("``", '"'), *steps])
    return library


@cache
def opened(kind: str) -> tuple[Tokenizer, Any]:
    """A library's tokenizer, and Krill's of it."""
    library = changed({"split": "unigram", "twice": "wordpiece"}.get(kind, kind))
    if kind == "twice":  # which only the library can run
        library.post_processor = processors.TemplateProcessing(single="$A $A", pair="$A $B:1")
    if kind == "split":
        library.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="first")]
        )
    return library, open_tokenizer(library)


@pytest.mark.parametrize("kind", ["wordpiece", "unigram", "split", "twice"])
@tried(80)
@given(texts | joined)
def test_tokens_and_spans_are_those_of_the_library(kind, some) -> None:
    library, ours = opened(kind)
    assert ours.native == (kind != "twice")
    found = ours.encoder.encode_spans(some)
    for number, text in enumerate(some):
        expected = library.encode(text, add_special_tokens=False)
        own = slice(found.starts[number], found.starts[number + 1])
        assert found.values[own].tolist() == expected.ids
        assert [tuple(span) for span in found.spans[own].tolist()] == expected.offsets
