"""The native scanner by itself: what it gives for any bytes, and where texts may be cut.

That its words are those of Hugging Face is held in tests/parity/test_parity_scanner.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill import _native
from krill.tokenizer.patterns import PATTERNS
from properties import tried

# What the rules look at, in one or several bytes, and runs longer than what is looked at in one step.
PIECES = [
    *(b" ", b"  ", b"\t", b"\n", b"\r\n"),
    *"a B Word WORD 's 'LL ' ! / 1 1234 é É \u017f 漢 か ा \u0301 ² 。 😀".encode().split(b" "),
    *("\u00a0".encode(), "\u0085".encode(), "\u3000".encode()),
    *(b"\x80", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xff"),
    *(b"x" * 70, b" " * 70, b"\n" * 70, b"9" * 70, "語".encode() * 30, "Ж".encode() * 40),
]
texts = st.one_of(st.binary(max_size=100), st.lists(st.sampled_from(PIECES), max_size=60).map(b"".join))


def words(text: bytes, pattern: str, *, plainly: bool = False) -> list[bytes]:
    ends = _native.scan_words(text, pattern, plainly)
    assert ends.dtype == np.uint32
    return [text[start:end] for start, end in zip([0, *ends.tolist()], ends.tolist(), strict=False)]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("gpt2", ["It", "'s", "  ", " 12345", " dollars", "!", "\n", "\n", "No", "'", "T", "\n "]),
        ("cl100k", ["It", "'s", "  ", " ", "12345", " dollars", "!\n\n", "No", "'T", "\n "]),
        ("llama3", ["It", "'s", "  ", " ", "123", "45", " dollars", "!\n\n", "No", "'T", "\n", " "]),
        ("qwen2", ["It", "'s", "  ", " ", *"12345", " dollars", "!\n\n", "No", "'T", "\n", " "]),
        ("o200k", ["It's", "  ", " ", "123", "45", " dollars", "!\n\n", "No'T", "\n", " "]),
    ],
)
def test_patterns_cut_the_same_sentence_in_their_own_ways(pattern: str, expected: list[str]) -> None:
    assert words(b"It's   12345 dollars!\n\nNo'T\n ", pattern) == [word.encode() for word in expected]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_an_empty_text_has_no_words(pattern: str) -> None:
    assert words(b"", pattern) == []


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_word_of_a_megabyte_is_one_word(pattern: str) -> None:
    assert words("語".encode() * 400_000 + b" end", pattern) == ["語".encode() * 400_000, b" end"]


def test_an_unknown_pattern_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="no pattern is named `gpt5`"):
        _native.scan_words(b"text", "gpt5")


@given(text=texts)
@tried(120)
def test_words_are_not_empty_and_cover_every_byte(text: bytes) -> None:
    for pattern in PATTERNS:
        cut = words(text, pattern)
        assert b"".join(cut) == text
        assert all(cut)


@given(text=texts)
@tried(120)
def test_words_do_not_depend_on_the_instructions_that_the_machine_has(text: bytes) -> None:
    for pattern in PATTERNS:
        for data in (text, text * 3):
            assert words(data, pattern) == words(data, pattern, plainly=True)


@given(text=texts)
@tried(120)
def test_cutting_a_text_where_it_may_be_cut_changes_no_word(text: bytes) -> None:
    whole = {pattern: words(text, pattern) for pattern in PATTERNS}
    place = 0
    while (place := _native.first_cut(text, place + 1)) < len(text):
        for pattern in PATTERNS:
            assert words(text[:place], pattern) + words(text[place:], pattern) == whole[pattern]


@given(text=texts, begin=st.integers(0, 200))
@tried(120)
def test_cuts_do_not_depend_on_where_the_buffer_begins_or_from_where_they_are_looked_for(
    text: bytes, begin: int
) -> None:
    cuts, place = [], 0
    while (place := _native.first_cut(text, place + 1)) < len(text):
        cuts.append(place)
    assert _native.last_cut(text) == max(cuts, default=0)
    tail = text[begin:]
    inside = [cut - begin for cut in cuts if cut - begin >= 8]
    assert _native.first_cut(tail, 8) == min(inside, default=len(tail))


@pytest.mark.parametrize(
    ("text", "cuts"),
    [
        ("two words", [3]),
        ("tab\tand  blanks", [3, 7]),
        ("漢字、かな", [6]),  # letters without spaces: before the punctuation, not after it
        ("line\nend.\nnext", [4, 8]),
        ("a1b!2", [1, 2, 3, 4]),
        ("it's", []),  # o200k has this in one word
        ("e\u0301", []),
        ("\n\n\nx", []),
        ("", []),
    ],
)
def test_cuts_stand_where_every_pattern_has_a_boundary(text: str, cuts: list[int]) -> None:
    data = text.encode()
    found, place = [], 0
    while (place := _native.first_cut(data, place + 1)) < len(data):
        found.append(place)
    assert found == cuts


def test_a_place_beyond_the_end_finds_no_cut() -> None:
    assert _native.first_cut(b"two words", 100) == 9
