"""Which ids come before any merge."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers.pre_tokenizers import ByteLevel

from krill.errors import ConfigError
from krill.tokenizer.options import TrainOptions
from krill.tokenizer.vocabulary import BYTE_ORDER, initial_ids, to_bytes, to_text


def counts(text: bytes) -> list[int]:
    return [text.count(byte) for byte in range(256)]


def test_the_characters_are_those_of_hugging_face_in_their_order():
    assert [to_text(bytes([byte])) for byte in BYTE_ORDER] == sorted(ByteLevel.alphabet())
    assert to_text(b" a\n") == "ĠaĊ"


@given(st.binary())
def test_text_and_bytes_are_two_spellings_of_the_same(token):
    assert to_bytes(to_text(token)) == token


def test_a_character_that_stands_for_no_byte_has_none():
    assert to_bytes("a b") is None
    assert to_bytes("日") is None


def test_special_tokens_come_first_and_bytes_follow_in_the_order_of_their_characters():
    tokens, ids = initial_ids(counts(b""), TrainOptions(special_tokens=("<a>", "<b>")))
    assert tokens[:4] == [b"<a>", b"<b>", b"!", b'"']
    assert tokens[2:] == [bytes([byte]) for byte in BYTE_ORDER]
    assert [tokens[identity] for identity in ids] == [bytes([byte]) for byte in range(256)]


def test_the_courses_convention_has_bytes_in_byte_order():
    tokens, ids = initial_ids(counts(b""), TrainOptions(tie_break="greatest"))
    assert tokens == [b"<|endoftext|>", *(bytes([byte]) for byte in range(256))]
    assert ids == list(range(1, 257))


def test_only_bytes_that_occur_are_kept_when_asked_for():
    options = TrainOptions(initial_alphabet="seen", special_tokens=())
    tokens, ids = initial_ids(counts(b"b a"), options)
    assert tokens == [b"a", b"b", b" "]
    assert (ids[ord("a")], ids[ord(" ")], ids[ord("c")]) == (0, 2, -1)


def test_a_text_keeps_its_bytes_besides_those_that_occur():
    options = TrainOptions(initial_alphabet="é", special_tokens=())
    assert initial_ids(counts(b"a"), options)[0] == [b"a", b"\xa9", b"\xc3"]


def test_a_limit_keeps_the_most_frequent_and_among_equals_the_first_in_order():
    options = TrainOptions(initial_alphabet="seen", limit_alphabet=2, special_tokens=())
    assert initial_ids(counts(b"cccbba"), options)[0] == [b"b", b"c"]
    assert initial_ids(counts(b"cba"), options)[0] == [b"a", b"b"]


def test_what_was_asked_for_counts_as_most_frequent_of_all():
    options = TrainOptions(initial_alphabet="z", limit_alphabet=2, special_tokens=())
    assert initial_ids(counts(b"aaabb"), options)[0] == [b"a", b"z"]


def test_a_special_token_that_reads_like_a_byte_is_that_byte_for_hugging_face_alone():
    options = TrainOptions(initial_alphabet="seen", special_tokens=("Ġ", "b"))
    tokens, ids = initial_ids(counts(b"a b"), options)
    assert tokens == ["Ġ".encode(), b"b", b"a"]
    assert (ids[ord(" ")], ids[ord("b")], ids[ord("a")]) == (0, 1, 2)
    options = TrainOptions(initial_alphabet="seen", special_tokens=("b",), tie_break="greatest")
    assert initial_ids(counts(b"ab"), options)[0] == [b"b", b"a", b"b"]


def test_such_a_byte_stays_even_where_the_limit_drops_it():
    options = TrainOptions(initial_alphabet="seen", limit_alphabet=1, special_tokens=("b",))
    tokens, ids = initial_ids(counts(b"aab"), options)
    assert tokens == [b"b", b"a"]
    assert ids[ord("b")] == 0


def test_a_vocabulary_smaller_than_the_alphabet_that_was_found_is_refused_with_the_numbers():
    options = TrainOptions(vocab_size=3, initial_alphabet="seen")
    with pytest.raises(
        ConfigError, match=r"vocabulary of 3 is smaller .* 4 bytes and 1 special tokens"
    ) as error:
        initial_ids(counts(b"abcd"), options)
    assert "vocab_size to 5" in str(error.value)
