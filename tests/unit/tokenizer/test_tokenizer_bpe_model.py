"""BPE of every kind as the library's: byte fallback, unknown tokens, affixes, whole words, pieces."""

from __future__ import annotations

import json
import lzma
import random
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from bpe_models import library_model, native_model, text_column
from krill import _native
from krill.tokenizer.vocabulary import to_text
from oracles.bpe import reference_cuts
from properties import tried
from real_text import SHARED_DATA, real_texts

CHARACTERS = "abc▁é漢😀<>\n"
REAL = sorted((SHARED_DATA / "tokenizers").glob("*.tokenizer.json.xz"))


def fallback_tokens(characters: str) -> list[str]:
    return sorted({f"<0x{byte:02X}>" for byte in characters.encode()})


@st.composite
def sections(draw: st.DrawFn, *, affixes: bool = True) -> dict[str, Any]:
    """A model section over a few characters, not all of which have a token."""
    prefix = draw(st.sampled_from(["", "", "##", "a"])) if affixes else ""
    suffix = draw(st.sampled_from(["", "", "</w>", "a"])) if affixes else ""
    fallback = not prefix and not suffix and draw(st.booleans())
    characters = draw(st.lists(st.sampled_from(CHARACTERS), min_size=1, unique=True))
    forms = [
        before + each + behind for each in characters for before in {"", prefix} for behind in {"", suffix}
    ]
    # In a fixed order: the same draws must give the same model.
    tokens = sorted(set(draw(st.lists(st.sampled_from(sorted(set(forms))), min_size=1, unique=True))))
    unk = draw(st.sampled_from([None, "<unk>", "a", "missing"]))
    if unk in ("<unk>", "a") and unk not in tokens:
        tokens.append(unk)
    bytes_ = fallback_tokens(CHARACTERS)
    if fallback:
        tokens += bytes_ if draw(st.booleans()) else draw(st.lists(st.sampled_from(bytes_), unique=True))
    # Mostly merges of characters; sometimes also of what stands for unknown ones.
    parts = (
        tokens if draw(st.integers(0, 3)) == 0 else [token for token in tokens if token in forms] or tokens
    )
    merges: list[tuple[str, str]] = []
    for left, right in draw(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=25)):
        pair = parts[left % len(parts)], parts[right % len(parts)]
        # The library takes the prefix's bytes off the right part whatever they are.
        if len(pair[1]) <= len(prefix) or not pair[1][: len(prefix)].isascii():
            continue
        joined = pair[0] + pair[1][len(prefix) :]
        merges.append(pair)
        if joined not in tokens:
            tokens.append(joined)
        if joined not in parts:
            parts = [*parts, joined]
    merges = draw(st.permutations(merges)) if draw(st.booleans()) else merges
    return {
        "vocab": {token: number for number, token in enumerate(tokens)},
        "merges": merges,
        "unk_token": unk,
        "fuse_unk": draw(st.booleans()),
        "byte_fallback": fallback,
        "continuing_subword_prefix": prefix or None,
        "end_of_word_suffix": suffix or None,
        "ignore_merges": draw(st.booleans()),
    }


def by_library(section: dict[str, Any], word: str) -> tuple[list[int], list[tuple[int, int]]] | None:
    """Ids and offsets in bytes; None if the library refuses the word."""
    try:
        tokens = library_model(section).tokenize(word)
    except Exception as error:
        assert "Unk token" in str(error)
        return None
    return [token.id for token in tokens], [token.offsets for token in tokens]


def natively(model: _native.BpeModel, word: bytes) -> tuple[list[int], list[tuple[int, int]]] | None:
    try:
        ids, lengths = model.encode_word(word)
    except RuntimeError as error:
        assert "the unknown token is not in the vocabulary" in str(error)
        return None
    return ids.tolist(), list(pairwise(accumulate(lengths.tolist(), initial=0)))


def in_texts(model: _native.BpeModel, texts: list[bytes], cache: int = 1 << 16) -> list[list[int]]:
    """Each text as one word, through the cache and in pieces."""
    ids, counts, _ = model.encode_texts(*text_column(texts), cache)
    return [part.tolist() for part in np.split(ids, np.cumsum(counts)[:-1])]


def in_ranges(model: _native.BpeModel, text: bytes) -> tuple[list[int], list[tuple[int, int]]]:
    """Ids and offsets in bytes, through the cache and in pieces."""
    ids, ends = model.encode_ranges(text)
    return ids.tolist(), list(map(tuple, ends.reshape(-1, 2).tolist()))


WORDS = st.one_of(
    st.text(CHARACTERS, min_size=1, max_size=60),
    st.lists(st.sampled_from(["ab", "c▁a", "漢字", "é", "▁", "<unk>", "aaaa", "😀", "x"]), min_size=1).map(
        "".join
    ),
)


# ---- against the library ----


@tried(400)
@given(sections(), st.lists(WORDS, min_size=1, max_size=4))
def test_words_have_the_ids_and_offsets_of_the_library(section: dict[str, Any], words: list[str]) -> None:
    model = native_model(section, byte_level=False)
    for word in words:
        assert natively(model, word.encode()) == by_library(section, word)


@tried(400)
@given(sections(affixes=False), st.lists(WORDS, min_size=1, max_size=4))
def test_pieces_and_cache_change_nothing(section: dict[str, Any], words: list[str]) -> None:
    model = native_model(section, byte_level=False)
    expected = [by_library(section, word) for word in words * 2]
    if None in expected:
        with pytest.raises(RuntimeError, match="unknown token is not in the vocabulary"):
            in_texts(model, [word.encode() for word in words])
    else:
        texts = [word.encode() for word in words * 2]
        assert in_texts(model, texts) == [found[0] for found in expected if found]
        assert [in_ranges(model, text) for text in texts] == expected


@tried(400)
@given(sections(affixes=False), st.lists(WORDS, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_spaces_are_read_as_marks(section: dict[str, Any], words: list[str], draw: random.Random) -> None:
    section = {**section, "ignore_merges": False}
    plain = native_model(section, byte_level=False)
    model = native_model(section, byte_level=False, reads_spaces_as_marks=True)
    assert model.reads_spaces_as_marks == ("▁" in section["vocab"])
    if not model.reads_spaces_as_marks:
        return
    # Some of the marks are spaces, and some stay.
    spaced = ["".join(draw.choice("▁ ") if each == "▁" else each for each in word) for word in words * 2]
    marked = [word.replace(" ", "▁") for word in spaced]
    try:
        expected = in_texts(plain, [word.encode() for word in marked])
    except RuntimeError:
        with pytest.raises(RuntimeError, match="unknown token is not in the vocabulary"):
            in_texts(model, [word.encode() for word in spaced])
        return
    assert in_texts(model, [word.encode() for word in spaced]) == expected
    for word, same in zip(spaced, marked, strict=True):
        pieces = [word.encode()[:end].decode().replace(" ", "▁") for end in model.cut_pieces(word.encode())]
        assert [len(piece.encode()) for piece in pieces] == plain.cut_pieces(same.encode())


def of_indentation(draw: st.DrawFn) -> dict[str, Any]:
    """A model of spaces that merge with each other, and of some that merge with what is beside them."""
    lengths = st.integers(1, 5)
    runs = draw(st.lists(st.tuples(lengths, lengths), max_size=12))
    beside = draw(
        st.lists(
            st.sampled_from([("▁", "a"), ("▁", "ab"), ("▁▁", "a"), ("b", "▁"), ("b▁", "a"), ("▁b", "▁")])
        )
    )
    merges = [("a", "b"), *(("▁" * left, "▁" * right) for left, right in runs), ("b", "▁"), ("▁", "b")]
    merges = [*merges, *beside] if draw(st.booleans()) else draw(st.permutations([*merges, *beside]))
    texts = [text for pair in merges for text in (*pair, "".join(pair))]
    tokens = list(dict.fromkeys(["<unk>", *"▁ab\n", *texts]))
    # Mostly without the merge by which a space belongs to the text before it.
    if draw(st.integers(0, 3)):
        merges = [pair for pair in merges if pair != ("b", "▁")]
    return simple(tokens, merges, unk_token="<unk>", byte_fallback=False)


@st.composite
def indented(draw: st.DrawFn) -> tuple[dict[str, Any], list[str]]:
    lines = st.tuples(st.integers(0, 70), st.sampled_from(["a", "ab", "b", "abab", "\n", "a b", "▁a"]))
    texts = draw(st.lists(st.lists(lines, min_size=1, max_size=8), min_size=1, max_size=3))
    return of_indentation(draw), ["".join(" " * spaces + text for spaces, text in each) for each in texts]


@tried(400)
@given(indented())
def test_indentation_is_cut_off_only_where_it_keeps_apart(given: tuple[dict[str, Any], list[str]]) -> None:
    section, texts = given
    model = native_model(section, byte_level=False, reads_spaces_as_marks=True)
    expected = [by_library(section, text.replace(" ", "▁")) for text in texts]
    assert in_texts(model, [text.encode() for text in texts]) == [found[0] for found in expected if found]


@st.composite
def byte_sections(draw: st.DrawFn) -> dict[str, Any]:
    """A byte-level model: tokens are any bytes, some of them parts of characters."""
    complete = draw(st.booleans())
    suffix = draw(st.sampled_from(["", "", "</w>"]))
    alphabet = range(256) if complete else range(0, 256, 3)
    tokens = [to_text(bytes([byte])) + end for byte in alphabet for end in sorted({"", suffix})]
    text = CHARACTERS.encode()
    known = [to_text(bytes([byte])) for byte in text]
    known = [token for token in known if token in tokens]
    merges = []
    for left, right in draw(st.lists(st.tuples(st.integers(0, 80), st.integers(0, 80)), max_size=30)):
        pair = known[left % len(known)], known[right % len(known)]
        merges.append(pair)
        if "".join(pair) not in tokens:
            tokens.append("".join(pair))
        known.append("".join(pair))
    unk = draw(st.sampled_from([None, "<unk>"]))
    return {
        "vocab": {token: number for number, token in enumerate([*tokens, *([unk] if unk else [])])},
        "merges": draw(st.permutations(merges)),
        "unk_token": unk,
        "fuse_unk": draw(st.booleans()),
        "end_of_word_suffix": suffix or None,
        "ignore_merges": draw(st.booleans()),
    }


@tried(300)
@given(byte_sections(), st.lists(WORDS, min_size=1, max_size=4))
def test_byte_level_words_have_the_ids_and_offsets_of_the_library(
    section: dict[str, Any], words: list[str]
) -> None:
    model = native_model(section, byte_level=True)
    expected = []
    for word in words:
        found = by_library(section, to_text(word.encode()))
        assert found is not None
        expected.append(found[0])
        # The library counts in letters; so does the model where bytes may be left out.
        ends = [0, *accumulate(len(to_text(bytes([byte])).encode()) for byte in word.encode())]
        ids, offsets = natively(model, word.encode()) or ([], [])
        if not model.counts_letters():
            offsets = [(ends[begin], ends[end]) for begin, end in offsets]
        assert (ids, offsets) == found
        if not model.counts_letters():
            ids, offsets = in_ranges(model, word.encode())
            assert (ids, [(ends[begin], ends[end]) for begin, end in offsets]) == found
    assert in_texts(model, [word.encode() for word in words] * 2) == expected * 2


@pytest.mark.skipif(not REAL, reason="the real tokenizers are not here")
@pytest.mark.parametrize("file", REAL, ids=[file.name.split(".")[0] for file in REAL])
@pytest.mark.parametrize("documents", [60, pytest.param(6000, marks=pytest.mark.soak)])
def test_documents_as_one_word_have_the_ids_of_the_library(file: Path, documents: int) -> None:
    """The hardest way for pieces: no pre-tokenizer, so every document is a word."""
    written = json.loads(lzma.decompress(file.read_bytes()))
    byte_level = not written["model"].get("byte_fallback")
    model = native_model(written["model"], byte_level=byte_level)
    written.update(normalizer=None, pre_tokenizer=None, post_processor=None, added_tokens=[])
    library = Tokenizer.from_str(json.dumps(written))
    texts = [text.replace(" ", "▁") for text in islice(real_texts(), documents)]
    for begin in range(0, len(texts), 200):
        some = texts[begin : begin + 200]
        letters = [to_text(text.encode()) for text in some] if byte_level else some
        expected = [found.ids for found in library.encode_batch(letters)]
        assert in_texts(model, [text.encode() for text in some], 1 << 24) == expected


# ---- single properties of the library ----


def simple(tokens: list[str], merges: list[tuple[str, str]] = (), **options: Any) -> dict[str, Any]:
    return {
        "vocab": {token: number for number, token in enumerate(tokens)},
        "merges": list(merges),
        **options,
    }


def both(section: dict[str, Any], word: str) -> tuple[list[int], list[tuple[int, int]]]:
    """What both say."""
    found = natively(native_model(section, byte_level=False), word.encode())
    assert found is not None
    assert found == by_library(section, word)
    return found


def test_an_unknown_token_comes_after_later_byte_tokens() -> None:
    tokens = ["<unk>", "a", "<0xC3>", "<0xA9>"]
    section = simple(tokens, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    ids, offsets = both(section, "ñéñb" + "a")
    assert ids == [2, 3, 0, 1]
    assert offsets == [(0, 1), (1, 2), (2, 7), (7, 8)]


def test_without_an_unknown_token_characters_are_dropped_and_later_offsets_shift() -> None:
    assert both(simple(["a", "b", "ab"], [("a", "b")]), "ax漢b") == ([2], [(0, 2)])


def test_a_missing_unknown_token_refuses_the_word() -> None:
    section = simple(["a"], unk_token="<unk>")
    assert by_library(section, "ab") is None
    assert natively(native_model(section, byte_level=False), b"ab") is None
    assert both(section, "aa") == ([0, 0], [(0, 1), (1, 2)])


def test_a_refused_word_leaves_nothing_in_the_cache() -> None:
    model = native_model(simple(["a"], unk_token="<unk>"), byte_level=False)
    with pytest.raises(RuntimeError):
        in_texts(model, [b"aaaa", b"ab"])
    assert in_texts(model, [b"aaaa", b"a"]) == [[0] * 4, [0]]


def test_a_word_that_is_a_token_ignores_merges_but_its_pieces_do_not() -> None:
    section = simple(["a", "b", "c", "▁", "ab", "ab▁c"], [("a", "b")], ignore_merges=True)
    model = native_model(section, byte_level=False)
    assert both(section, "ab▁c") == ([5], [(0, 6)])
    long_word = "c".join(["ab▁c"] * 5)
    expected = by_library(section, long_word)
    assert expected is not None
    assert in_texts(model, [b"ab\xe2\x96\x81c", long_word.encode(), b"ab\xe2\x96\x81c"]) == [
        [5],
        expected[0],
        [5],
    ]


# ---- pieces ----


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=30), st.text("abc▁é漢", min_size=1)
)
def test_pieces_end_where_no_merge_joins(picks: list[tuple[int, int]], word: str) -> None:
    tokens = ["<unk>", *"abc▁é漢"]
    merges = []
    for left, right in picks:
        pair = tokens[1 + left % (len(tokens) - 1)], tokens[1 + right % (len(tokens) - 1)]
        merges.append(pair)
        if "".join(pair) not in tokens:
            tokens.append("".join(pair))
    model = native_model(simple(tokens, merges, unk_token="<unk>"), byte_level=False)
    found, wanted = model.cut_pieces(word.encode()), reference_cuts(merges, word)
    assert set(found) <= set(wanted)  # beyond ASCII a cut may be missing by chance
    if set(word) <= set("abc▁"):
        assert found == wanted


def test_a_model_with_affixes_keeps_words_whole() -> None:
    section = simple(["a", "a</w>"], end_of_word_suffix="</w>")
    assert native_model(section, byte_level=False).cut_pieces(b"aaaa") == []


@pytest.mark.parametrize(("letters", "merges"), [("a", 0), ("a", 12), ("ab", 8), ("漢", 5)])
def test_a_megabyte_without_a_cut_is_merged_in_seconds(letters: str, merges: int) -> None:
    tokens, pairs = [*letters, "▁"], []
    for _ in range(merges):
        pairs.append((tokens[-1], tokens[-1]) if tokens[-1] != "▁" else (letters[0], letters[-1]))
        tokens.append("".join(pairs[-1]))
    section = simple(tokens, pairs)
    text = letters * (1_000_000 // len(letters.encode()))
    (ids,) = in_texts(native_model(section, byte_level=False), [text.encode()])
    assert "".join(tokens[number] for number in ids) == text
    assert ids == by_library(section, text)[0]  # type: ignore[index]


# ---- what is refused ----


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"byte_fallback": True, "suffix": b"</w>"}, "byte_fallback together with"),
        ({"unk": 7}, "the unknown token has an id that is not in use"),
        ({"unk": 2**32}, "the unknown token's id is too large"),
    ],
)
def test_what_does_not_fit_together_is_refused(options: dict[str, Any], message: str) -> None:
    offsets, flags = np.array([0, 1, 2], np.int64), np.array([3, 3], np.uint8)
    with pytest.raises(ValueError, match=message):
        _native.BpeModel(b"ab", offsets, flags, np.empty(0, np.uint32), byte_level=False, **options)


def test_a_merge_whose_right_part_is_the_prefix_alone_is_refused() -> None:
    section = simple(["a", "##", "##a"], [("a", "##")], continuing_subword_prefix="##")
    with pytest.raises(ValueError, match="not its two parts"):
        native_model(section, byte_level=False)
