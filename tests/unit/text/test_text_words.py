"""The native word splitter gives the words and sentences that the reference defines."""

from __future__ import annotations

import gzip
import unicodedata
from itertools import islice
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from word_traits import LONGEST_CONTRACTION, contractions

from krill.text.words import split_sentences, split_words
from oracles.words import MAX_BACK_MARKS, SMILEYS, UNITS, is_address, reference_sentences, reference_words
from properties import tried

PIECES = [
    *"aAbBsSzUC019 \n\t.,:;!?'’\"`()[]{}<>-–—~/\\+*^=%$€@#_&|…",
    *"😀→²µ漢字ひらカ한。、（）éßЖж\u0301\u00a0\u3000\x1c",
    *("'s", "n't", "don't", "e.g.", "http://", "a.com", "cannot", "US$", "..", "...", "://", ":8080", "  "),
    *sorted(UNITS | SMILEYS),
]
piece = st.one_of(
    st.sampled_from(PIECES),
    st.sampled_from(sorted(contractions())),
    st.characters(exclude_categories=["Cs"]),
    st.builds(lambda text, times: text * times, st.sampled_from(PIECES), st.integers(1, 20)),
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \n\u3000", []),
        ("Hello, world!", ["Hello", ",", "world", "!"]),
        ("(a *bold* word.)", ["(", "a", "*", "bold", "*", "word", ".", ")"]),
        ("don't, can't; I'll've", ["do", "n't", ",", "ca", "n't", ";", "I", "'ll", "'ve"]),
        ("you’re dont cannot its", ["you", "’re", "do", "nt", "can", "not", "its"]),
        ("the krill's, whales'", ["the", "krill", "'s", ",", "whales", "'"]),
        ("Dr. Who, e.g. this. NASA. U.", ["Dr.", "Who", ",", "e.g.", "this", ".", "NASA", ".", "U."]),
        ("well-known state—of--art", ["well", "-", "known", "state", "—", "of", "--", "art"]),
        ("a/b x=y 1+2 3.5 1,000", ["a", "/", "b", "x", "=", "y", "1", "+", "2", "3.5", "1,000"]),
        ("10km 5% $20 +1 C++", ["10", "km", "5", "%", "$", "20", "+1", "C++"]),
        ("end.Start wait...what", ["end", ".", "Start", "wait", "...", "what"]),
        ("see https://krill.example.org/a-b?c=d#e.", ["see", "https://krill.example.org/a-b?c=d#e", "."]),
        ("me@example.org file-name.txt", ["me@example.org", "file-name.txt"]),
        ("smile :) (see):", ["smile", ":)", "(", "see", "):"]),
        ("快速的狐狸，跳过了。", ["快速", "的狐", "狸", "，", "跳过", "了", "。"]),
        ("東京タワーへ行きます", ["東京", "タワー", "へ", "行", "きま", "す"]),
        ("Привет, мир! 한국어 문장.", ["Привет", ",", "мир", "!", "한국어", "문장", "."]),
        ("ok😀👍★done →x", ["ok", "😀", "👍", "★", "done", "→x"]),
    ],
)
def test_words_are_split_as_these_examples_say(text: str, words: list[str]) -> None:
    assert reference_words(text) == words
    assert split_words(text) == words


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", [""]),
        ("One. Two!  Three", ["One. ", "Two!  ", "Three"]),
        ('He said "no." Then he left...', ['He said "no." ', "Then he left..."]),
        ("Mr. Krill has 3.5 eyes.", ["Mr. Krill has 3.5 eyes."]),
        ("真的。是吗？", ["真的。", "是吗？"]),
    ],
)
def test_sentences_are_split_as_these_examples_say(text: str, sentences: list[str]) -> None:
    assert reference_sentences(text) == sentences
    assert split_sentences(text) == sentences


@given(pieces=st.lists(piece, max_size=25))
@tried(400)
def test_the_native_splitter_equals_the_reference(pieces: list[str]) -> None:
    text = "".join(pieces)
    words = split_words(text)
    assert words == reference_words(text)
    assert "".join(words) == "".join(text.split())
    sentences = split_sentences(text)
    assert sentences == reference_sentences(text)
    assert "".join(sentences) == text


@pytest.mark.skipif(unicodedata.unidata_version != "14.0.0", reason="the tables are made with Unicode 14")
def test_every_character_alone_and_beside_others_is_split_as_the_reference_says() -> None:
    points = [chr(point) for point in (*range(0x3300), *range(0x3300, 0x110000, 397))]
    for template in ("{}", "a{}b", "({}a.", "a{}.", "1{}"):
        text = " ".join(template.format(character) for character in points if not character.isspace())
        text = text.encode("utf-8", "ignore").decode()  # surrogates are no text
        assert split_words(text) == reference_words(text)


@pytest.mark.parametrize("part", [160, pytest.param(10, marks=pytest.mark.soak)])
def test_real_text_has_the_same_words_and_sentences(sample: Path, part: int) -> None:
    with gzip.open(sample) as file:
        for line in islice(file, 0, None, part):
            text = orjson.loads(line)["text"]
            assert split_words(text) == reference_words(text)
            assert split_sentences(text) == reference_sentences(text)


def test_only_so_many_marks_are_taken_off_the_end_of_a_chunk() -> None:
    text = "word" + "!" * (MAX_BACK_MARKS + 3)
    words = ["word!!!", *["!"] * MAX_BACK_MARKS]
    assert reference_words(text) == words
    assert split_words(text) == words


def test_contractions_join_up_to_their_chunks_and_are_short() -> None:
    for chunk, words in contractions().items():
        assert "".join(words) == chunk
        assert len(chunk) <= LONGEST_CONTRACTION
        assert len(chunk.encode()) <= 16
        assert len(words) <= 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("example.org", True),
        ("ftp+x://example.org:8080/path", True),
        ("münchen.de?q", True),
        ("user@mail.example.com", True),
        ("example.Org", False),
        ("example.c", False),
        ("-example.org", False),
        ("a..org", False),
        ("example.org:1", False),
        ("example.org:123456", False),
        ("127.0.0.1", False),
        ("x" * 65 + ".org", False),
    ],
)
def test_an_address_has_a_host_and_may_have_more(text: str, expected: bool) -> None:
    assert is_address(text) is expected
    assert (split_words(text) == [text]) >= expected
