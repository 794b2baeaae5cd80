"""The oracle itself, on cases that can be worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill.errors import ConfigError
from krill.tokenizer.options import TrainOptions
from oracles.tokenizer import count_words, encode, train
from properties import tried

WORDS = st.dictionaries(
    st.text("abc", min_size=1, max_size=12).map(str.encode), st.integers(1, 9), min_size=1, max_size=12
)


def options(**changed) -> TrainOptions:
    return TrainOptions(**{"vocab_size": 100, "special_tokens": (), "initial_alphabet": "seen", **changed})


def learnt(counts, **changed) -> list[tuple[bytes, bytes]]:
    trained = train(counts, options(**changed))
    return [(trained.tokens[left], trained.tokens[right]) for left, right, _ in trained.merges]


def test_the_most_frequent_pair_is_merged_first():
    assert learnt({b"ab": 1, b"cd": 3, b"ef": 2}) == [(b"c", b"d"), (b"e", b"f"), (b"a", b"b")]


def test_of_equals_hugging_face_takes_the_smallest_ids_and_the_course_the_greatest_bytes():
    assert learnt({b"ab": 1, b"cd": 1, b"ad": 1}) == [(b"a", b"b"), (b"a", b"d"), (b"c", b"d")]
    greatest = learnt({b"ab": 1, b"cd": 1, b"ad": 1}, tie_break="greatest")
    assert greatest == [(b"c", b"d"), (b"a", b"d"), (b"a", b"b")]


def test_overlapping_pairs_count_each_and_merge_from_the_left():
    # "aaa" has two windows, which is more than one "bc"; then "aa" "a" remain.
    assert learnt({b"aaa": 1, b"bc": 1}) == [(b"a", b"a"), (b"b", b"c"), (b"aa", b"a")]


def test_training_ends_below_the_least_frequency():
    assert learnt({b"ab": 3, b"cd": 2}, min_frequency=3) == [(b"a", b"b")]


def test_a_token_stays_shorter_than_the_limit_but_pairs_of_bytes_always_count():
    assert learnt({b"abcd": 1}, max_token_length=4) == [(b"a", b"b"), (b"c", b"d")]
    assert learnt({b"abcd": 1}, max_token_length=5) == [(b"a", b"b"), (b"c", b"d"), (b"ab", b"cd")]
    assert learnt({b"abc": 1}, max_token_length=1) == [(b"a", b"b")]


def test_training_ends_when_the_vocabulary_is_full():
    trained = train({b"abcd": 1}, options(vocab_size=5))
    assert trained.tokens == [b"a", b"b", b"c", b"d", b"ab"]
    assert (trained.special, trained.alphabet, trained.merges) == (0, 4, [(0, 1, 4)])


def test_a_byte_outside_the_alphabet_vanishes_and_its_neighbours_meet():
    assert learnt({b"axb": 1, b"ab": 1}, limit_alphabet=2) == [(b"a", b"b")]


def test_a_merge_that_spells_a_special_token_is_that_token_for_hugging_face_alone():
    trained = train({b"ab": 1}, options(special_tokens=("ab",)))
    assert (trained.tokens, trained.merges) == ([b"ab", b"a", b"b"], [(1, 2, 0)])
    trained = train({b"ab": 1}, options(special_tokens=("ab",), tie_break="greatest"))
    assert (trained.tokens, trained.merges) == ([b"ab", b"a", b"b", b"ab"], [(1, 2, 3)])


def test_a_vocabulary_smaller_than_its_alphabet_is_refused():
    with pytest.raises(ConfigError, match="smaller than its alphabet: 3 bytes and 0 special tokens"):
        train({b"abc": 1}, options(vocab_size=2))


@given(WORDS, st.sampled_from(["huggingface", "greatest"]))
def test_every_token_is_made_by_one_pair_alone(counts, tie_break):
    trained = train(counts, options(tie_break=tie_break))
    made = [new for _, _, new in trained.merges]
    assert made == list(range(trained.alphabet, len(trained.tokens)))


@tried(50)
@given(WORDS, st.sampled_from(["huggingface", "greatest"]))
def test_what_is_left_of_the_training_words_is_how_they_are_encoded(counts, tie_break):
    trained = train(counts, options(tie_break=tie_break, pattern=r"\S+"))
    for word in counts:
        assert b"".join(trained.tokens[identity] for identity in encode(trained, word.decode())) == word
    # Without a limit every word ends as one token.
    assert all(len(encode(trained, word.decode())) == 1 for word in counts)


def test_special_tokens_are_cut_out_before_words_are_counted():
    pieces = ["ab<s>ab ab", "<s><s>", ""]
    assert count_words(pieces, "gpt2", ["<s>"]) == {b"ab": 2, b" ab": 1}
    assert count_words(["<s>"], "gpt2") == {b"<": 1, b"s": 1, b">": 1}


def test_of_special_tokens_the_leftmost_is_found_and_there_the_longest():
    trained = train({b"abc": 1}, options(special_tokens=("ab", "abc", "bcd")))
    assert encode(trained, "abcd") == [1]  # "d" is not in the alphabet
    assert encode(trained, "bcdab") == [2, 0]


def test_encoding_joins_the_earliest_merge_first_and_the_leftmost_there():
    trained = train({b"ab": 2, b"bc": 3, b"aaa": 1}, options(pattern=r"\S+"))
    assert [trained.tokens[identity] for identity in encode(trained, "abc")] == [b"a", b"bc"]
    assert [trained.tokens[identity] for identity in encode(trained, "aaaaa")] == [b"aa", b"aaa"]
