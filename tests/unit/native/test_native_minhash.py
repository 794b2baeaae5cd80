"""MinHash's kernels: words, shingles, bands, tables, components, sets of shingles on disk."""

from __future__ import annotations

import tempfile
import unicodedata
from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill import _native
from krill.corpus.buffers import text_buffers, text_column
from krill.dedup.minhash import MinHash
from oracles.dedup import (
    fold_character,
    reference_clusters,
    reference_jaccard,
    reference_least_numbers,
    reference_shingles,
    reference_words,
)
from properties import tried

# The native table is made from this version; a newer one knows characters that the table doesn't.
TABLE_UNICODE = "14.0.0"

letters = st.sampled_from("aAbZéÉßİςΣσǅñ한글ো")  # noqa: RUF001
gaps = st.sampled_from(" \n\t.,;:!?-_/()[]«»“”…©😀\u200d\u00ad\u0301\u3000\x00")
digits = st.sampled_from("0123456789٠٣१𝟗.,،٫⎖")  # noqa: RUF001
texts = st.lists(st.one_of(letters, gaps, digits), max_size=40).map("".join)


def column(texts: list[str]) -> pa.Array:
    return pa.array(texts, pa.large_string())


def folded(texts: list[str]) -> list[str]:
    return text_column(*_native.folded_text(*text_buffers(column(texts)))).to_pylist()


def shingles(texts: list[str], ngram: int) -> list[list[int]]:
    numbers, offsets = _native.shingle_sets(*text_buffers(column(texts)), ngram)
    return [numbers[start:end].tolist() for start, end in pairwise(offsets.tolist())]


@pytest.mark.skipif(unicodedata.unidata_version != TABLE_UNICODE, reason="another version of Unicode")
def test_every_character_becomes_what_the_reference_says() -> None:
    # Beyond what Unicode has assigned, one of each page will do.
    assigned = [*range(0xD800), *range(0xE000, 0x33000), *range(0xE0000, 0xE1000)]
    points = [*assigned, *range(0x33000, 0xE0000, 128), *range(0xE1000, 0x110000, 128)]
    text = "".join(f"x{chr(point)}x " for point in points)
    expected = " ".join(" ".join(f"x{fold_character(chr(point))}x".split(" ")) for point in points)
    assert folded([text]) == [expected]


@given(st.lists(texts, max_size=5))
@tried(120)
def test_words_are_those_of_the_reference(texts: list[str]) -> None:
    assert folded(texts) == [" ".join(reference_words(text)) for text in texts]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, World!", "hello world"),
        ("Café naïve ÅNGSTRÖM", "cafe naive angstrom"),
        ("1,234.56 and 3.14 and 7.", "0 0 and 0 and 0"),
        ("a1b22c", "a0b0c"),
        ("v1.2.3-rc.4", "v0 0 rc 0"),
        ("ΣΟΦΟΣ σοφός", "σοφοσ σοφοσ"),
        ("soft\u00adhyphen \u200bzero\ufeff", "softhyphen zero"),
        ("漢字、かな。", "漢字 かな"),
        ("한", "\u1112\u1161\u11ab"),
        ("...", ""),
    ],
)
def test_words_as_people_would_write_them(text: str, words: str) -> None:
    assert folded([text]) == [words]


def test_ill_formed_bytes_stand_between_words() -> None:
    data = np.frombuffer(b"one\xfftwo\xe2\x82three\xed\xa0\x80four\xc3", np.uint8)
    offsets, words = _native.folded_text(np.array([0, len(data)]), data)
    assert (offsets.tolist(), words.tobytes()) == ([0, 18], b"one two three four")


@given(st.lists(texts, max_size=4), st.integers(1, 7))
@tried(80)
def test_shingles_are_equal_where_runs_of_words_are(texts: list[str], ngram: int) -> None:
    expected = [reference_shingles(text, ngram) for text in texts]
    found = shingles(texts, ngram)
    # Hashes can't be named, but how many there are, and how many two documents share, says the same.
    for numbers, runs in zip(found, expected, strict=True):
        assert numbers == sorted(set(numbers))
        assert len(numbers) == len(runs)
    for one, one_runs in zip(found, expected, strict=True):
        for other, other_runs in zip(found, expected, strict=True):
            assert len(set(one) & set(other)) == len(one_runs & other_runs)


def test_texts_that_fold_to_the_same_words_have_the_same_bands() -> None:
    same = [
        "The QUICK brown fox, 12 of them!",
        "the quick (brown) fóx 7.5 of them",
        "The quick brown fox 0 of them",
    ]
    bands = MinHash().bands_of(column([*same, "the quick brown fox of them"]))
    assert (bands[0] == bands[1]).all() and (bands[0] == bands[2]).all()
    assert not (bands[0] == bands[3]).any()


def test_short_texts_meet_only_their_equals() -> None:
    bands = MinHash().bands_of(column(["two words", "Two  words.", "two other", "", "!!!", "!!!", "two"]))
    assert bands[0].tolist() == bands[1].tolist()
    assert bands[4].tolist() == bands[5].tolist()
    assert len({tuple(row) for row in bands.tolist()}) == 5
    assert len(set(bands.reshape(-1).tolist())) == 5 * 14


def test_bands_do_not_depend_on_what_else_is_in_the_column() -> None:
    texts = [f"text {'x ' * number} with some words more, and more of them" for number in range(50)]
    together = MinHash(5, 3, 2).bands_of(column(texts))
    apart = np.concatenate([MinHash(5, 3, 2).bands_of(column([text])) for text in texts])
    assert together.tolist() == apart.tolist()
    sliced = MinHash(5, 3, 2).bands_of(column(texts).slice(10, 7))
    assert sliced.tolist() == together[10:17].tolist()


def test_the_first_bands_are_the_same_however_many_follow() -> None:
    text = column(["a b c d e f g h i j k l m n o p q r s t u v w x y z " * 30])
    assert MinHash(3, 8).bands_of(text).tolist() == MinHash(14, 8).bands_of(text)[:, :3].tolist()


@given(texts, st.integers(1, 20), st.integers(1, 6), st.integers(1, 4))
@tried(60)
def test_bands_are_hashes_of_the_least_numbers_of_the_reference(
    text: str, bands: int, rows: int, ngram: int
) -> None:
    numbers = np.array(reference_least_numbers(shingles([text], ngram)[0], bands * rows), np.uint32)
    expected = []
    for band in range(bands):
        row = numbers[band * rows : (band + 1) * rows]
        hashed = _native.hash_documents(np.array([0, row.nbytes]), row.tobytes(), seed=band)
        expected.append(int(hashed[0, 0]))
    assert MinHash(bands, rows, ngram).bands_of(column([text])).tolist() == [expected]


def test_more_shingles_than_one_batch_are_all_looked_at() -> None:
    text = " ".join(
        "".join(map(chr, word)) for word in np.random.default_rng(1).integers(97, 122, (1000, 4)).tolist()
    )
    numbers = np.array(reference_least_numbers(shingles([text], 2)[0], 6), np.uint32)
    hashed = _native.hash_documents(np.array([0, 24]), numbers.tobytes(), seed=0)
    assert MinHash(1, 6, 2).bands_of(column([text])).tolist() == [[int(hashed[0, 0])]]


@pytest.mark.parametrize("common", [0, 300, 600, 800, 900])
def test_documents_agree_in_as_many_rows_as_they_share_shingles(common: int) -> None:
    # One row a band: the share of equal bands is an estimate of the Jaccard similarity.
    random = np.random.default_rng(7)
    difference = 0.0
    for _ in range(6):
        drawn = random.integers(ord("a"), ord("z"), (2000 - common, 3))
        words = ["".join(map(chr, letters)) for letters in drawn.tolist()]
        texts = [" ".join(words[:1000]), " ".join(words[1000 - common :])]
        truth = reference_jaccard(*(reference_shingles(text, 2) for text in texts))
        one, other = MinHash(4096, 1, 2).bands_of(column(texts))
        difference += float(np.mean(one == other)) - truth
    # Three standard deviations of the mean of so many coins.
    assert abs(difference / 6) < 3 * 0.5 / (6 * 4096) ** 0.5


@pytest.mark.parametrize(
    ("bands", "rows", "ngram"), [(0, 8, 5), (14, 0, 5), (64, 65, 5), (14, 8, 0), (14, 8, 101)]
)
def test_impossible_numbers_are_refused(bands: int, rows: int, ngram: int) -> None:
    with pytest.raises(ValueError, match=r"at most 4096|1 to 100 words"):
        MinHash(bands, rows, ngram).bands_of(column(["text"]))


@given(st.lists(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=30), max_size=4))
def test_a_table_knows_the_least_number_of_each_key(batches: list[list[tuple[int, int]]]) -> None:
    table = _native.MinTable(1 << 12)
    least: dict[int, int] = {}
    for batch in batches:
        expected = []
        for number, key in batch:
            least[key] = min(least.get(key, number), number)
            expected.append(least[key])
        assert table.fold(np.array(batch, np.uint64).reshape(-1, 2)).tolist() == expected
    assert len(table) == len(least)


def test_a_table_takes_its_keys_and_not_one_more() -> None:
    table = _native.MinTable(160)
    full = np.array([(5, key) for key in range(table.max_keys)], np.uint64)
    table.fold(full)
    with pytest.raises(_native.TableFull):
        table.fold(np.array([(5, 10**6)], np.uint64))
    assert table.fold(full).tolist() == [5] * table.max_keys
    with pytest.raises(ValueError, match="at least 32 bytes"):
        _native.MinTable(31)


@given(
    st.lists(st.tuples(st.integers(0, 299), st.integers(0, 299)), max_size=60),
    st.integers(0, 300),
)
def test_components_are_named_by_their_smallest_and_counted(edges: list[tuple[int, int]], prior: int) -> None:
    documents = 300
    first = reference_clusters(
        [[number for number, edge in enumerate(edges) if one in edge] for one in range(documents)]
    )
    sizes = Counter(first[prior:])
    rows = np.array(edges, np.uint64).reshape(-1, 2)
    components = _native.Components(documents)
    components.mark(rows)
    assert components.members == len({document for edge in edges for document in edge})
    components.join(rows[: len(rows) // 2])
    components.join(rows[len(rows) // 2 :])
    dropped = {head for document, head in enumerate(first) if document >= prior and document != head}
    marked = {first[document] for edge in edges for document in edge}
    clusters, largest = components.count(prior)
    assert clusters == len(dropped)
    assert largest == max((sizes[head] for head in marked), default=0)
    smallest, counted = components.labels(0, documents)
    assert smallest.tolist() == first
    assert counted[prior:].tolist() == [sizes[head] for head in first[prior:]]
    middle, _ = components.labels(70, 130)
    assert middle.tolist() == first[70:200]


def test_edges_to_no_document_and_labels_of_none_are_refused() -> None:
    components = _native.Components(10)
    with pytest.raises(IndexError, match="an edge to no document"):
        components.mark(np.array([(3, 10)], np.uint64))
    components.mark(np.array([(3, 4)], np.uint64))
    with pytest.raises(ValueError, match="an edge that was not marked"):
        components.join(np.array([(3, 5)], np.uint64))
    components.count(0)
    with pytest.raises(IndexError, match="labels of no document"):
        components.labels(5, 6)


@given(st.lists(st.sets(st.integers(0, 40), max_size=30), min_size=1, max_size=6), st.booleans())
def test_sets_on_disk_share_what_sets_in_memory_share(sets: list[set[int]], large: bool) -> None:
    if large:  # beyond one buffer of 4,096 numbers
        sets = [{number * 200 + low for number in one for low in range(200)} for one in sets]
    pairs = [(one, other) for one in range(len(sets)) for other in range(len(sets))]
    with tempfile.TemporaryFile() as index, tempfile.TemporaryFile() as data:
        at = 0
        for one in sets:
            index.write(np.array([at, len(one)], np.uint64).tobytes())
            data.write(np.array(sorted(one), np.uint64).tobytes())
            at += len(one)
        index.flush()
        data.flush()
        found = _native.jaccard(index.fileno(), data.fileno(), np.array(pairs, np.uint64))
        expected = [
            reference_jaccard(sets[one], sets[other]) if sets[one] | sets[other] else 1.0
            for one, other in pairs
        ]
        assert found.tolist() == expected
        with pytest.raises(RuntimeError, match="ends early"):
            _native.jaccard(index.fileno(), data.fileno(), np.array([(0, len(sets))], np.uint64))
