"""Text in normal form C keeps the way back to the characters that it came from."""

from __future__ import annotations

import itertools
import unicodedata

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from krill.qa.answers import compose
from properties import tried

# Letters, marks in any order, Hangul in parts, characters that compose only with what stands before.
PIECES = [
    "a",
    "e",
    "\u0301",
    "\u0323",
    "\u0307",
    "\u1100",
    "\u1161",
    "\u11a8",
    "\u212b",
    "é",
    " ",
    "\u0dcf",
    "\u0dd9",
    "😀",
]


@tried(150)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join) | st.text(max_size=12))
def test_every_character_comes_from_the_characters_that_make_it(text) -> None:
    composed = compose(text)
    assert composed.text == unicodedata.normalize("NFC", text)
    spans = np.array([[at, at + 1] for at in range(len(composed.text))], np.int32).reshape(-1, 2)
    original = composed.original_spans(spans).tolist()
    for at, (begin, end) in enumerate(original):
        assert composed.text[at] in unicodedata.normalize("NFC", text[begin:end])
    # All of the text is covered, in order and without a gap.
    edges = sorted({edge for span in original for edge in span})
    assert not text or (edges[0], edges[-1]) == (0, len(text))
    assert all(begin <= later for (begin, _), (later, _) in itertools.pairwise(original))


def test_a_span_of_several_characters_and_an_empty_one() -> None:
    composed = compose("xe\u0301 y")
    assert composed.text == "xé y"
    spans = np.array([[0, 2], [1, 2], [2, 2], [1, 4]], np.int32)
    assert composed.original_spans(spans).tolist() == [[0, 3], [1, 3], [3, 3], [1, 5]]


def test_text_that_is_composed_already_is_left_alone() -> None:
    assert compose("plain é").begins is None
