"""Unigram, WordPiece and WordLevel give the tokens of Hugging Face's library, with the same offsets."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from krill import _native
from krill.tokenizer.vocabulary import to_text
from oracles.models import (
    NoUnknownToken,
    Token,
    reference_unigram,
    reference_word_level,
    reference_word_piece,
)
from properties import tried

# One to four bytes a character, and what names of bytes are written with.
LETTERS = "aabbcé漢😀<u>\0"
TEXTS = st.text(LETTERS, min_size=1, max_size=6)
WORDS = st.text(LETTERS + "xĀ語", min_size=1, max_size=24)
BYTE_NAMES = [f"<0x{byte:02X}>" for byte in range(256)]
# Few values, so that sums are often equal or differ by rounding alone, and any others.
SCORES = st.sampled_from([-3.0, -2.5, -0.1, -0.2, -0.3, 0.0, 0.1, 7.0]) | st.floats(-30, 30)


def flat(texts: Sequence[bytes]) -> tuple[bytes, NDArray[np.int64]]:
    return b"".join(texts), np.cumsum([0, *map(len, texts)], dtype=np.int64)


def tokens_of(model: _native.Model, words: Sequence[bytes]) -> list[list[Token]]:
    """The tokens of words, as the library would say them."""
    data, offsets = flat(words)
    ids, lengths, counts = model.encode_words(offsets, data)
    result, at = [], 0
    for count in counts.tolist():
        tokens: list[Token] = []
        begin = end = 0
        for number, length in zip(
            ids[at : at + count].tolist(), lengths[at : at + count].tolist(), strict=True
        ):
            begin, end = (end, end + length) if length else (begin, end)
            tokens.append((number, begin, end))
        result.append(tokens)
        at += count
    return result


def library_tokens(model: models.Model, word: str) -> list[Token]:
    return [(token.id, *token.offsets) for token in model.tokenize(word)]


def by_id(vocab: Mapping[bytes, int]) -> tuple[bytes, NDArray[np.int64], NDArray[np.uint8]]:
    """Tokens, offsets and flags: 3 for a token of words, 0 for an id that is not in use."""
    tokens = [b""] * (1 + max(vocab.values(), default=-1))
    for token, number in vocab.items():
        tokens[number] = token
    used = set(vocab.values())
    return *flat(tokens), np.array([3 * (number in used) for number in range(len(tokens))], np.uint8)


def unigram(
    vocab: Sequence[tuple[str, float]], unk_id: int | None, byte_fallback: bool = False
) -> _native.Unigram:
    scores = np.array([score for _, score in vocab], np.float64)
    flags = np.full(len(vocab), 3, np.uint8)
    return _native.Unigram(
        *flat([piece.encode() for piece, _ in vocab]), flags, scores, unk_id, byte_fallback, False
    )


def word_piece(
    vocab: Mapping[str, int], unk_token: str, prefix: str = "##", most: int = 100
) -> _native.WordPiece:
    arrays = by_id({piece.encode(): number for piece, number in vocab.items()})
    return _native.WordPiece(*arrays, vocab.get(unk_token), prefix.encode(), most, False)


def word_level(vocab: Mapping[str, int], unk_token: str) -> _native.WordLevel:
    arrays = by_id({word.encode(): number for word, number in vocab.items()})
    return _native.WordLevel(*arrays, vocab.get(unk_token))


def vocabularies(texts: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, int]]:
    """Ids by text, with holes."""
    numbers = st.permutations(range(30))
    return st.tuples(st.sets(texts, max_size=20), numbers).map(lambda drawn: dict(zip(*drawn, strict=False)))


@st.composite
def unigram_vocabularies(draw: st.DrawFn) -> tuple[list[tuple[str, float]], int | None, bool]:
    texts = draw(st.lists(TEXTS | st.just(""), max_size=12))
    byte_fallback = draw(st.booleans())
    if byte_fallback:
        missing = draw(st.sets(st.sampled_from([0x61, 0x78, 0xC3, 0xA9, 0xE8, 0x9F, 0x00])))
        texts += [name for byte, name in enumerate(BYTE_NAMES) if byte not in missing]
    vocab = [(text, draw(SCORES) if len(text) != 6 else -4.0) for text in texts]
    unk_id = draw(st.none() | st.integers(0, len(vocab) - 1)) if vocab else None
    return vocab, unk_id, byte_fallback


@tried(300)
@given(unigram_vocabularies(), st.lists(WORDS, min_size=1, max_size=8))
def test_unigram_chooses_the_pieces_that_the_library_chooses(
    drawn: tuple[list[tuple[str, float]], int | None, bool], words: list[str]
) -> None:
    vocab, unk_id, byte_fallback = drawn
    model, library = unigram(*drawn), models.Unigram(vocab, unk_id, byte_fallback)
    for word in words:
        try:
            expected = library_tokens(library, word)
        except Exception as error:
            assert "unk_id" in str(error)
            with pytest.raises(RuntimeError, match="no unknown token"):
                tokens_of(model, [word.encode()])
            with pytest.raises(NoUnknownToken):
                reference_unigram(word, *drawn)
            continue
        assert tokens_of(model, [word.encode()]) == [expected]
        assert reference_unigram(word, *drawn) == expected


def test_unigram_fuses_unknowns_and_looks_the_whole_of_them_up() -> None:
    vocab = [("<unk>", 100.0), ("a", 100.0), ("xy", 100.0), ("b", 150.0)]
    # Two unknown letters have a larger sum than the piece of both, which then is what they are.
    for word in ("axyb", "a<unk>b", "xa<unk>xb", "xyz"):
        expected = library_tokens(models.Unigram(vocab, 0, False), word)
        assert tokens_of(unigram(vocab, 0), [word.encode()]) == [expected]
    assert tokens_of(unigram(vocab, 0), [b"axyb"]) == [[(1, 0, 1), (2, 1, 3), (3, 3, 4)]]


def test_one_missing_byte_makes_a_whole_run_unknown() -> None:
    names = [(name, -5.0) for name in BYTE_NAMES if name != "<0xA9>"]
    vocab = [("<unk>", 0.0), ("a", -1.0), *names]
    model = unigram(vocab, 0, byte_fallback=True)
    assert tokens_of(model, ["aèxa".encode()])[0] == [
        (1, 0, 1),
        (2 + 0xC3 - 1, 1, 4),
        (2 + 0xA8, 1, 4),
        (2 + 0x78, 1, 4),
        (1, 4, 5),
    ]
    assert tokens_of(model, ["aéxa".encode()])[0] == [(1, 0, 1), (0, 1, 4), (1, 4, 5)]


def test_a_document_of_megabytes_is_one_word() -> None:
    pattern = "aab▁b漢x" * 5_000
    vocab = [("<unk>", 0.0), ("a", -1.0), ("aa", -2.1), ("aab", -3.0), ("▁b", -1.5), ("b", -1.7), ("x", -9.0)]
    expected = library_tokens(models.Unigram(vocab, 0, False), pattern)
    assert tokens_of(unigram(vocab, 0), [pattern.encode()]) == [expected]
    # No place divides this one, and the sums are rounded more and more.
    letters = [("<unk>", 0.0), ("a", -1.1), ("aa", -2.2), ("aaa", -3.3000000000000003)]
    expected = library_tokens(models.Unigram(letters, 0, False), "a" * 20_000)
    assert tokens_of(unigram(letters, 0), [b"a" * 20_000]) == [expected]
    assert len(tokens_of(unigram(letters, 0), [b"a" * 3_000_000])[0]) >= 1_000_000


@tried(150)
@given(
    vocabularies(TEXTS | TEXTS.map(lambda text: "##" + text) | st.sampled_from(["##", "", "é"])),
    st.sampled_from(["##", "", "é", "#"]),
    st.integers(0, 12),
    st.lists(WORDS | TEXTS, min_size=1, max_size=8),
)
def test_word_piece_cuts_as_the_library_cuts(
    vocab: dict[str, int], prefix: str, most: int, words: list[str]
) -> None:
    for unk_token in ("<u>", "a"):
        library = models.WordPiece(
            vocab, unk_token=unk_token, max_input_chars_per_word=most, continuing_subword_prefix=prefix
        )
        model = word_piece(vocab, unk_token, prefix, most)
        for word in words:
            try:
                expected = library_tokens(library, word)
            except Exception as error:
                assert "Missing [UNK]" in str(error)
                with pytest.raises(RuntimeError, match="unknown token"):
                    tokens_of(model, [word.encode()])
                with pytest.raises(NoUnknownToken):
                    reference_word_piece(word, vocab, unk_token, prefix, most)
                continue
            assert tokens_of(model, [word.encode()]) == [expected]
            assert reference_word_piece(word, vocab, unk_token, prefix, most) == expected


def test_the_limit_of_word_piece_counts_characters() -> None:
    vocab = {"[UNK]": 0, "é": 1, "##é": 2}
    assert tokens_of(word_piece(vocab, "[UNK]", most=3), ["ééé".encode(), "éééé".encode()]) == [
        [(1, 0, 2), (2, 2, 4), (2, 4, 6)],
        [(0, 0, 8)],
    ]


@tried(100)
@given(vocabularies(TEXTS), st.lists(TEXTS, min_size=1, max_size=8))
def test_word_level_looks_words_up(vocab: dict[str, int], words: list[str]) -> None:
    library, model = models.WordLevel(vocab, unk_token="a"), word_level(vocab, "a")
    for word in words:
        try:
            expected = library_tokens(library, word)
        except Exception as error:
            assert "Missing [UNK]" in str(error)
            with pytest.raises(RuntimeError, match="unknown token"):
                tokens_of(model, [word.encode()])
            with pytest.raises(NoUnknownToken):
                reference_word_level(word, word, vocab, "a")
            continue
        assert tokens_of(model, [word.encode()]) == [expected]
        assert reference_word_level(word, word, vocab, "a") == expected


@tried(100)
@given(
    st.lists(
        st.binary(min_size=1, max_size=4) | st.text("aé", min_size=1, max_size=2).map(str.encode), max_size=12
    ),
    st.lists(
        st.binary(min_size=1, max_size=12) | st.text("aé", min_size=1).map(str.encode), min_size=1, max_size=6
    ),
    st.randoms(use_true_random=False),
)
def test_where_bytes_are_characters_a_letter_of_byte_level_is_one(
    pieces: list[bytes], words: list[bytes], rng: random.Random
) -> None:
    pieces = [b"u", *pieces]
    scores = [rng.choice([-1.0, -2.0, -0.5, -3.3]) for _ in pieces]
    flags = np.full(len(pieces), 3, np.uint8)
    native = _native.Unigram(*flat(pieces), flags, np.array(scores), 0, False, True)
    library = models.Unigram([(to_text(p), score) for p, score in zip(pieces, scores, strict=True)], 0, False)
    vocab = {piece: number for number, piece in enumerate(pieces)}
    native_pieces = _native.WordPiece(*by_id(vocab), vocab[b"u"], b"#", 8, True)
    library_pieces = models.WordPiece(
        {to_text(piece): number for piece, number in vocab.items()},
        unk_token="u",
        max_input_chars_per_word=8,
        continuing_subword_prefix="#",
    )
    for word in words:
        letters = to_text(word)
        for model, other in ((native, library), (native_pieces, library_pieces)):
            expected = [
                (number, len(letters.encode()[:begin].decode()), len(letters.encode()[:end].decode()))
                for number, begin, end in library_tokens(other, letters)
            ]
            assert tokens_of(model, [word]) == [expected]


def test_arrays_that_make_no_sense_are_refused() -> None:
    data, offsets = flat([b"a", b"b"])
    scores, flags = np.zeros(2), np.full(2, 3, np.uint8)
    for wrong in (offsets[:0], offsets + 1, offsets[:2], np.array([0, 2, 1, 2])[:3]):
        with pytest.raises(ValueError, match="offset"):
            _native.Unigram(data, wrong, flags, scores, 0, False, False)
        with pytest.raises(ValueError, match="offset"):
            _native.WordPiece(data, wrong, flags, 0, b"##", 100, False)
        with pytest.raises(ValueError, match="offset"):
            _native.WordLevel(data, wrong, flags, 0)
    for unknown, bad in ((2, scores), (0, scores * np.nan), (0, scores - 1e300), (0, scores[:1])):
        with pytest.raises(ValueError, match=r"unk_id|score"):
            _native.Unigram(data, offsets, flags, bad, unknown, False, False)
    with pytest.raises(ValueError, match="byte fallback"):
        _native.Unigram(data, offsets, flags, scores, 0, True, True)
    with pytest.raises(ValueError, match="unknown token is not"):
        _native.WordPiece(data, offsets, flags, 2, b"##", 100, False)
    with pytest.raises(ValueError, match="unknown token is not"):
        _native.WordLevel(data, offsets, flags, 2)


def test_tokens_without_the_flag_of_words_are_never_met() -> None:
    data, offsets = flat([b"u", b"ab", b"a", b"b"])
    flags = np.array([3, 1, 3, 3], np.uint8)
    # The score of what is never met still counts for the lowest: an unknown letter has -15.
    model = _native.Unigram(data, offsets, flags, np.array([-1.0, -5, -1, -1]), 0, False, False)
    assert tokens_of(model, [b"ab"]) == [[(2, 0, 1), (3, 1, 2)]]
    assert tokens_of(_native.WordLevel(data, offsets, flags, 0), [b"ab", b"b"]) == [[(0, 0, 2)], [(3, 0, 1)]]


def corpus(lines: int) -> list[str]:
    """Lines of words of few letters, by a generator that is the same each time."""
    rng = random.Random(7)
    syllables = ["ka", "lo", "mé", "ти", "漢", "n", "st", "ra", "ing", "ed", "▁"]
    return [
        " ".join("".join(rng.choices(syllables, k=rng.randint(1, 6))) for _ in range(30))
        for _ in range(lines)
    ]


def test_trained_models_encode_as_in_the_library() -> None:
    lines = corpus(200)
    words = sorted({word for line in corpus(260) for word in line.split(" ")})
    encoded = [word.encode() for word in words]

    trained = Tokenizer(models.Unigram())
    trained.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trained.train_from_iterator(
        lines,
        trainers.UnigramTrainer(
            vocab_size=300, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False
        ),
    )
    section = json.loads(trained.to_str())["model"]
    vocab = [(piece, score) for piece, score in section["vocab"]]
    expected = [library_tokens(trained.model, word) for word in words]
    assert tokens_of(unigram(vocab, section["unk_id"]), encoded) == expected

    pieces = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    pieces.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    pieces.train_from_iterator(
        lines, trainers.WordPieceTrainer(vocab_size=300, special_tokens=["[UNK]"], show_progress=False)
    )
    expected = [library_tokens(pieces.model, word) for word in words]
    assert tokens_of(word_piece(pieces.get_vocab(), "[UNK]"), encoded) == expected
