"""Lists of strings: as Python holds them, of any width, and in sections between added tokens."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

import krill.tokenizer
from krill import _native
from krill.corpus.buffers import text_column_of
from krill.errors import InputError
from properties import tried

LETTERS = "abcdefghijklmnopqrstuvwxyz"
MERGES = [("▁", "a"), ("▁a", "b"), ("c", "d"), ("b", "c"), ("▁", "▁"), ("▁▁", "▁▁"), (")", "."), ("é", "漢")]
# As many first bytes as are looked for at once, and more.
FEW = ("\n", "\t", "[x]", "<b>", "<br>", "▁▁▁")
MANY = (*FEW, "{", "|y|", "~", "qq")


def tokenizer_with(added: tuple[str, ...], **model: Any) -> dict[str, Any]:
    """In the shape of Gemma's: no words, and line ends are added tokens."""
    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *LETTERS, *"▁é漢).(0123456789"]
    pieces += ["".join(merge) for merge in MERGES]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    return {
        "version": "1.0",
        "added_tokens": [{"id": len(pieces) + i, "content": one, **flags} for i, one in enumerate(added)],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"String": " "},
            "behavior": "MergedWithPrevious",
            "invert": False,
        },
        "model": {
            "type": "BPE",
            "vocab": {piece: number for number, piece in enumerate(pieces)},
            "merges": MERGES,
            "unk_token": "<unk>",
            "fuse_unk": True,
            "byte_fallback": True,
            **model,
        },
    }


def both(folder: Path, written: dict[str, Any], threads: int = 1) -> tuple[Any, Tokenizer]:
    (folder / "tokenizer.json").write_text(json.dumps(written))
    ours = krill.tokenizer.load(folder, memory="100MB", threads=threads)
    assert ours.native
    return ours, Tokenizer.from_str(json.dumps(written))


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Tokenizer]:
    return both(tmp_path_factory.mktemp("few"), tokenizer_with(FEW))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Tokenizer]:
    return both(tmp_path_factory.mktemp("many"), tokenizer_with(MANY))


# ---- strings ----


@tried(300)
@given(st.lists(st.one_of(st.text(), st.text("aé", max_size=50), st.text("a漢é", max_size=50))))
def test_strings_of_any_width_have_the_ids_of_their_utf8(few, texts: list[str]) -> None:
    offsets, ids = few[0].encode_arrow(text_column_of(texts))
    found = few[0].encode_batch(texts)
    assert all(one.dtype == np.uint32 for one in found)
    assert [one.tolist() for one in found] == [ids[begin:end].tolist() for begin, end in pairwise(offsets)]


@pytest.mark.parametrize("widest", ["a", "\xff", "\u0100", "\uffff", "\U00010000", "\U0010ffff"])
@pytest.mark.parametrize("length", [1, 15, 16, 17, 33])
def test_a_wide_character_anywhere_in_a_block(few, widest: str, length: int) -> None:
    texts = ["a" * at + widest + "b" * (length - at - 1) for at in range(length)]
    assert [ids.tolist() for ids in few[0].encode_batch(texts)] == [
        found.ids for found in few[1].encode_batch(texts)
    ]


def test_a_lone_surrogate_is_named_with_its_place(few) -> None:
    with pytest.raises(InputError, match="text 1 has a lone surrogate at character 2,"):
        few[0].encode_batch(["fine", "no\udc80"])
    with pytest.raises(InputError, match="text 0 has a lone surrogate at character 0,"):
        few[0].encode("\ud800" * 40)
    assert few[0].encode("cd").tolist() == few[1].encode("cd").ids


def test_many_pieces_keep_their_order_on_threads(tmp_path: Path) -> None:
    ours, library = both(tmp_path, tokenizer_with(FEW), threads=2)
    texts = [LETTERS[: number % 26] * (number % 7 * 5000) for number in range(200)]
    assert sum(map(len, texts)) > 2 * krill.tokenizer.tokenizer.PIECE_BYTES
    expected = [found.ids for found in library.encode_batch(texts[:40])]
    found = ours.encode_batch(texts)
    assert [ids.tolist() for ids in found[:40]] == expected
    one = krill.tokenizer.load(tmp_path, memory="100MB", threads=1)
    assert all(np.array_equal(a, b) for a, b in zip(found, map(one.encode, texts), strict=True))


@pytest.mark.parametrize(("begin", "end"), [(1, 0), (0, 2), (2, 2)])
def test_rows_that_are_not_there_are_refused(few, begin: int, end: int) -> None:
    with pytest.raises(ValueError, match="not as many strings"):
        few[0].encoder._native.encode_strings(("a",), begin, end)
    with pytest.raises(TypeError):
        few[0].encoder._native.encode_strings((b"a",), 0, 1)
    assert isinstance(few[0].encoder._native, _native.Encoder)


# ---- sections and runs ----

WORD = st.one_of(
    st.text("abcd", min_size=1, max_size=9),
    st.sampled_from(["(ab).", "é漢", "a1b2", "漢" * 7, "ab" * 20, "é" * 60, "x\U0001f600", "12345678"]),
)
LINES = st.lists(
    st.one_of(WORD, st.sampled_from([" ", "  ", "   ", "▁▁▁▁", *MANY])), min_size=1, max_size=60
).map(lambda words: " ".join(words))


@tried(300)
@given(st.lists(st.one_of(LINES, st.text("ab▁ )\n", min_size=50, max_size=300)), min_size=1, max_size=5))
def test_sections_between_added_tokens_have_the_ids_of_the_library(few, many, texts: list[str]) -> None:
    for ours, library in (few, many):
        expected = [found.ids for found in library.encode_batch(texts)]
        assert [ids.tolist() for ids in ours.encode_batch(texts)] == expected
        assert [ours.encode_offsets(text)[0].tolist() for text in texts] == expected


@pytest.mark.parametrize("entry", [15, 38, 158])
@pytest.mark.parametrize("letter", ["a", "é", "漢", "▁"])
def test_words_at_the_borders_of_cache_entries_in_sections_that_are_gone(
    few, entry: int, letter: str
) -> None:
    lines = [letter * (size // len(letter.encode())) + "b" for size in range(entry - 4, entry + 5)]
    text = "\n".join(lines * 2)
    for _ in range(2):
        assert few[0].encode(text).tolist() == few[1].encode(text).ids


def test_a_refused_document_leaves_nothing_behind(tmp_path: Path) -> None:
    written = tokenizer_with(FEW, unk_token="[missing]", byte_fallback=False)
    (tmp_path / "tokenizer.json").write_text(json.dumps(written))
    ours = krill.tokenizer.load(tmp_path, memory="100MB", threads=1)
    assert ours.native
    expected = ours.encode("ab cd\nab cd").tolist()
    with pytest.raises(InputError, match="gave up"):
        ours.encode("ab zab\nzab Q\nab")
    fresh = krill.tokenizer.load(tmp_path, memory="100MB", threads=1)
    assert ours.encode("ab cd\nab cd").tolist() == expected
    assert ours.encode("zab\nab zab").tolist() == fresh.encode("zab\nab zab").tolist()
