"""Native decoders make of tokens the text that `tokenizers` makes of them."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from krill._native import Decoder
from krill.tokenizer.decoder_section import build_decoder
from properties import tried

Section = dict[str, Any]

_EMPTY = json.loads(Tokenizer.from_str('{"model": {"type": "BPE", "vocab": {}, "merges": []}}').to_str())


def replace(pattern: str, content: str) -> Section:
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


def strip(content: str, start: int, stop: int) -> Section:
    return {"type": "Strip", "content": content, "start": start, "stop": stop}


def metaspace(scheme: str) -> Section:
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": True}


STEPS: dict[str, Section] = {
    "byte level": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    "byte fallback": {"type": "ByteFallback"},
    "fuse": {"type": "Fuse"},
    "replace": replace("▁", " "),
    "replace regex": {"type": "Replace", "pattern": {"Regex": "[▁ ]+|a"}, "content": "_"},
    "replace anywhere": {"type": "Replace", "pattern": {"Regex": "a*"}, "content": "_"},
    "replace nothing": replace("", "x"),
    "replace by nothing": replace("a", ""),
    "strip first": strip(" ", 1, 0),
    "strip": strip("▁", 2, 1),
    "metaspace": metaspace("always"),
    "metaspace first": metaspace("first"),
    "metaspace never": metaspace("never"),
    "wordpiece": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    "wordpiece untouched": {"type": "WordPiece", "prefix": "", "cleanup": False},
    "bpe": {"type": "BPEDecoder", "suffix": "</w>"},
    "bpe without suffix": {"type": "BPEDecoder", "suffix": ""},
    "ctc": {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True},
    "ctc untouched": {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": False},
    "llama": {
        "type": "Sequence",
        "decoders": [replace("▁", " "), {"type": "ByteFallback"}, {"type": "Fuse"}, strip(" ", 1, 0)],
    },
    "empty": {"type": "Sequence", "decoders": []},
}
PIECES = (
    *(
        "▁",
        " ",
        "a",
        "##",
        "</w>",
        "<pad>",
        "|",
        "<0x41>",
        "<0xE2>",
        "<0x96>",
        "<0x81>",
        "<0xff>",
        "<0x+f>",
        "<0x-1>",
    ),
    *(
        "<0xé>",
        "Ġ",
        "Ċ",
        "Ã",
        "©",
        "â",
        "ĸ",
        "ģ",
        "é",
        "漢",
        "😀",
        ".",
        "?",
        "!",
        ",",
        "'",
        "n't",
        "'m",
        "'s",
        "'ve",
    ),
    *("'re", " do not", "do", "not", "\ufffd", "\0", "<s>"),
)
TOKENS = st.lists(
    st.one_of(
        st.sampled_from(PIECES),
        st.lists(st.sampled_from(PIECES), max_size=4).map("".join),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    ),
    max_size=12,
)


def library(section: Section | None) -> Tokenizer:
    return _library(json.dumps(section))


@cache
def _library(section: str) -> Tokenizer:
    return Tokenizer.from_str(json.dumps({**_EMPTY, "decoder": json.loads(section)}))


def assert_equal(section: Section, tokens: list[str]) -> None:
    decoder = library(section).decoder
    try:
        expected = decoder.decode(tokens)
    except BaseException as error:  # Strip panics where it takes more than there is
        assert type(error).__name__ == "PanicException"
        assume(False)
    assert build_decoder(section).decode(tokens) == expected


@pytest.mark.parametrize("name", STEPS)
@tried(150)
@given(tokens=TOKENS)
def test_each_decoder_gives_the_library_s_text(name: str, tokens: list[str]) -> None:
    assert_equal(STEPS[name], tokens)


# Nothing is left to Strip of a token that became empty, or it panics.
@tried(500)
@given(
    st.lists(st.sampled_from([step for name, step in STEPS.items() if name != "strip"]), max_size=4), TOKENS
)
def test_sequences_do_their_steps_one_after_the_other(steps: list[Section], tokens: list[str]) -> None:
    assert_equal({"type": "Sequence", "decoders": steps}, tokens)


@tried(200)
@given(st.lists(st.binary(min_size=1, max_size=3), max_size=8))
def test_bytes_that_are_no_text_become_replacement_characters(tokens: list[bytes]) -> None:
    letters = {byte: character for character, byte in _letters().items()}
    assert_equal(STEPS["byte level"], ["".join(letters[byte] for byte in token) for token in tokens])
    assert_equal(STEPS["byte fallback"], [f"<0x{byte:02X}>" for token in tokens for byte in token])


def _letters() -> dict[str, int]:
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(256 + n): byte for n, byte in enumerate(hidden)}


@tried(200)
@given(st.lists(st.integers(0, 12), max_size=12), st.booleans(), st.sampled_from([None, *STEPS.values()]))
def test_ids_are_decoded_with_and_without_special_tokens(
    ids: list[int], skip: bool, section: Section | None
) -> None:
    """What the caller does: added tokens first, unknown ids left out, special ones too if asked."""
    assume(section != STEPS["strip"])
    vocabulary = {
        "▁a": 0,
        "b": 1,
        "##c": 2,
        "d</w>": 3,
        "<0xC3>": 4,
        "<0xA9>": 5,
        "<pad>": 6,
        "|": 7,
        "Ġe": 8,
    }
    tokenizer = Tokenizer.from_str(
        json.dumps(
            {
                **_EMPTY,
                "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "b"},
                "decoder": section,
                "added_tokens": [
                    {"id": number, "content": content, "special": special, **dict.fromkeys(_FLAGS, False)}
                    for number, content, special in ((9, "<s>", True), (10, "two words", False))
                ],
            }
        )
    )
    names = {number: token for token, number in vocabulary.items()} | {9: "<s>", 10: "two words"}
    tokens = [names[number] for number in ids if number in names and not (skip and number == 9)]
    assert build_decoder(section).decode(tokens) == tokenizer.decode(ids, skip_special_tokens=skip)


_FLAGS = ("single_word", "lstrip", "rstrip", "normalized")


def test_where_the_library_panics_nothing_is_left_of_a_token() -> None:
    assert build_decoder(strip("a", 2, 2)).decode(["aa", "", "aba", "aab"]) == "bb"


def test_without_a_decoder_tokens_are_joined_with_spaces() -> None:
    assert build_decoder(None).decode(["a", "", "b"]) == "a  b"
    assert build_decoder(None).decode([]) == ""


@pytest.mark.parametrize(
    "section",
    [
        {"suffix": "</w>"},
        {"type": "BPE", "suffix": "</w>"},
        {"prefix": "##", "cleanup": True},
        {"content": " ", "start": 1, "stop": 1},
        {"pattern": {"String": "a"}, "content": "b"},
        {"pad_token": "a", "word_delimiter_token": "|", "cleanup": True},
        {"type": "Metaspace", "replacement": "▁"},
    ],
)
def test_sections_of_older_files_are_known_by_their_fields(section: Section) -> None:
    assert_equal(section, ["a|", "##b</w>", " c ", "▁a"])


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ([], "a decoder must be an object, not a list"),
        ({}, "a decoder has no `type`"),
        ({"type": "Byte"}, "unknown decoder `Byte`"),
        ({"type": "Sequence"}, "`decoders` of decoder `Sequence` must be a list, not missing"),
        ({"type": "WordPiece", "prefix": "##"}, "`cleanup` of decoder `WordPiece` must be a boolean"),
        (strip("ab", 1, 0), "`content` of decoder `Strip` must be one character"),
        (strip("a", -1, 0), "`start` of decoder `Strip` must be a count, not -1"),
        (strip("a", True, 0), "`start` of decoder `Strip` must be a number, not a boolean"),
        (metaspace("x"), "must be `always`, `first` or `never`"),
        ({"type": "Metaspace", "replacement": "▁", "add_prefix_space": False}, "contradicts"),
        ({"type": "BPEDecoder", "suffix": "\ud800"}, "not valid Unicode"),
        (
            {"type": "Replace", "pattern": {"Regex": "("}, "content": ""},
            "the regular expression of decoder `Replace`",
        ),
        ({"type": "ByteLevel"}, "`add_prefix_space` of decoder `ByteLevel` must be a boolean"),
    ],
)
def test_what_is_malformed_is_refused_with_what_is_wrong(section: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_decoder(section)
    with pytest.raises(Exception):  # noqa: B017 - the library has no better one
        library(section)


def test_decoders_that_are_nested_without_end_are_refused() -> None:
    section: Section = {"type": "Fuse"}
    for _ in range(70):
        section = {"type": "Sequence", "decoders": [section]}
    with pytest.raises(ValueError, match="nested too deeply"):
        build_decoder(section)


def test_a_decoder_can_be_made_of_steps_directly() -> None:
    assert Decoder([]).decode(["a", "b"]) == "ab"
