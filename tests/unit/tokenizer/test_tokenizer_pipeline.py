"""Whole tokenizers of random sections give the library's ids, offsets and text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from krill.errors import InputError
from krill.tokenizer.native import NativeEncoder
from krill.tokenizer.tokenizer_json import AddedToken, NotNative, read_spec
from properties import tried
from tokenizer_building import token
from tokenizer_strategies import DOCUMENTS, allowed, older_spellings, tokenizers
from tokenizer_strategies_sections import Section


def looked_for(library: Tokenizer, added: Iterable[AddedToken]) -> list[str]:
    """What the library looks for in normalised text."""
    normalized = [token.content for token in added if token.normalized]
    return (
        normalized if library.normalizer is None else list(map(library.normalizer.normalize_str, normalized))
    )


def assert_equal(written: Section, texts: list[str], ids_to_decode: list[int] | None = None) -> None:
    content = json.dumps(written)
    spec = read_spec(Path("tokenizer.json"), content.encode())
    assert not isinstance(spec, NotNative), spec.reason
    library = Tokenizer.from_str(content)
    library.no_truncation()
    library.no_padding()
    found = looked_for(library, spec.added)
    if len(found) > len(set(found)):
        assume(False)  # which of two equal ones the library finds changes from call to call
    if "" in found:  # the library finds it at each byte, and panics within characters
        with pytest.raises(InputError, match="normalizer leaves nothing of the added token"):
            NativeEncoder(Path("tokenizer.json"), "", spec, 100_000, 1)
        return
    ours = NativeEncoder(Path("tokenizer.json"), "", spec, 100_000, 1)

    def column(text: str) -> list[int]:
        ids: list[int] = ours.encode(pa.array([text], pa.large_string()), eos=False)[0].tolist()
        return ids

    def assert_decoded(ids: Any) -> None:
        if spec.model.byte_level and not spec.joins_bytes:
            return  # it is the library that decodes
        for skips in (False, True):
            expected = allowed(partial(library.decode, ids.tolist(), skip_special_tokens=skips))
            assert ours.decode(ids, skip_special_tokens=skips) == expected

    for text in texts:
        expected = allowed(partial(library.encode, text))
        if expected is None:
            for encode in (ours.encode_offsets, column):
                with pytest.raises(InputError, match="unknown token"):
                    encode(text)
            continue
        ids, offsets = ours.encode_offsets(text)
        assert ids.tolist() == expected.ids
        assert [tuple(pair) for pair in offsets.tolist()] == expected.offsets
        assert column(text) == expected.ids
        assert_decoded(ids)
    assert_decoded(np.array([number % spec.vocab_size for number in ids_to_decode or []], np.uint32))


IDS = st.lists(st.integers(0, 400), max_size=12)


@tried(150)
@given(tokenizers(), st.lists(DOCUMENTS, min_size=1, max_size=3), IDS)
def test_a_tokenizer_of_any_sections_gives_what_the_library_gives(
    written: Section, texts: list[str], ids: list[int]
) -> None:
    assert_equal(written, texts, ids)


@tried(100)
@given(older_spellings(), st.lists(DOCUMENTS, min_size=1, max_size=3), IDS)
def test_older_spellings_of_any_sections_give_what_the_library_gives(
    written: Section, texts: list[str], ids: list[int]
) -> None:
    assert_equal(written, texts, ids)


@pytest.mark.soak
@tried(1000)
@given(tokenizers(), st.lists(DOCUMENTS, min_size=1, max_size=3), IDS)
def test_many_tokenizers_of_any_sections_give_what_the_library_gives(
    written: Section, texts: list[str], ids: list[int]
) -> None:
    assert_equal(written, texts, ids)


def test_nothing_is_put_in_front_where_the_normalizer_removed_the_beginning() -> None:
    """For the library, a section begins the input if its first character is the input's first."""
    first = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}
    model = {"type": "WordLevel", "vocab": {"<unk>": 0, "\u25810": 1, "0": 2}, "unk_token": "<unk>"}
    sections = {"normalizer": {"type": "Nmt"}, "pre_tokenizer": first, "post_processor": None}
    written = {"version": "1.0", "added_tokens": [], **sections, "decoder": None, "model": model}
    assert_equal(written, ["0", "\x0b0"])


def test_all_pieces_of_the_first_character_are_the_beginning() -> None:
    """A normalizer, or letters for bytes, may make several of it, and each gets the mark in front."""
    first = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}
    each = {"type": "Split", "pattern": {"Regex": ""}, "behavior": "Isolated", "invert": False}
    letters = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    for normalizer, steps in (({"type": "NFD"}, [each, first]), (None, [letters, each, first])):
        tokens = [
            "<unk>",
            "e",
            "\u2581e",
            "\u2581\u0301",
            "\u0301",
            "\u00c3",
            "\u2581\u00c3",
            "\u2581\u00a9",
            "\u00a9",
        ]
        model = {
            "type": "WordLevel",
            "vocab": {token: n for n, token in enumerate(tokens)},
            "unk_token": "<unk>",
        }
        sections = {"normalizer": normalizer, "post_processor": None, "decoder": None, "added_tokens": []}
        cut = {"type": "Sequence", "pretokenizers": steps}
        assert_equal({"version": "1.0", **sections, "pre_tokenizer": cut, "model": model}, ["\u00e9\u00e9e"])


def of_words(tokens: list[str], **sections: Any) -> Section:
    """A tokenizer of whole words, in which `<unk>` stands for all others."""
    model = {"type": "WordLevel", "vocab": {token: n for n, token in enumerate(tokens)}, "unk_token": "<unk>"}
    empty = dict.fromkeys(("normalizer", "pre_tokenizer", "post_processor", "decoder"))
    return {"version": "1.0", "added_tokens": [], **empty, "model": model, **sections}


def test_an_added_token_of_whitespace_is_not_found_in_what_the_one_before_took() -> None:
    for content in ("\n", "  "):
        for left in (True, False):
            added = {**token(content, "rstrip", "special"), "lstrip": left, "id": 2}
            written = of_words(["<unk>", "x"], added_tokens=[added])
            assert_equal(written, ["\n\n", "x\n\nx \n ", " " * 7, "x    x", "  x \n\n"])


def test_a_post_processor_is_known_by_its_fields() -> None:
    around = {"sep": ["x", 1], "cls": ["<unk>", 0]}
    template = {
        "single": [{"SpecialToken": {"id": "x", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"x": {"id": "x", "ids": [1], "tokens": ["x"]}},
    }
    trimming = {**around, "trim_offsets": True, "add_prefix_space": False}
    for fields in (around, template, trimming):
        for kind in ({}, {"type": "BertProcessing"}, {"type": "RobertaProcessing"}):
            for step in ({**kind, **fields}, {"type": "Sequence", "processors": [{**kind, **fields}]}):
                assert_equal(of_words(["<unk>", "x", " x "], post_processor=step), ["", " x ", "x"])


def test_marks_of_words_may_be_other_characters_than_the_letters_for_bytes() -> None:
    letters = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    for suffix in ("\u2581", "\u00e9", " ", "</w>"):
        tokens = ["a", "b", "\u00c3", "\u00a9", f"b{suffix}", f"\u00a9{suffix}", f"ab{suffix}"]
        model = {
            "type": "BPE",
            "end_of_word_suffix": suffix,
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": [["a", f"b{suffix}"]],
        }
        written = of_words([], pre_tokenizer=letters, model=model)
        assert_equal(written, ["ab", "a", "\u00e9", "aab", "ab\u00e9"])


def test_unigram_names_the_bytes_of_letters_that_stand_for_bytes() -> None:
    letters = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    pieces = ["<unk>", "a", "\u0120", *(f"<0x{byte:02X}>" for byte in range(256))]
    model = {
        "type": "Unigram",
        "unk_id": 0,
        "byte_fallback": True,
        "vocab": [[piece, -1.0] for piece in pieces],
    }
    assert_equal(of_words([], pre_tokenizer=letters, model=model), ["a \u00e9a", "\n", "b"])


def test_an_added_token_of_which_the_normalizer_leaves_nothing_is_refused_by_its_name() -> None:
    """The library finds it at every byte, and panics within the first character of several."""
    strip = {"type": "Strip", "strip_left": True, "strip_right": True}
    added = {**token("\n", "normalized"), "id": 2}
    written = of_words(["<unk>", "x"], normalizer=strip, added_tokens=[added])
    spec = read_spec(Path("tokenizer.json"), json.dumps(written).encode())
    assert not isinstance(spec, NotNative)
    with pytest.raises(InputError, match=r"(?s)`tokenizer.json`.*leaves nothing of the added token `\n`"):
        NativeEncoder(Path("tokenizer.json"), "", spec, 100_000, 1)
    assert_equal(written, [])
