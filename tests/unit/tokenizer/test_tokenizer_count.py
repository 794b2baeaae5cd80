"""Counting a corpus: the same words whatever the format, the blocks, the threads, and the stops under way."""

from __future__ import annotations

import gzip
import json
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs import json_lines
from krill.corpus import DatasetSource, open_corpus
from krill.errors import BudgetError, StorageError
from krill.threads.progress import Silent
from krill.tokenizer import text_blocks
from krill.tokenizer.count import SPILL, STATE, WORD_COUNTS, CountJob, count
from krill.tokenizer.options import TrainOptions
from oracles.tokenizer import count_words
from real_text import real_texts
from word_count_files import read_word_counts

END = "<|endoftext|>"
TEXTS = [text[:3000] for text in islice(real_texts(), 60)]


class Interrupts(Silent):
    """Breaks off after so many blocks, as Ctrl-C would."""

    def __init__(self, blocks):
        self.left = blocks

    def advance(self, done):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt


class Adds(Silent):
    """What was said to be done, together."""

    done = 0

    def advance(self, done):
        self.done += done


def counting(folder, *sources, progress=None, unit_bytes=20_000, memory=10**7, threads=2, **chosen):
    """Small units and blocks, each unit written down as soon as it is counted."""
    sources = [
        source if isinstance(source, DatasetSource) else DatasetSource(str(source)) for source in sources
    ]
    corpus = open_corpus(
        sources,
        unit_bytes=unit_bytes,
        max_document_bytes=10**6,
        drop_oversize=False,
        skip_malformed=False,
        default_separator="",
        batch_rows=None,
    )
    return CountJob(
        corpus,
        TrainOptions(**chosen),
        folder / "count",
        cap_bytes=memory,
        in_flight=(threads + 1) * 10**6,
        threads=threads,
        progress=progress or Silent(),
        checkpoint_seconds=0,
        unit_bytes=unit_bytes,
        block_bytes=3_000,
    )


def words(word_counts):
    return read_word_counts(word_counts.path)


def state(folder):
    return json.loads((folder / "count" / STATE).read_bytes())


def write(folder, name):
    """The documents in one of the formats."""
    path = folder / name
    plain = END.join(TEXTS).encode()
    if name == "documents.parquet":
        pq.write_table(pa.table({"text": TEXTS}), path, row_group_size=7)
    elif name.startswith("documents.jsonl"):
        path.write_bytes(gzip.compress(json_lines(TEXTS)) if name.endswith("gz") else json_lines(TEXTS))
    else:
        path.write_bytes(gzip.compress(plain) if name.endswith("gz") else plain)
    return path


FORMATS = ["documents.txt", "documents.txt.gz", "documents.jsonl", "documents.jsonl.gz", "documents.parquet"]


@pytest.mark.parametrize("pattern", ["gpt2", "o200k", r"\w+|[^\w]"])
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_words_of_its_documents(tmp_path, name, pattern):
    word_counts = count(counting(tmp_path, write(tmp_path, name), pattern=pattern))
    counts = words(word_counts)
    assert counts == count_words(TEXTS, pattern)
    assert (word_counts.words, word_counts.occurrences) == (len(counts), sum(counts.values()))
    assert not (tmp_path / "count" / SPILL).exists()


@pytest.mark.parametrize("name", FORMATS)
def test_lines_are_pieces_of_their_own_and_special_tokens_text_like_any_other(tmp_path, name):
    counts = words(count(counting(tmp_path, write(tmp_path, name), boundaries="lines")))
    texts = TEXTS if "txt" not in name else [END.join(TEXTS)]
    lines = [line for text in texts for line in text.replace("\n", "\n\0").split("\0")]
    assert counts == count_words(lines, "gpt2")


def test_with_the_tie_break_of_the_course_special_tokens_are_cut_out_of_lines_too(tmp_path):
    (tmp_path / "text.txt").write_text(f"one{END}two\nthree")
    made = count(counting(tmp_path, tmp_path / "text.txt", boundaries="lines", tie_break="greatest"))
    assert words(made) == {b"one": 1, b"two": 1, b"\n": 1, b"three": 1}


@pytest.mark.parametrize("memory", [0, 100_000, 10**8])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_neither_memory_nor_threads_change_a_count(tmp_path, memory, threads):
    made = count(counting(tmp_path, write(tmp_path, "documents.txt"), memory=memory, threads=threads))
    assert words(made) == count_words(TEXTS, "gpt2")
    assert made.spilled_bytes > 0


def test_several_sources_are_counted_together(tmp_path):
    paths = [write(tmp_path, name) for name in FORMATS]
    assert words(count(counting(tmp_path, *paths))) == count_words(TEXTS * len(FORMATS), "gpt2")


def test_a_separator_is_cut_out_of_plain_text(tmp_path):
    (tmp_path / "text.txt").write_text("one--two--three")
    source = DatasetSource(str(tmp_path / "text.txt"), separator="--")
    assert words(count(counting(tmp_path, source))) == {b"one": 1, b"two": 1, b"three": 1}


@pytest.mark.parametrize("name", ["text.txt", "text.txt.gz"])
@pytest.mark.parametrize("split", ["train[10:90]", "train[:50%]", "train[33:]"])
def test_a_slice_of_plain_text_is_all_that_is_counted(tmp_path, name, split):
    documents = [f"document {number} of some length" for number in range(100)]
    content = "--".join(documents).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    source = DatasetSource(str(tmp_path / name), split=split, separator="--")
    wanted = {"train[10:90]": slice(10, 90), "train[:50%]": slice(50), "train[33:]": slice(33, None)}[split]
    made = count(counting(tmp_path, source, unit_bytes=500))
    assert words(made) == count_words(documents[wanted], "gpt2")


# ---- stopped and gone on


@pytest.mark.parametrize("name", FORMATS)
def test_a_counting_that_is_stopped_again_and_again_counts_nothing_twice(tmp_path, monkeypatch, name):
    path = write(tmp_path, name)
    monkeypatch.setattr(text_blocks, "CHUNK_BYTES", 2_000)
    blocks = 25 if "jsonl" in name else 10  # more than a unit has
    attempts, units = 0, set()
    while True:
        attempts += 1
        try:
            word_counts = count(
                counting(tmp_path, path, progress=Interrupts(blocks), memory=50_000 * (attempts % 2))
            )
            break
        except KeyboardInterrupt:
            assert units <= state(tmp_path)["units"].keys()
            units = set(state(tmp_path)["units"])
    assert attempts > 2
    assert len(units) > 2
    assert words(word_counts) == count_words(TEXTS, "gpt2")


def test_progress_counts_earlier_work_again_when_a_run_continues(tmp_path):
    path = write(tmp_path, "documents.txt")
    with pytest.raises(KeyboardInterrupt):
        count(counting(tmp_path, path, progress=Interrupts(30)))
    progress = Adds()
    count(counting(tmp_path, path, progress=progress))
    assert progress.done == path.stat().st_size


def test_a_finished_count_is_used_as_it_is(tmp_path):
    path = write(tmp_path, "documents.txt")
    word_counts = count(counting(tmp_path, path))
    written = word_counts.path.stat().st_mtime_ns
    progress = Adds()
    assert count(counting(tmp_path, path, progress=progress)) == word_counts
    assert word_counts.path.stat().st_mtime_ns == written
    assert progress.done == path.stat().st_size


@pytest.mark.parametrize("name", ["blank.jsonl", "blank.jsonl.gz", "blank.csv", "blank.txt", "blank.parquet"])
def test_input_without_documents_is_passed_also_when_it_goes_on(tmp_path, name):
    path = tmp_path / name
    if name == "blank.parquet":
        pq.write_table(pa.table({"text": pa.array([], pa.string())}), path)
    else:
        content = b"text\n" if name == "blank.csv" else b"\n" * 50_000
        path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    documents = write(tmp_path, "documents.jsonl")
    with pytest.raises(KeyboardInterrupt):
        count(counting(tmp_path, path, documents, progress=Interrupts(40)))
    made = words(count(counting(tmp_path, path, documents)))
    made.pop(b"\n" * 50_000, None)
    expected = count_words(TEXTS, "gpt2")
    assert made == expected


# ---- what is damaged


def stopped(folder):
    path = write(folder, "documents.txt")
    with pytest.raises(KeyboardInterrupt):
        count(counting(folder, path, progress=Interrupts(40)))
    return path


def test_a_spill_file_that_lost_its_end_is_refused(tmp_path):
    path = stopped(tmp_path)
    spill = tmp_path / "count" / SPILL
    spill.write_bytes(spill.read_bytes()[: state(tmp_path)["spill_size"] - 1])
    with pytest.raises(StorageError, match="is damaged: the spill file is shorter") as caught:
        count(counting(tmp_path, path))
    assert "--overwrite" in caught.value.hint


def test_a_spill_file_of_other_bytes_is_refused(tmp_path):
    path = stopped(tmp_path)
    spill = tmp_path / "count" / SPILL
    spill.write_bytes(b"\xff" * spill.stat().st_size)
    with pytest.raises(StorageError, match="is damaged: a number"):
        count(counting(tmp_path, path))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"units": 1}'])
def test_a_state_that_can_not_be_read_is_refused(tmp_path, content):
    path = stopped(tmp_path)
    (tmp_path / "count" / STATE).write_bytes(content)
    with pytest.raises(StorageError, match=rf"{STATE}` is damaged"):
        count(counting(tmp_path, path))


def test_a_file_of_word_counts_that_lost_its_end_is_refused(tmp_path):
    path = write(tmp_path, "documents.txt")
    word_counts = count(counting(tmp_path, path))
    word_counts.path.write_bytes(word_counts.path.read_bytes()[:-1])
    with pytest.raises(StorageError, match=f"{WORD_COUNTS}` is damaged"):
        count(counting(tmp_path, path))


# ---- too much


@pytest.mark.parametrize("name", ["long.txt", "long.txt.gz"])
def test_text_that_can_not_be_cut_in_the_share_is_refused(tmp_path, name):
    content = b"x" * 1_200_000
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    with pytest.raises(BudgetError, match="no place to cut it in 1"):
        count(counting(tmp_path, tmp_path / name))


def test_the_folder_that_is_written_is_named_when_it_can_not_be(tmp_path):
    (tmp_path / "count").write_bytes(b"a file")
    with pytest.raises(StorageError, match="count`"):
        count(counting(tmp_path, write(tmp_path, "documents.txt")))
