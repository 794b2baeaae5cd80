"""The counter: exact counts whatever the cap, the threads, and how often it was begun again."""

from __future__ import annotations

import random
import threading
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill import _native
from krill.tokenizer.patterns import PATTERNS
from oracles.tokenizer import count_words
from properties import tried
from word_count_files import byte_counts, read_word_counts, record

# From one that lets a shard hold seven words to one that never spills.
CAPS = (0, 300, 5_000, 200_000, 10**8)
WAYS = 64  # segments that are merged at once


def no_segments():
    return np.empty((0, 3), np.uint64)


def new_counter(
    folder, *, pattern="gpt2", boundaries=(), lines=False, cap=0, threads=1, segments=None, size=0
):
    segments = no_segments() if segments is None else segments
    spill = str(folder / "spill")
    return _native.WordCounter(pattern, list(boundaries), lines, cap, threads, spill, segments, size)


def add(counter, documents):
    """Documents as UTF-8, or as bytes that may be anything."""
    parts = [text.encode() if isinstance(text, str) else text for text in documents]
    counter.add(np.cumsum([0, *map(len, parts)], dtype=np.int64), b"".join(parts))


def add_words(counter, words):
    counter.add_words(np.cumsum([len(word) for word in words], dtype=np.uint64), b"".join(words))


def counted(counter, folder):
    """The file of word counts, whose totals must be those of its words."""
    words, occurrences, size, of_bytes = counter.write_counts(str(folder / "word-counts"))
    counts = read_word_counts(folder / "word-counts")
    assert (words, occurrences, size) == (len(counts), sum(counts.values()), sum(map(len, counts)))
    assert of_bytes.tolist() == byte_counts(counts)
    return counts


def scanned(pieces, pattern):
    """The words of pieces that need not be UTF-8, which the library can't take."""
    counts = Counter()
    for piece in pieces:
        ends = [0, *_native.scan_words(piece, pattern).tolist()]
        counts.update(piece[start:end] for start, end in pairwise(ends))
    return dict(counts)


def lines_of(text):
    return [line for line in text.replace("\n", "\n\0").split("\0") if line]


def distinct_words(count, size=8):
    chance = random.Random(count)
    return list({chance.randbytes(size) for _ in range(count)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """For examples, of which each writes over what another left."""
    return tmp_path_factory.mktemp("examples")


# ---- what is counted

TEXTS = st.lists(
    st.one_of(
        st.text("ab \n\r'1é.", max_size=60),
        st.text(max_size=40),
        st.sampled_from(["<s>", "a<s>b", "<s><e>", "word " * 40, "x" * 700, "語" * 200, " \r\n" * 20]),
    ),
    max_size=6,
)


@tried(100)
@given(
    texts=TEXTS,
    pattern=st.sampled_from(list(PATTERNS)),
    special=st.sampled_from([(), ("<s>",), ("<s>", "<s><e>", "a")]),
    lines=st.booleans(),
    cap=st.sampled_from(CAPS),
)
def test_words_are_those_of_the_reference(folder, texts, pattern, special, lines, cap):
    counter = new_counter(
        folder, pattern=pattern, boundaries=[token.encode() for token in special], lines=lines, cap=cap
    )
    add(counter, texts)
    # No special token holds a newline here, so it is the same whichever is cut first.
    pieces = [line for text in texts for line in lines_of(text)] if lines else texts
    assert counted(counter, folder) == count_words(pieces, pattern, special)


@tried(60)
@given(
    pieces=st.lists(st.binary(max_size=80), max_size=6),
    pattern=st.sampled_from(list(PATTERNS)),
    cap=st.sampled_from(CAPS),
)
def test_bytes_that_are_not_text_are_counted_as_the_scanner_cuts_them(folder, pieces, pattern, cap):
    counter = new_counter(folder, pattern=pattern, cap=cap)
    add(counter, pieces)
    assert counted(counter, folder) == scanned(pieces, pattern)


def test_a_special_token_is_cut_out_before_lines_are(tmp_path):
    counter = new_counter(tmp_path, boundaries=[b"<\n>"], lines=True)
    add(counter, ["a<\n>b\n\nc"])
    assert counted(counter, tmp_path) == {b"a": 1, b"b": 1, b"\n": 2, b"c": 1}


# ---- spilling


@pytest.mark.parametrize("cap", CAPS)
def test_tens_of_thousands_of_words_are_counted_in_any_cap(tmp_path, cap):
    words = distinct_words(30_000)
    expected = {word: 1 + (at % 3 == 0) for at, word in enumerate(words)}
    counter = new_counter(tmp_path, pattern="", cap=cap)
    add_words(counter, words)
    add_words(counter, words[::3])
    assert (counter.spilled_bytes > 0) is (cap <= 200_000)
    segments = counter.checkpoint() if cap == 0 else no_segments()
    assert counted(counter, tmp_path) == expected
    if cap == 0:
        assert np.bincount(segments[:, 0].astype(int)).min() > WAYS


def test_segments_are_merged_through_as_many_levels_as_it_takes(tmp_path):
    """Words that no table of this cap can hold make a segment each, all of one word in one shard."""
    long = [bytes([65 + at]) * (300 + at) for at in range(3)]
    counter = new_counter(tmp_path, pattern="", cap=0)
    for times in (WAYS * WAYS, WAYS + 1, 1):
        add_words(counter, long * times)
    segments = counter.checkpoint()
    assert np.bincount(segments[:, 0].astype(int)).max() > WAYS * WAYS
    assert counted(counter, tmp_path) == dict.fromkeys(long, WAYS * WAYS + WAYS + 2)


@pytest.mark.parametrize("cap", [0, 10**8])
def test_a_word_of_a_megabyte_is_a_word_like_others(tmp_path, cap):
    text = "word " + "é" * 10**6 + " word"
    counter = new_counter(tmp_path, cap=cap)
    add(counter, [text, text])
    add(counter, ["é" * 10**6])
    words = {b"word": 2, b" word": 2, f" {'é' * 10**6}".encode(): 2, ("é" * 10**6).encode(): 1}
    assert counted(counter, tmp_path) == words


def test_no_more_is_held_than_the_cap(tmp_path):
    cap = 2_000_000
    counter = new_counter(tmp_path, pattern="", cap=cap)
    for seed in range(5):
        add_words(counter, [b"%d %d" % (seed, number) for number in range(30_000)])
        assert counter.held_bytes <= cap
    assert counter.spilled_bytes > 0
    assert counted(counter, tmp_path) == {b"%d %d" % (s, n): 1 for s in range(5) for n in range(30_000)}
    assert counter.held_bytes == 0


def test_sums_go_beyond_32_bits(tmp_path):
    counter = new_counter(tmp_path, pattern="")
    add_words(counter, [b"word"])
    shard = int(counter.checkpoint()[0, 0])
    once = record(b"word", 2**40 + 1)
    (tmp_path / "spill").write_bytes(once * 2)
    segments = np.array([[shard, 0, len(once)], [shard, len(once), 2 * len(once)]], np.uint64)
    counter = new_counter(tmp_path, pattern="", segments=segments, size=2 * len(once))
    add_words(counter, [b"word"])
    assert counted(counter, tmp_path) == {b"word": 2**41 + 3}


# ---- threads


@pytest.mark.parametrize("cap", [0, 1_000_000])
def test_several_threads_add_at_once(tmp_path, cap):
    chance = random.Random(7)
    words = [f" {chance.randrange(4_000)}{'y' * (number % 40)}" for number in range(20_000)]
    documents = ["".join(words[at : at + 100]) for at in range(0, len(words), 100)]
    counter = new_counter(tmp_path, cap=cap, threads=4)
    threads = [threading.Thread(target=add, args=(counter, documents[at::4])) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted(counter, tmp_path) == count_words(documents, "gpt2")


# ---- interrupted and continued


@tried(60)
@given(
    attempts=st.lists(st.lists(st.text("abc 1", max_size=80), max_size=4), min_size=1, max_size=5),
    cap=st.sampled_from(CAPS),
)
def test_a_new_counter_goes_on_from_the_checkpoint_of_an_old_one(folder, attempts, cap):
    segments, size = no_segments(), 0
    for texts in attempts:
        counter = new_counter(folder, cap=cap, segments=segments, size=size)
        add(counter, texts)
        segments, size = counter.checkpoint(), counter.spilled_bytes
        add(counter, ["lost with the life that had not written it down " * 9])
        del counter
    counter = new_counter(folder, cap=cap, segments=segments, size=size)
    assert counted(counter, folder) == count_words([text for life in attempts for text in life], "gpt2")


def test_a_counter_goes_on_after_its_own_checkpoint(tmp_path):
    counter = new_counter(tmp_path, cap=10**6)
    for _ in range(3):
        add(counter, ["one two two"])
        counter.checkpoint()
    assert counted(counter, tmp_path) == {b"one": 3, b" two": 6}


# ---- files that are not as they were written


@pytest.fixture
def spilled(tmp_path):
    """A spill file, its segments and its size: few bytes, but a length that takes two of them."""
    counter = new_counter(tmp_path, pattern="")
    add_words(counter, [b"word", b"word", b"x" * 130, *distinct_words(6, size=2)])
    segments = counter.checkpoint()
    return (tmp_path / "spill").read_bytes(), segments, counter.spilled_bytes


def test_a_spill_file_that_became_shorter_is_refused(tmp_path, spilled):
    content, segments, size = spilled
    for kept in range(len(content)):
        (tmp_path / "spill").write_bytes(content[:kept])
        with pytest.raises(_native.DamagedFile, match="shorter"):
            new_counter(tmp_path, pattern="", segments=segments, size=size)


def test_a_spill_file_that_becomes_shorter_under_way_is_refused(tmp_path, spilled):
    content, segments, size = spilled
    for kept in range(len(content)):
        (tmp_path / "spill").write_bytes(content)
        counter = new_counter(tmp_path, pattern="", segments=segments, size=size)
        (tmp_path / "spill").write_bytes(content[:kept])
        with pytest.raises(_native.DamagedFile):
            counter.write_counts(str(tmp_path / "word-counts"))


@pytest.mark.parametrize(
    "segments", [[[64, 0, 1]], [[0, 0, 3]], [[0, 2, 1]], [[0, 2**63, 2**63 + 1]], [[2**64 - 1, 0, 0]]]
)
def test_segments_outside_of_the_file_are_refused(tmp_path, segments):
    (tmp_path / "spill").write_bytes(b"\1\0")
    with pytest.raises(_native.DamagedFile, match="outside"):
        new_counter(tmp_path, segments=np.array(segments, np.uint64), size=2)


@pytest.mark.parametrize(
    "content",
    [
        b"\1\5word",  # longer than what is there
        b"\1\xff\xff\xff\xff\xff\xff\xff\xff\xff\1word",  # 2^64 - 1 bytes
        b"\1",  # no length
        b"\1\x80",  # half of one
        b"\x80" * 11,  # a number without end
    ],
)
def test_lengths_that_can_not_be_are_refused(tmp_path, content):
    (tmp_path / "spill").write_bytes(content)
    segments = np.array([[0, 0, len(content)]], np.uint64)
    counter = new_counter(tmp_path, segments=segments, size=len(content))
    with pytest.raises(_native.DamagedFile):
        counter.write_counts(str(tmp_path / "word-counts"))


def test_any_changed_byte_is_refused_or_read_as_something_else(tmp_path, spilled):
    content, segments, size = spilled
    refused = 0
    for at in (at for at in range(len(content)) if content[at - 1 : at + 1] != b"xx"):
        for flip in (0x01, 0x80, 0xFF):
            changed = bytearray(content)
            changed[at] ^= flip
            (tmp_path / "spill").write_bytes(changed)
            counter = new_counter(tmp_path, pattern="", segments=segments, size=size)
            try:
                words, *_ = counter.write_counts(str(tmp_path / "word-counts"))
            except _native.DamagedFile:
                refused += 1
            else:
                assert words > 0
    assert refused > 20


def test_a_spill_file_that_can_not_be_opened_is_an_os_error_with_its_name(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        new_counter(tmp_path / "absent")
    assert caught.value.filename == str(tmp_path / "absent" / "spill")


# ---- words that somebody else has cut


@tried(100)
@given(texts=TEXTS, pattern=st.sampled_from(list(PATTERNS)), cap=st.sampled_from(CAPS))
def test_words_given_one_by_one_equal_those_found(folder, texts, pattern, cap):
    counter = new_counter(folder, pattern="", cap=cap)
    for text in texts:
        counter.add_words(_native.scan_words(text.encode(), pattern).astype(np.uint64), text.encode())
    assert counted(counter, folder) == count_words(texts, pattern)


@pytest.mark.parametrize("ends", [[5], [3, 2], [2**64 - 1]])
def test_words_outside_of_their_data_are_refused(tmp_path, ends):
    with pytest.raises(ValueError, match="within the data"):
        new_counter(tmp_path).add_words(np.array(ends, np.uint64), b"word")


def test_empty_words_are_none(tmp_path):
    counter = new_counter(tmp_path)
    add_words(counter, [])
    add_words(counter, [b"", b"a", b"", b"", b"b", b""])
    assert counted(counter, tmp_path) == {b"a": 1, b"b": 1}


def test_a_counter_without_a_pattern_takes_words_only(tmp_path):
    with pytest.raises(RuntimeError, match="words only"):
        add(new_counter(tmp_path, pattern=""), ["text"])


def test_a_pattern_of_no_known_name_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no pattern"):
        new_counter(tmp_path, pattern="gpt3")
