"""Native pre-tokenizers cut as those of `tokenizers` do, whatever their section says."""

# ruff: noqa: RUF001

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models
from tokenizers.pre_tokenizers import PreTokenizer

from krill.tokenizer.patterns import PATTERNS
from krill.tokenizer.pretokenizer_section import build_pre_tokenizer
from properties import tried

DROPPED = 1 << 31
Section = dict[str, Any]
Piece = tuple[str, tuple[int, int]]

BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
REGEXES = [
    *[
        r"\s+",
        r"\d",
        r"\p{N}{1,3}",
        r"[一-龥぀-ゟ゠-ヿ]+",
        "a*",
        "",
        "(?=b)",
        r"\b",
        "x|(?=x)",
        "[ab]",
        " ",
        "a|ab",
    ],
    *[r"\w+", "^", "$", "(?<=a)", r"(a)\1", r"[^\s]+", *PATTERNS.values()],
]
STRINGS = ["a", " ", "ab", "", ".", "▁", "aa", "é", "(", "a-b"]
CHARACTERS = [
    *"aaabbx  \n\t01२é▁_.,!?漢字かカー한Жжß😀'sS½٣-(",
    "\u0301",
    "\u00a0",
    "\u3000",
    "\u200d",
    "\x1c",
    "\x85",
]
texts = st.lists(st.sampled_from(CHARACTERS), min_size=1, max_size=25).map("".join)


def flagged(name: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Section]:
    return st.fixed_dictionaries({"type": st.just(name), **fields})


splits = flagged(
    "Split",
    pattern=st.one_of(
        st.sampled_from(STRINGS).map(lambda string: {"String": string}),
        st.sampled_from(REGEXES).map(lambda regex: {"Regex": regex}),
    ),
    behavior=st.sampled_from(BEHAVIORS),
    invert=st.booleans(),
)
cutting = st.one_of(
    splits,
    splits,
    splits,
    flagged("Digits", individual_digits=st.booleans()),
    flagged("Punctuation", behavior=st.sampled_from(BEHAVIORS)),
    flagged("Whitespace"),
    flagged("WhitespaceSplit"),
    flagged("BertPreTokenizer"),
    flagged("CharDelimiterSplit", delimiter=st.sampled_from("a é▁")),
    flagged("UnicodeScripts"),
    flagged("FixedLength", length=st.integers(1, 5)),
)
metaspaces = flagged(
    "Metaspace",
    replacement=st.sampled_from("▁_ é"),
    prepend_scheme=st.sampled_from(["first", "always", "never"]),
    split=st.booleans(),
)
byte_levels = flagged(
    "ByteLevel", add_prefix_space=st.booleans(), trim_offsets=st.just(True), use_regex=st.booleans()
)
sections = st.lists(st.one_of(cutting, cutting, metaspaces, byte_levels), min_size=1, max_size=4).map(
    lambda steps: {"type": "Sequence", "pretokenizers": steps}
)


def library(section: Section) -> PreTokenizer:
    tokenizer = json.loads(Tokenizer(models.BPE()).to_str()) | {"pre_tokenizer": section}
    return Tokenizer.from_str(json.dumps(tokenizer)).pre_tokenizer


def letters() -> dict[int, str]:
    """What `ByteLevel` writes for each byte: printable ones are themselves, others follow U+0100."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}


LETTERS = letters()


def pieces(section: Section, text: str, capacity: int = 4096) -> list[Piece]:
    """As the library gives them: with offsets in characters of the original, bytes as letters."""
    parts = build_pre_tokenizer(section)
    assert parts.native is not None
    encoded = text.encode()
    cut, ends, origins = parts.native.cut(encoded, True, capacity)
    characters = [0]
    for character in text:
        characters += [characters[-1]] * (len(character.encode()) - 1) + [characters[-1] + 1]
    found = []
    begin = 0
    for end in ends.tolist():
        if not end & DROPPED:
            word = cut[begin:end]
            place = characters[origins[2 * begin]], characters[origins[2 * end - 1]]
            found.append(
                ("".join(map(LETTERS.__getitem__, word)) if parts.byte_level else word.decode(), place)
            )
        begin = end & ~DROPPED
    return found


@given(cutting, texts)
@tried(500)
def test_each_step_cuts_as_the_librarys_does(section: Section, text: str) -> None:
    assert pieces(section, text) == library(section).pre_tokenize_str(text)


@given(sections, texts, st.integers(1, 9))
@tried(500)
def test_sequences_cut_as_the_librarys_do_even_where_steps_rewrite(
    section: Section, text: str, capacity: int
) -> None:
    if build_pre_tokenizer(section).native is None:
        return
    assert pieces(section, text, capacity) == library(section).pre_tokenize_str(text)


@pytest.mark.soak
@given(sections, texts, st.integers(1, 9))
@tried(20_000)
def test_many_sequences_cut_as_the_librarys_do(section: Section, text: str, capacity: int) -> None:
    if build_pre_tokenizer(section).native is None:
        return
    assert pieces(section, text, capacity) == library(section).pre_tokenize_str(text)


# ---- splits in a row, cut by the characters around a place ----

DEEPSEEK_V3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)
PLAIN_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def isolated(regex: str) -> Section:
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}


in_a_row = st.lists(
    st.one_of(
        st.sampled_from([r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK_V3, *PATTERNS.values()]).map(isolated),
        st.sampled_from([r"[a-z]+(?=\s)|[a-z]", r"\s+(?!\S)|\s+", "a+b?|ab+s", r"[\r\n]"]).map(isolated),
        flagged("Digits", individual_digits=st.booleans()),
    ),
    min_size=2,
    max_size=3,
)
# More than a block of what is cut at once; most of it is ASCII.
long_texts = st.one_of(
    st.text("abstrevl'' \n1", min_size=70, max_size=400),
    st.text("aaaB  \r\n\t\t12é漢._'([", min_size=70, max_size=400),
    st.lists(st.sampled_from(["\n    ", "a.b", " the", "'re", "2024", "(x", "é", ",\n\n"]), min_size=30).map(
        "".join
    ),
)


@given(in_a_row, long_texts, st.sampled_from([1, 70, 4096]))
@tried(300)
def test_splits_in_a_row_cut_long_texts_as_the_librarys_do(
    steps: list[Section], text: str, capacity: int
) -> None:
    section = {"type": "Sequence", "pretokenizers": [*steps, PLAIN_BYTES]}
    assert pieces(section, text, capacity) == library(section).pre_tokenize_str(text)


# ---- all code points ----

ALL_POINTS = [chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000]


@pytest.mark.parametrize(
    "section",
    [
        {"type": "Digits", "individual_digits": True},
        {"type": "Punctuation", "behavior": "Isolated"},
        {"type": "Whitespace"},
        {"type": "WhitespaceSplit"},
        {"type": "BertPreTokenizer"},
        {"type": "UnicodeScripts"},
    ],
    ids=lambda section: section["type"],
)
@pytest.mark.parametrize("between", ["", "a"])
def test_steps_take_every_code_point_for_what_the_library_does(section: Section, between: str) -> None:
    text = between.join(ALL_POINTS)
    assert pieces(section, text) == library(section).pre_tokenize_str(text)


# ---- sections ----


def test_no_section_is_no_pre_tokenizer_and_an_empty_sequence_leaves_one_word() -> None:
    assert build_pre_tokenizer(None).native is None
    assert build_pre_tokenizer({"type": "Sequence", "pretokenizers": []}).native is None


def test_named_patterns_are_cut_by_the_scanner_and_the_automaton_together() -> None:
    text = "It's plain text, then Съешь же ещё, 漢字かな交じり文と English 123456 again.\n\n  " * 40
    for regex in PATTERNS.values():
        section = {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}
        assert pieces(section, text) == library(section).pre_tokenize_str(text)


@pytest.mark.parametrize(
    ("section", "why"),
    [
        ([], "a pre-tokenizer must be an object, not a list"),
        ({}, "a pre-tokenizer has no `type`"),
        ({"type": "Magic"}, "unknown pre-tokenizer `Magic`"),
        ({"type": "Sequence"}, "`pretokenizers` of pre-tokenizer `Sequence` must be a list"),
        (
            {"type": "Digits"},
            "`individual_digits` of pre-tokenizer `Digits` must be a boolean, not missing or null",
        ),
        (
            {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated", "invert": False},
            "parenthesis",
        ),
        ({"type": "Split", "pattern": "a", "behavior": "Isolated", "invert": False}, "must be an object"),
        (
            {"type": "Split", "pattern": {"String": "a"}, "behavior": "Lost", "invert": False},
            "must be one of",
        ),
        ({"type": "CharDelimiterSplit", "delimiter": "ab"}, "must be one character"),
        ({"type": "FixedLength", "length": 0}, "at least 1"),
        ({"type": "Metaspace", "replacement": "▁", "add_prefix_space": False}, "does not match"),
    ],
)
def test_a_wrong_section_is_refused_with_the_reason(section: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        build_pre_tokenizer(section)


def test_steps_behind_byte_level_cut_the_letters_that_it_writes() -> None:
    step = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    digits = {"type": "Digits", "individual_digits": True}
    section = {"type": "Sequence", "pretokenizers": [step, digits]}
    # Two of the three bytes of `岲` have a superscript two for a letter, which is a number.
    expected = [("Ġå", (0, 2)), ("²", (1, 2)), ("²", (1, 2)), ("1", (2, 3))]
    assert pieces(section, " 岲1") == library(section).pre_tokenize_str(" 岲1") == expected
    assert build_pre_tokenizer(section).byte_level is True
    # These need the letters themselves, and so does the model then.
    for step in ({"type": "UnicodeScripts"}, {"type": "FixedLength", "length": 2}):
        letters = {"type": "Sequence", "pretokenizers": [*section["pretokenizers"], step]}
        assert pieces(letters, " 岲1") == library(letters).pre_tokenize_str(" 岲1")
        assert build_pre_tokenizer(letters).byte_level is False


def test_sections_nested_without_end_are_refused() -> None:
    section: Section = {"type": "Whitespace"}
    for _ in range(100):
        section = {"type": "Sequence", "pretokenizers": [section]}
    with pytest.raises(ValueError, match="nested too deeply"):
        build_pre_tokenizer(section)
