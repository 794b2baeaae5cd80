"""Words are counted as the slow reference counts them, whatever the threads and special tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

import krill
from krill.errors import InputError
from oracles.tokenizer import count_words

TEXTS = ["The krill and the whale.\n\nÜber 300 m tief", " the the the", "\tthe end<|x|>the"]


@pytest.mark.parametrize("threads", [1, 2])
def test_words_are_counted_as_the_reference_counts_them(tmp_path: Path, threads: int) -> None:
    for number, text in enumerate(TEXTS):
        (tmp_path / f"{number}.txt").write_text(f"{text}<|endoftext|>{text}", encoding="utf-8")
    special = ("<|endoftext|>", "<|x|>")
    files = sorted(tmp_path.glob("*.txt"))
    found = krill.tokenizer.word_counts(files, special_tokens=special, memory="200MB", threads=threads)
    assert found == count_words([*TEXTS, *TEXTS], "gpt2", special)
    assert found[b" the"] > 5


def test_a_word_of_many_bytes_and_a_count_of_many_digits_come_back_whole(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x" * 70_000 + " ab" * 30_000, encoding="utf-8")
    found = krill.tokenizer.word_counts(tmp_path / "a.txt")
    assert found == {b"x" * 70_000: 1, b" ab": 30_000}


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.txt"):
        krill.tokenizer.word_counts(str(tmp_path / "absent.txt"))
