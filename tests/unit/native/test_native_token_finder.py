"""Special tokens in text: leftmost and longest, as Hugging Face finds those of its added vocabulary."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from krill import _native
from properties import tried

# Few letters, so that tokens overlap and begin alike; texts of several blocks of sixteen bytes.
tokens_strategy = st.lists(st.text("ab<|c", min_size=1, max_size=5), min_size=1, max_size=12, unique=True)
text_strategy = st.one_of(st.text("ab<|cd", max_size=120), st.text("d<", max_size=120))


def found(text: bytes, tokens: list[bytes]) -> list[tuple[int, int, int]]:
    starts, ends, which = _native.find_tokens(text, tokens)
    return list(zip(starts.tolist(), ends.tolist(), which.tolist(), strict=True))


@given(text=text_strategy, tokens=tokens_strategy)
@tried(200)
def test_occurrences_are_those_of_hugging_face(text: str, tokens: list[str]) -> None:
    library = Tokenizer(models.BPE())
    library.add_special_tokens(tokens)
    encoded = library.encode(text)
    expected = [(*offsets, token) for offsets, token in zip(encoded.offsets, encoded.ids, strict=True)]
    assert found(text.encode(), [token.encode() for token in tokens]) == expected


@given(text=st.binary(max_size=200), tokens=st.lists(st.binary(min_size=1, max_size=3), max_size=300))
@tried(80)
def test_occurrences_of_any_bytes_are_those_of_a_plain_search(text: bytes, tokens: list[bytes]) -> None:
    expected, place = [], 0
    while place < len(text):
        here = max((token for token in tokens if text.startswith(token, place)), key=len, default=b"")
        if here:
            expected.append((place, place + len(here), tokens.index(here)))
        place += len(here) or 1
    assert found(text, tokens) == expected


def test_thousands_of_tokens_are_distinguished() -> None:
    tokens = [f"<extra_{number}>".encode() for number in range(5000)]
    text = b"some text, ".join(reversed(tokens))
    assert [which for _, _, which in found(text, tokens)] == list(range(4999, -1, -1))


@pytest.mark.parametrize("place", range(40))
def test_a_token_is_found_wherever_it_stands(place: int) -> None:
    assert found(b"." * place + b"<|end|>" + b"." * 20, [b"<|end|>", b"<|start|>"]) == [(place, place + 7, 0)]


def test_no_tokens_are_never_found() -> None:
    assert found(b"text", []) == []


def test_an_empty_token_is_refused() -> None:
    with pytest.raises(ValueError, match="a special token is empty"):
        _native.find_tokens(b"text", [b"a", b""])


def test_tokens_that_are_not_bytes_are_refused() -> None:
    with pytest.raises(TypeError, match="tokens must be bytes"):
        _native.find_tokens(b"text", ["a"])  # type: ignore[list-item]
