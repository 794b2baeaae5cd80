"""The sample on which a finished tokenizer is measured: a megabyte from all over the corpus."""

from __future__ import annotations

import gzip

import pytest

from jobs import json_lines
from krill.corpus import DatasetSource, open_corpus
from krill.tokenizer.files import save
from krill.tokenizer.options import TrainOptions
from krill.tokenizer.sample import SAMPLE_BYTES, bytes_per_token, sample_texts
from oracles.tokenizer import count_words, train

WORDS = "one two three "
MEMORY = 64 * 10**6


def corpus_of(*paths):
    return open_corpus(
        [DatasetSource(str(path)) for path in paths],
        unit_bytes=1 << 20,
        max_document_bytes=1 << 20,
        drop_oversize=False,
        skip_malformed=False,
        default_separator="",
        batch_rows=None,
    )


def write(path, content):
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A tokenizer that has a token for each of the words, with its space."""
    folder = tmp_path_factory.mktemp("trained")
    save(train(count_words([WORDS * 3], "gpt2"), TrainOptions(vocab_size=300)), folder)
    return folder


@pytest.mark.parametrize("name", ["text.txt", "text.txt.gz"])
def test_plain_text_is_measured_in_tokens_of_its_words(tmp_path, trained, name):
    path = write(tmp_path / name, (WORDS * 100).strip().encode())
    assert bytes_per_token(corpus_of(path), trained, MEMORY) == round((len(WORDS) * 100 - 1) / 300, 3)


def test_documents_are_measured_by_their_text_alone(tmp_path, trained):
    path = write(tmp_path / "documents.jsonl", json_lines(["one two three"] * 5))
    assert bytes_per_token(corpus_of(path), trained, MEMORY) == round(len("one two three") / 3, 3)


def test_where_there_is_no_text_nothing_is_measured(tmp_path, trained):
    path = write(tmp_path / "documents.jsonl", json_lines(["", "", None]))
    assert bytes_per_token(corpus_of(path), trained, MEMORY) is None


def test_where_there_is_no_room_nothing_is_measured(tmp_path, trained):
    path = write(tmp_path / "text.txt", WORDS.encode())
    assert bytes_per_token(corpus_of(path), trained, 1000) is None


@pytest.mark.parametrize("files", [1, 3, 40])
def test_a_sample_is_a_megabyte_at_most_and_from_everywhere(tmp_path, files):
    paths = [
        write(tmp_path / f"{number:02}.txt", f"{number} ".encode() * (4_000_000 // files))
        for number in range(files)
    ]
    texts = sample_texts(corpus_of(*paths))
    assert SAMPLE_BYTES * 0.9 <= sum(len(text.encode()) for text in texts) <= SAMPLE_BYTES
    seen = {text.split()[1] for text in texts}
    assert len(seen) == min(files, 16)
    assert max(map(int, seen)) >= files - 10


def test_text_is_taken_from_every_part_of_a_file(tmp_path):
    path = write(tmp_path / "text.txt", "".join(f"{number:09} " for number in range(500_000)).encode())
    numbers = [int(text.split()[1]) for text in sample_texts(corpus_of(path))]
    assert numbers == sorted(numbers)
    assert [number * 5 // 500_000 for number in numbers] == [0, 0, 1, 2, 3]


def test_bytes_that_are_not_text_are_left_out(tmp_path):
    path = write(tmp_path / "text.txt", b"a\xff" * 100)
    assert sample_texts(corpus_of(path)) == ["a" * 100]
