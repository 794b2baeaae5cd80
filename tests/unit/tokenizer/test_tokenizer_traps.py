"""Where Hugging Face's library does what one would not expect: each is as in the library, in ids, offsets and
decoding, and said here with the tokens that it gives.
"""

# ruff: noqa: RUF001

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from krill.errors import InputError
from oracles.normalizers import charsmap_of, precompiled
from tokenizer_building import token
from tokenizer_sections import (
    LOWER,
    MARK,
    SPACES_ARE_MARKS,
    Section,
    bert,
    metaspace,
    normalizers,
    split,
    split_at,
    stripped,
)
from tokenizer_texts import assert_same, both

Tokens = list[tuple[str, tuple[int, int]]]
Tokenize = Callable[..., Tokens]


@pytest.fixture
def tokens_of(tmp_path: Path) -> Tokenize:
    """The library's tokens of a text, when ours are the same; `sections` are of the file."""

    def tokenize(model: Section, text: str, **sections: Any) -> Tokens:
        empty = dict.fromkeys(("normalizer", "pre_tokenizer", "post_processor", "decoder"))
        file = tmp_path / "tokenizer.json"
        written = {"version": "1.0", "added_tokens": [], **empty, "model": model, **sections}
        file.write_text(json.dumps(written), encoding="utf-8")
        library, ours = both(file)
        assert_same(library, ours, [text])
        found = library.encode(text)
        return list(zip(found.tokens, found.offsets, strict=True))

    return tokenize


def bpe(*tokens: str, **options: Any) -> Section:
    ids = {token: number for number, token in enumerate(tokens)}
    return {"type": "BPE", "vocab": ids, "merges": [], **options}


def words(*tokens: str) -> Section:
    ids = {token: number for number, token in enumerate(("<unk>", *tokens))}
    return {"type": "WordLevel", "vocab": ids, "unk_token": "<unk>"}


def pieces(*tokens: str, most: int = 100) -> Section:
    ids = {token: number for number, token in enumerate(("[UNK]", *tokens))}
    of_words = {"continuing_subword_prefix": "##", "max_input_chars_per_word": most}
    return {"type": "WordPiece", "vocab": ids, "unk_token": "[UNK]", **of_words}


def unigram(*vocab: tuple[str, float], unk_id: int | None = 0, **options: Any) -> Section:
    return {"type": "Unigram", "vocab": list(vocab), "unk_id": unk_id, **options}


BYTES_OF_A_ACUTE = ("<0xC3>", "<0xA1>")


def test_bpe_emits_its_fused_unknown_token_after_a_later_byte_token(tokens_of: Tokenize) -> None:
    model = bpe("<unk>", *BYTES_OF_A_ACUTE, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    assert [name for name, _ in tokens_of(model, "xyá")] == ["<0xC3>", "<0xA1>", "<unk>"]


def test_bpe_without_an_unknown_token_drops_characters_and_shifts_later_offsets(tokens_of: Tokenize) -> None:
    assert tokens_of(bpe("a", "b"), "axb") == [("a", (0, 1)), ("b", (1, 2))]


def test_the_byte_fallback_of_unigram_is_of_the_whole_unknown_run(tokens_of: Tokenize) -> None:
    known = [("<unk>", 0.0), ("b", -1.0), *((name, -2.0) for name in (*BYTES_OF_A_ACUTE, "<0x78>"))]
    run = (1, 3)
    assert tokens_of(unigram(*known, byte_fallback=True), "báxb") == [
        *[("b", (0, 1)), ("<0xC3>", run), ("<0xA1>", run), ("<0x78>", run), ("b", (3, 4))]
    ]
    # One byte that is no token makes all of the run unknown.
    assert tokens_of(unigram(*known, byte_fallback=True), "báyb")[1] == ("áy", run)


def test_unigram_takes_the_earliest_start_of_equal_sums(tokens_of: Tokenize) -> None:
    model = unigram(("<unk>", 0.0), ("a", -1.0), ("aa", -2.0), ("ab", -3.0), ("b", -2.0))
    assert [name for name, _ in tokens_of(model, "aab")] == ["a", "ab"]
    # Sums are doubles: three times -0.1 is less than -0.3.
    model = unigram(("<unk>", 0.0), ("a", -0.1), ("aaa", -0.3))
    assert [name for name, _ in tokens_of(model, "aaa")] == ["aaa"]


def test_an_unknown_character_of_unigram_costs_ten_more_than_the_worst_piece(tokens_of: Tokenize) -> None:
    worst = [("xa", -6.0), ("bc", -6.0), ("d", -6.0)]
    for score, expected in ((-1.5, ["x", "abcd"]), (-2.5, ["xa", "bc", "d"])):
        model = unigram(("<unk>", 0.0), *worst, ("abcd", score))  # -16 for the x
        assert [name for name, _ in tokens_of(model, "xabcd")] == expected


def test_unigram_without_an_unknown_token_refuses_what_it_does_not_know(
    tokens_of: Tokenize, tmp_path: Path
) -> None:
    model = unigram(("a", -1.0), unk_id=None)
    assert tokens_of(model, "aa") == [("a", (0, 1)), ("a", (1, 2))]
    library, ours = both(tmp_path / "tokenizer.json")
    with pytest.raises(Exception, match="`unk_id` is missing"):
        library.encode("ax")
    with pytest.raises(InputError, match="no unknown token"):
        ours.encode("ax")


def test_one_unknown_piece_makes_a_word_of_word_piece_unknown(tokens_of: Tokenize) -> None:
    model = pieces("ab", "##c", "##d", most=3)
    cut = {"pre_tokenizer": {"type": "WhitespaceSplit"}}
    assert tokens_of(model, "abc abx", **cut) == [("ab", (0, 2)), ("##c", (2, 3)), ("[UNK]", (4, 7))]
    # The limit counts characters, not bytes.
    assert tokens_of(pieces("é", "##é", most=3), "ééé", **cut)[0] == ("é", (0, 1))
    assert tokens_of(pieces("é", "##é", most=3), "éééé", **cut) == [("[UNK]", (0, 4))]


def test_lowercase_knows_no_final_sigma(tokens_of: Tokenize) -> None:
    assert "ΣΑΣ".lower() == "σας"
    assert tokens_of(words("σασ", "σας"), "ΣΑΣ", normalizer=LOWER) == [("σασ", (0, 3))]


def test_strip_keeps_the_separators_that_python_strips(tokens_of: Tokenize) -> None:
    for separator in "\x1c\x1d\x1e\x1f":
        assert f"{separator}a".strip() == "a"
        model = words("a", f"{separator}a")
        found = tokens_of(model, f" {separator}a\u3000\x85", normalizer=stripped(True, True))
        assert found == [(f"{separator}a", (1, 3))]


def test_bert_strips_accents_where_nothing_is_said_if_it_lowers(tokens_of: Tokenize) -> None:
    model = words("e", "é", "E", "É")
    for lowers, accents, expected in ((True, None, "e"), (False, None, "É"), (True, False, "é")):
        assert tokens_of(model, "É", normalizer=bert(lowers, accents))[0][0] == expected
    assert tokens_of(model, "É", normalizer=bert(False, True))[0][0] == "E"


def added(*tokens: Section, first: int) -> list[Section]:
    return [{**each, "id": first + number} for number, each in enumerate(tokens)]


def test_metaspace_marks_the_first_section_alone_and_prepend_each_that_is_not_empty(
    tokens_of: Tokenize,
) -> None:
    model = words("a", f"{MARK}a", MARK)
    tokens = added(token("<s>", "special"), first=4)
    text = "a<s>a<s><s>a"
    names = [
        name for name, _ in tokens_of(model, text, pre_tokenizer=metaspace("first"), added_tokens=tokens)
    ]
    assert names == [f"{MARK}a", "<s>", "a", "<s>", "<s>", "a"]
    prepend = {"normalizer": {"type": "Prepend", "prepend": MARK}, "added_tokens": tokens}
    names = [name for name, _ in tokens_of(model, text, **prepend)]
    assert names == [f"{MARK}a", "<s>", f"{MARK}a", "<s>", "<s>", f"{MARK}a"]
    assert tokens_of(model, "<s>a", pre_tokenizer=metaspace("first"), added_tokens=tokens)[1][0] == "a"
    assert tokens_of(model, "", **prepend) == []


def test_a_mark_in_the_text_is_encoded_as_a_space(tokens_of: Tokenize) -> None:
    model = words(f"{MARK}a")
    for sections in ({"pre_tokenizer": metaspace("never")}, {"normalizer": SPACES_ARE_MARKS}):
        assert tokens_of(model, f"{MARK}a", **sections) == [(f"{MARK}a", (0, 2))]
        assert tokens_of(model, " a", **sections) == [(f"{MARK}a", (0, 2))]


def test_normalised_tokens_are_found_in_normalised_text_with_offsets_of_the_original(
    tokens_of: Tokenize,
) -> None:
    model = words("x")
    tokens = added(token("Ab\u0301", "normalized"), token("Q"), first=2)
    found = tokens_of(
        model, "xAB\u0301xq", normalizer=normalizers({"type": "NFC"}, LOWER), added_tokens=tokens
    )
    assert [place for _, place in found] == [(0, 1), (1, 4), (4, 6)]


def test_stripping_tokens_take_spaces_and_the_earliest_then_longest_wins(tokens_of: Tokenize) -> None:
    tokens = added(token("ab"), token("bcd"), token("abc"), token("[M]", "lstrip", "rstrip"), first=2)
    assert tokens_of(words("x"), "abcd", added_tokens=tokens) == [("abc", (0, 3)), ("<unk>", (3, 4))]
    found = tokens_of(words("x"), "x \n[M]\u3000 x", added_tokens=tokens)
    assert [place for _, place in found] == [(0, 1), (1, 8), (8, 9)]


def test_a_split_at_spaces_never_fires_behind_a_normalizer_that_replaces_them(tokens_of: Tokenize) -> None:
    model = bpe("a", MARK, f"a{MARK}", f"a{MARK}a", merges=[["a", MARK], [f"a{MARK}", "a"]])
    cut = {"pre_tokenizer": split_at(" ", "MergedWithPrevious")}
    assert tokens_of(model, "a a", normalizer=SPACES_ARE_MARKS, **cut) == [(f"a{MARK}a", (0, 3))]


def test_a_contraction_in_any_case_has_the_long_s(tokens_of: Tokenize) -> None:
    found = tokens_of(words("'\u017f"), "it'\u017f", pre_tokenizer=split("(?i:'s|'t)|[a-z]+"))
    assert found == [("<unk>", (0, 2)), ("'\u017f", (2, 4))]


def test_a_charsmap_takes_clusters_below_six_bytes_whole_and_others_by_character(
    tokens_of: Tokenize,
) -> None:
    # What begins with the first byte of an `e` or of a mark becomes one letter.
    charsmap = precompiled(charsmap_of({0x65: "Z", 0xCC: "y"}))
    assert tokens_of(words("Z", "Zyy"), "e\u0301\u0301", normalizer=charsmap)[0][0] == "Z"
    assert tokens_of(words("Z", "Zyyy"), "e\u0301\u0301\u0301", normalizer=charsmap)[0][0] == "Zyyy"
