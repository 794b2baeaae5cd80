"""Words of other patterns: what the library's own pre-tokenizer makes of each piece."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill import _native
from krill.errors import InputError
from krill.tokenizer.options import TrainOptions
from krill.tokenizer.word_counter import RegexSplitter
from oracles.tokenizer import count_words
from properties import tried
from word_count_files import read_word_counts

REGEXES = (r"\w+|[^\w\s]+|\s+", r"\p{L}+|\p{N}{1,2}|.", r" ?[a-z]+", r"[\s\S]+", r"\d", "(?=b)|1*", r"(.)\1")
# What only the library can match.
LIBRARY = (r"\X", "(?~ab)")


def counted(folder, texts, special=(), **chosen):
    """The words of some documents, given as text or as bytes."""
    words = RegexSplitter(TrainOptions(**chosen), tuple(token.encode() for token in special))
    counter = _native.WordCounter(
        "", [], False, 10**6, 1, str(folder / "spill"), np.empty((0, 3), np.uint64), 0
    )
    parts = [text.encode() if isinstance(text, str) else text for text in texts]
    words.count(counter, np.cumsum([0, *map(len, parts)], dtype=np.int64), b"".join(parts))
    counter.write_counts(str(folder / "word-counts"))
    return read_word_counts(folder / "word-counts")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """For examples, of which each writes over what another left."""
    return tmp_path_factory.mktemp("examples")


@tried(60)
@given(
    texts=st.lists(st.text("ab 1é語😀.\n\r\u2028<s>", max_size=40), max_size=4),
    pattern=st.sampled_from(REGEXES + LIBRARY),
    special=st.sampled_from([(), ("<s>",), ("a", "ab", "<s>", ".")]),
    lines=st.booleans(),
)
def test_words_are_those_of_the_reference(folder, texts, pattern, special, lines):
    found = counted(folder, texts, special, pattern=pattern, boundaries="lines" if lines else "documents")
    pieces = [line for text in texts for line in text.replace("\n", "\n\0").split("\0")] if lines else texts
    assert found == count_words(pieces, pattern, special)


def test_a_pattern_that_backtracks_without_end_is_an_input_error_with_the_text(tmp_path):
    with pytest.raises(InputError, match="gave up on the text that begins `aaaa") as caught:
        counted(tmp_path, ["a" * 5000 + "b"], pattern=r"(?:(a+)+\1)+$")
    assert "mend the pattern" in (caught.value.hint or "")


def test_bytes_that_are_not_text_become_replacement_characters(tmp_path):
    found = counted(tmp_path, ["a", b"b\xffc \xe8\xaa"], pattern=r"\w+|[^\w]")
    assert found == {b"a": 1, b"b": 1, b"c": 1, b" ": 1, "\ufffd".encode(): 2}


def test_only_newlines_end_a_line(tmp_path):
    text = "a\r\nb\rc\u2028d\x0be\n\nf"
    found = counted(tmp_path, [text], pattern=r"[\s\S]+", boundaries="lines")
    assert found == {b"a\r\n": 1, "b\rc\u2028d\x0be\n".encode(): 1, b"\n": 1, b"f": 1}


def test_of_special_tokens_that_begin_together_the_longest_is_cut_out(tmp_path):
    found = counted(tmp_path, ["x..y...z"], [".", "..", ".*"], pattern=r".")
    assert found == {b"x": 1, b"y": 1, b"z": 1}
