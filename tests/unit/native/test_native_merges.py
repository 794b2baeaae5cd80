"""The merge loop against the readable one, under caps that force every way it has to do without memory."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill import _native
from krill.errors import ConfigError
from krill.tokenizer.options import TrainOptions
from krill.tokenizer.vocabulary import initial_ids, to_bytes
from oracles.tokenizer import train
from properties import tried
from word_count_files import byte_counts, record, write_word_counts

PLENTY = 1 << 26
BYTES_PER_TOKEN = 260  # of the vocabulary, which the loop sets aside before all else


def new_trainer(folder, counts, options, cap, word_counts=None):
    """A trainer of these words, or of whatever a file holds that should hold them."""
    tokens, byte_ids = initial_ids(byte_counts(counts), options)
    special = [
        to_bytes(token) if options.tie_break == "huggingface" else None for token in options.special_tokens
    ]
    return _native.MergeTrainer(
        str(word_counts or write_word_counts(folder / "word-counts", counts)),
        np.array(byte_ids, np.int32),
        [*special, *tokens[len(special) :]],
        options.vocab_size,
        options.min_frequency,
        options.max_token_length or 0,
        options.tie_break == "greatest",
        cap,
        str(folder / "scratch"),
    )


def finish(trainer, at_once=7):
    """All merges and the tokens that they made, and how the work was done."""
    while trainer.run(at_once, 60) > 0:
        pass
    return [tuple(merge) for merge in trainer.merges().tolist()], trainer.statistics()


def caps(options, counts):
    """From nothing, through caps that hold the words but not all of their pairs and places, to plenty."""
    vocabulary = options.vocab_size * BYTES_PER_TOKEN
    words = 2 * sum(len(word) + 1 for word in counts)
    least = vocabulary + words * 16 // 15 + 50  # the words may take all but a sixteenth
    return (0, vocabulary + words, least, vocabulary + words * 2, vocabulary + words * 4 + 500, PLENTY)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """For examples, of which each writes over what another left."""
    return tmp_path_factory.mktemp("examples")


def corpus(seed, alphabet, longest, most):
    """Words and counts; by a seed, since drawing each letter would take longer than learning from them."""
    chance = random.Random(seed)
    words = [chance.choices(alphabet, k=chance.randint(1, longest)) for _ in range(chance.randint(0, most))]
    return {
        bytes(word): chance.choice([1, 1, 2, 3, chance.randint(1, 99), 2**32 - 1, 2**40]) for word in words
    }


CORPORA = st.builds(
    corpus,
    seed=st.integers(0, 2**32),
    alphabet=st.sampled_from([b"a", b"ab", b"abc", b"abcdefgh", bytes(range(256))]),
    longest=st.sampled_from([3, 12, 30, 300]),
    most=st.sampled_from([2, 12, 30]),
)
OPTIONS = st.builds(
    TrainOptions,
    vocab_size=st.one_of(st.integers(1, 40), st.integers(257, 400)),
    special_tokens=st.sampled_from([(), ("<s>",), ("a", "é"), ("ab", "<e>"), ("Ġa", "abc", "aa"), ("b c",)]),
    min_frequency=st.sampled_from([0, 0, 0, 0, 1, 2, 5, 2**33]),
    max_token_length=st.sampled_from([None, None, None, 1, 2, 3, 4, 7]),
    initial_alphabet=st.sampled_from(["seen", "seen", "bytes", "az"]),
    limit_alphabet=st.sampled_from([None, None, None, 0, 1, 2, 5]),
    tie_break=st.sampled_from(["huggingface", "greatest"]),
)


def test_merges_equal_the_reference_under_any_cap(folder):
    ways = Counter()

    @tried(400)
    @given(counts=CORPORA, options=OPTIONS, which=st.sampled_from([0, 1, 2, 2, 2, 3, 4, 5, 5]))
    def compare(counts, options, which):
        try:
            expected = train(counts, options)
        except ConfigError:  # a vocabulary smaller than its alphabet
            return
        cap = caps(options, counts)[which]
        trainer = new_trainer(folder, counts, options, cap)
        merges, statistics = finish(trainer)
        assert merges == expected.merges
        assert trainer.tokens()[expected.special :] == expected.tokens[expected.special :]
        ways["compared"] += 1
        ways["on disk"] += statistics["on_disk"]
        ways["rebuilt"] += statistics["rebuilds"] > 0
        ways["scanned in memory"] += statistics["scans"] > 0 and not statistics["on_disk"]
        ways["at ease"] += statistics["rebuilds"] + statistics["scans"] == 0 and len(merges) > 0

    compare()
    assert ways.pop("compared") > 250
    assert len(ways) == 4
    assert min(ways.values()) > 25, ways


@pytest.mark.parametrize("tie_break", ["huggingface", "greatest"])
def test_longer_trainings_equal_the_reference(tmp_path, tie_break):
    chance = random.Random(1)
    words = [bytes(chance.choices(b"abcdefghij", k=chance.randint(2, 9))) for _ in range(250)]
    counts = {word: chance.randint(1, 30) for word in words}
    options = TrainOptions(vocab_size=500, tie_break=tie_break)
    expected = train(counts, options).merges
    assert len(expected) == 500 - 257
    ways = []
    for cap in caps(options, counts):
        merges, statistics = finish(new_trainer(tmp_path, counts, options, cap), 50)
        assert merges == expected
        ways.append((statistics["on_disk"], statistics["rebuilds"] > 0, statistics["scans"] > 0))
    assert ways[0] == (True, True, True)
    assert (False, True, True) in ways  # in memory, but pairs and postings come and go
    assert ways[-1] == (False, False, False)


def test_ids_beyond_16_bits_equal_the_reference(tmp_path):
    """So many special tokens that each byte and all that is learnt has an id above 65,535."""
    counts = {b"abcab": 3, b"bcbc": 2**35, b"aaaa": 5}
    special = tuple(f"<{number}>" for number in range(66_000))
    options = TrainOptions(vocab_size=66_400, special_tokens=special, initial_alphabet="seen")
    expected = train(counts, options)
    assert min(left for left, _, _ in expected.merges) >= 66_000
    for cap in caps(options, counts):
        assert finish(new_trainer(tmp_path, counts, options, cap))[0] == expected.merges


@pytest.mark.parametrize("vocab_size", [65_534, 65_535, 65_536, 200_000])
def test_large_vocabularies_that_are_never_filled_equal_the_reference(tmp_path, vocab_size):
    counts = {b"banana": 4, b"bandana": 2, b"an": 9}
    options = TrainOptions(vocab_size=vocab_size)
    expected = train(counts, options).merges
    for cap in caps(options, counts):
        assert finish(new_trainer(tmp_path, counts, options, cap))[0] == expected


def test_a_word_of_a_megabyte_is_merged_as_any_other(tmp_path):
    counts = {bytes(random.Random(1).choices(b"abcd", k=10**6)): 2, b"abc": 5}
    options = TrainOptions(vocab_size=256 + 2, special_tokens=())
    expected = train(counts, options).merges
    for cap in (0, 300_000, PLENTY):
        merges, statistics = finish(new_trainer(tmp_path, counts, options, cap))
        assert merges == expected
        assert statistics["on_disk"] is (cap < PLENTY)


def test_a_run_of_one_letter_doubles_with_every_merge(tmp_path):
    options = TrainOptions(vocab_size=300, special_tokens=(), initial_alphabet="seen")
    merges, _ = finish(new_trainer(tmp_path, {b"a" * 2**20: 1}, options, 0))
    assert merges == [(at, at, at + 1) for at in range(20)]


@pytest.mark.parametrize("counts", [{}, {b"a": 3, b"b": 1}], ids=["no words", "words of one letter"])
def test_where_there_are_no_pairs_nothing_is_learnt(tmp_path, counts):
    for cap in (0, PLENTY):
        trainer = new_trainer(tmp_path, counts, TrainOptions(), cap)
        assert (trainer.run(5, 60), trainer.run(5, 60)) == (0, 0)
        assert trainer.merges().tolist() == []


def test_fewer_merges_than_asked_mean_the_end(tmp_path):
    trainer = new_trainer(tmp_path, {b"abcd": 1}, TrainOptions(vocab_size=300), PLENTY)
    assert [trainer.run(2, 60), trainer.run(2, 60), trainer.run(2, 60)] == [2, 1, 0]
    assert trainer.tokens()[257:] == [b"ab", b"cd", b"abcd"]


# ---- files that are not as they were written


@pytest.mark.parametrize(
    "content", [b"\1\5word", b"\1\xff\xff\xff\xff\xff\xff\xff\xff\xff\1w", b"\1", b"\x80" * 11]
)
def test_a_file_of_word_counts_that_is_damaged_is_refused(tmp_path, content):
    (tmp_path / "damaged").write_bytes(record(b"word", 3) + content)
    with pytest.raises(_native.DamagedFile):
        new_trainer(tmp_path, {b"word": 3}, TrainOptions(), PLENTY, tmp_path / "damaged")


@pytest.mark.parametrize("count", [2**62, 2**63, 2**64 - 1])
def test_counts_that_no_corpus_has_are_refused(tmp_path, count):
    (tmp_path / "damaged").write_bytes(record(b"word", count) + record(b"ward", count))
    with pytest.raises(_native.DamagedFile, match="count"):
        new_trainer(tmp_path, {b"word": 3}, TrainOptions(), PLENTY, tmp_path / "damaged")


@pytest.mark.parametrize("cap", [0, PLENTY])
def test_any_changed_byte_is_refused_or_read_as_something_else(tmp_path, cap):
    counts = {b"word": 3, b"world": 200, b"w" * 130: 70_000}
    content = write_word_counts(tmp_path / "word-counts", counts).read_bytes()
    learnt, refused = 0, 0
    for at in range(20):
        for flip in (0x01, 0x40, 0x80, 0xFF):
            changed = bytearray(content)
            changed[at] ^= flip
            (tmp_path / "damaged").write_bytes(changed)
            try:
                merges, _ = finish(new_trainer(tmp_path, counts, TrainOptions(), cap, tmp_path / "damaged"))
                learnt += len(merges) > 0
            except _native.DamagedFile:
                refused += 1
    assert learnt + refused == 80
    assert refused > 10


def test_a_file_of_word_counts_that_is_absent_is_an_os_error_with_its_name(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        new_trainer(tmp_path, {}, TrainOptions(), 0, tmp_path / "absent")
    assert caught.value.filename == str(tmp_path / "absent")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"byte_ids": np.zeros(255, np.int32)}, "256 bytes"),
        ({"byte_ids": np.full(256, 9, np.int32)}, "no token has"),
        ({"vocab_size": 2}, "smaller than its alphabet"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(tmp_path, changed, message):
    given = {
        "inventory": str(write_word_counts(tmp_path / "word-counts", {b"ab": 1})),
        "byte_ids": np.zeros(256, np.int32),
        "tokens": [b"a", b"b", None],
        "vocab_size": 10,
        "min_frequency": 0,
        "max_token_length": 0,
        "greatest": False,
        "cap_bytes": 0,
        "scratch_path": str(tmp_path / "scratch"),
    }
    with pytest.raises(ValueError, match=message):
        _native.MergeTrainer(**given | changed)
