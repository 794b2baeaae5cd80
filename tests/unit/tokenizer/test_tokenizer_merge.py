"""Merging: a file of word counts in, a `TrainedBpe` out, equal to the reference's."""

from __future__ import annotations

import pytest

from krill.errors import ConfigError, StorageError
from krill.threads.progress import Silent
from krill.tokenizer.count import WordCounts
from krill.tokenizer.merge import merge
from krill.tokenizer.options import TrainOptions
from oracles.tokenizer import train
from word_count_files import byte_counts, write_word_counts

COUNTS = {b"low": 5, b"lower": 2, b"newest": 6, b"widest": 3, b" the": 9, b"ab c": 4}


class Watch(Silent):
    """Counts merges, and may interrupt after some."""

    def __init__(self, interrupt=False):
        self.merges = 0
        self.interrupt = interrupt

    def advance(self, done):
        self.merges += done
        if self.interrupt:
            raise KeyboardInterrupt


def word_counts(folder, counts=COUNTS):
    return WordCounts(
        write_word_counts(folder / "word-counts", counts),
        len(counts),
        sum(counts.values()),
        sum(map(len, counts)),
        tuple(byte_counts(counts)),
        0,
    )


@pytest.mark.parametrize("tie_break", ["huggingface", "greatest"])
@pytest.mark.parametrize("special", [(), ("<s>",), ("est", "Ġthe", "l", "ab c", "<e>")])
@pytest.mark.parametrize("alphabet", ["bytes", "seen", "xyz"])
def test_what_is_learnt_equals_the_reference(tmp_path, tie_break, special, alphabet):
    options = TrainOptions(
        vocab_size=290, tie_break=tie_break, special_tokens=special, initial_alphabet=alphabet
    )
    trained, _ = merge(word_counts(tmp_path), options, 10**7, Silent())
    assert trained == train(COUNTS, options)
    assert len(trained.merges) > 10


@pytest.mark.parametrize("changed", [{"min_frequency": 6}, {"max_token_length": 4}, {"limit_alphabet": 7}])
def test_the_limits_of_a_training_hold(tmp_path, changed):
    options = TrainOptions(vocab_size=300, initial_alphabet="seen", **changed)
    trained, _ = merge(word_counts(tmp_path), options, 10**7, Silent())
    assert trained == train(COUNTS, options)
    assert trained != train(COUNTS, TrainOptions(vocab_size=300, initial_alphabet="seen"))


def test_every_merge_is_reported_and_how_the_work_was_done(tmp_path):
    watch = Watch()
    trained, statistics = merge(word_counts(tmp_path), TrainOptions(vocab_size=270), 0, watch)
    assert watch.merges == len(trained.merges) == 270 - 257
    assert statistics["on_disk"] is True
    assert statistics["scans"] == 270 - 257
    assert statistics["symbols"] == sum(len(word) + 1 for word in COUNTS) + 1


@pytest.mark.parametrize("interrupt", [False, True])
def test_the_scratch_file_is_gone_in_the_end(tmp_path, interrupt):
    try:
        merge(word_counts(tmp_path), TrainOptions(vocab_size=280), 0, Watch(interrupt))
    except KeyboardInterrupt:
        assert interrupt
    assert [path.name for path in tmp_path.iterdir()] == ["word-counts"]


def test_a_vocabulary_smaller_than_the_bytes_that_occur_is_refused(tmp_path):
    options = TrainOptions(vocab_size=10, initial_alphabet="seen")
    with pytest.raises(
        ConfigError, match="smaller than its alphabet: 15 bytes and 1 special tokens"
    ) as caught:
        merge(word_counts(tmp_path), options, 10**7, Silent())
    assert "16" in caught.value.hint


def test_a_file_of_word_counts_that_is_damaged_is_said_to_be(tmp_path):
    damaged = word_counts(tmp_path)
    damaged.path.write_bytes(damaged.path.read_bytes()[:-1])
    with pytest.raises(StorageError, match="is damaged: a word reaches beyond") as caught:
        merge(damaged, TrainOptions(vocab_size=280), 10**7, Silent())
    assert "--overwrite" in caught.value.hint
