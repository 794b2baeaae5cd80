"""Merging says beforehand where it will be slow, and what memory would make it fast."""

from __future__ import annotations

import random
import re

import pytest

from krill.threads.progress import Silent
from krill.tokenizer.count import WordCounts
from krill.tokenizer.merge import merge
from krill.tokenizer.options import TrainOptions
from word_count_files import byte_counts, write_word_counts

# Nothing occurs so often: what is learnt ends before it begins.
OPTIONS = TrainOptions(vocab_size=60_000, min_frequency=10**12)
VOCABULARY = 60_000 * 260


class Notes(Silent):
    """Keeps the notices."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture(scope="module")
def word_counts(tmp_path_factory: pytest.TempPathFactory) -> WordCounts:
    """A million bytes without a space, in one word."""
    chance = random.Random(1)
    counts = {bytes(chance.randrange(256) for _ in range(1_000_000)): 1}
    path = write_word_counts(tmp_path_factory.mktemp("words") / "word-counts", counts)
    return WordCounts(path, 1, 1, 1_000_000, tuple(byte_counts(counts)), 0)


def notes_at(word_counts: WordCounts, cap: int) -> list[str]:
    notes = Notes()
    merge(word_counts, OPTIONS, cap, notes)
    return notes.lines


def test_words_that_stay_on_disk_are_noticed_with_a_rate_and_the_memory_that_is_enough(
    word_counts: WordCounts,
) -> None:
    (line,) = notes_at(word_counts, VOCABULARY + 2_000_000)
    assert line.startswith("merging will be slow: the different words (3.03 MB) stay on disk")
    assert "about 115 a second" in line
    (more,) = map(int, re.findall(r"with (\d+) MB more --memory", line))
    assert notes_at(word_counts, VOCABULARY + 2_000_000 + more * 10**6) == []


def test_words_that_leave_no_room_for_positions_are_noticed(word_counts: WordCounts) -> None:
    (line,) = notes_at(word_counts, VOCABULARY + 3_300_000)
    assert "leave no room for the places of pairs" in line
    assert "about 1,979 a second" in line
