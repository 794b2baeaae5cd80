"""The native regexes find what Hugging Face's engine finds, and refuse what it refuses."""

# ruff: noqa: RUF001

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from krill import _native
from krill.tokenizer.patterns import PATTERNS
from oracles.regex import Stretch, is_regex, reference_stretches
from properties import tried

GAP = 1 << 31

# What public tokenizers split by, beside the named patterns.
PUBLIC = [
    r"\p{N}{1,3}",  # DeepSeek V3, first step
    r"[一-龥぀-ゟ゠-ヿ]+",  # and the second
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",  # and the third
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",  # Mistral Nemo
    r" ?[^(\s|[.,!?…。，、।۔،])]+",  # BLOOM
    r"[0-9][0-9][0-9]",
    r"\s?\p{L}+|\s?\p{N}+|\s?[^\s\p{L}\p{N}]++|\s+",
    r"(?:\r?\n)+(?!\r?\n)",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}(?=(?:\p{N}{3})*(?:\P{N}|$))",
    r"(?<=\d)(?=(?:\d{3})+(?!\d))",
    r"(?=(\d{3})+(?!\d))|[^\d]+",
    r"\p{Han}|\p{Hiragana}+|\p{Katakana}+|[^\p{Han}\p{Hiragana}\p{Katakana}]+",
]

CHARACTERS = "asS'ſKßẞﬁİéÉῳΐЖ漢字かカー한ا😀0٣²½Ⅳ.,!-_/\\#&{}[]()<>\u00a0\u3000\u2028\x85\x0b\x0c\x00\x1c"
STRINGS = [
    "'s",
    "'LL",
    "'ve",
    "ss",
    "SS",
    "fi",
    "ffi",
    "i̇",
    "e\u0301",
    "👨‍👩‍👧",
    "12",
    "345",
    "\U000e0101",
    "\U0010ffff",
]
texts = st.lists(st.sampled_from([*CHARACTERS, *STRINGS, " ", "  ", "\n", "\r\n", "\t"]), max_size=12).map(
    "".join
)


def stretches(regex: _native.Regex, text: str, capacity: int = 4096) -> list[Stretch]:
    """As the reference has them: without empty ones."""
    ends = regex.split(text.encode(), capacity).tolist()
    begins = [0, *(end & ~GAP for end in ends)]
    return [
        (begin, end & ~GAP, not end & GAP)
        for begin, end in zip(begins, ends, strict=False)
        if begin != end & ~GAP
    ]


@pytest.mark.parametrize("pattern", [*PATTERNS.values(), *PUBLIC])
@given(texts)
@tried(50)
def test_patterns_of_public_tokenizers_cut_as_the_library_does(pattern: str, text: str) -> None:
    assert stretches(_native.Regex(pattern), text) == reference_stretches(pattern, text)


@pytest.mark.parametrize("pattern", [*PATTERNS.values(), *PUBLIC[:7]])
def test_patterns_of_public_tokenizers_need_no_backtracking(pattern: str) -> None:
    regex = _native.Regex(pattern)
    assert regex.is_dfa
    assert regex.held_bytes < 100_000


# ---- generated patterns ----

LITERALS = [
    *"abcsStTfiK'! 0127-_",
    *[
        "ss",
        "ff",
        "st",
        "é",
        "ß",
        "ſ",
        "漢",
        "ǰ",
        "İ",
        "ﬁ",
        "ι",
        "ͅ",
        "\u0390",
        "#",
        "&",
        "{",
        "}",
        "]",
        ",",
        "{x}",
        "{,",
    ],
    *[
        r"\\",
        r"\n",
        r"\r",
        r"\t",
        r"\.",
        r"\-",
        r"\]",
        r"\x41",
        r"\u00e9",
        r"\x{1F600}",
        r"\0",
        r"\101",
        r"\cA",
        r"\e",
    ],
    *[r"\xC3\xA9", r"\p", r"\k", r"\g", r"\Q", r"\M-a", r"\C-a", r"\o{101}", r"\x", r"\8"],
]
TYPES = [
    *[
        r"\s",
        r"\S",
        r"\d",
        r"\D",
        r"\w",
        r"\W",
        r"\h",
        r"\H",
        r"\p{L}",
        r"\P{L}",
        r"\p{^Ll}",
        r"\p{Lu}",
        r"\p{N}",
    ],
    *[
        r"\p{M}",
        r"\p{Han}",
        r"\p{greek}",
        r"\p{P}",
        r"\p{S}",
        r"\p{Zs}",
        r"\p{alpha}",
        r"\p{White Space}",
        r"\p{Punct}",
    ],
    *[r"\p{In_CJK_Unified_Ideographs}", r"\p{Emoji}", r"\p{Cn}", r"\p{Any}", r"\p{Nonsense}"],
]
POSIX = ["alpha", "^digit", "punct", "space", "word", "print", "upper", "lower", "graph", "ascii", "nonsense"]
RANGES = [
    "a-z",
    "A-Z",
    "0-9",
    "é-ÿ",
    "一-龥",
    "!-~",
    "a-é",
    r"\x00-\x7f",
    "s-s",
    r"\x{80}-\x{10ffff}",
    r"\0-ÿ",
    "z-a",
]
QUANTIFIERS = ["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "{,2}", "{1}", "{3,1}", "{0}", "{1,1}"]
ANCHORS = ["^", "$", r"\A", r"\z", r"\Z", r"\b", r"\B", r"\G"]
GROUPS = [
    "(",
    "(?:",
    "(?i:",
    "(?m:",
    "(?x:",
    "(?i-m:",
    "(?W:",
    "(?=",
    "(?!",
    "(?<=",
    "(?<!",
    "(?>",
    "(?<n>",
    "(?P<n>",
    "(?~",
    "(?~|a|",
    "(?(1)",
    "(?(a)",
    "(?y{w}:",
]

quantifiers = st.tuples(st.sampled_from(QUANTIFIERS), st.sampled_from(["", "", "", "?", "+", "*"])).map(
    "".join
)
members = st.one_of(
    st.sampled_from([*"abs'-é漢ß^&k", r"\n", r"\]", r"\-", r"\b", r"\\"]),
    st.sampled_from(RANGES),
    st.sampled_from(TYPES),
    st.sampled_from(POSIX).map(lambda name: f"[:{name}:]"),
)
classes = st.recursive(
    st.tuples(st.sampled_from(["[", "[^"]), st.lists(members, min_size=1, max_size=3).map("".join)).map(
        lambda parts: f"{parts[0]}{parts[1]}]"
    ),
    lambda inner: st.tuples(members, st.sampled_from(["", "&&"]), inner).map(
        lambda parts: f"[{parts[0]}{parts[1]}{parts[2]}]"
    ),
    max_leaves=3,
)
atoms = st.one_of(
    st.lists(st.sampled_from(LITERALS), min_size=1, max_size=3).map("".join),
    st.sampled_from(TYPES),
    classes,
    st.sampled_from([".", r"\R", r"\N", r"\O", "(?#c)", r"\1", r"\k<n>", "(?i)", "(?x)"]),
    st.sampled_from([r"\K", r"\g<1>", r"\g<-1>", r"\g<+1>", r"\g<n>", r"\g'2'"]),
    st.sampled_from([r"\X", r"\y", r"\Y", "(?~ab)", "(?~|s|.*?)", "(?~|a)", "(?~|)"]),
    st.sampled_from(["(?(1)a|b)", "(?(<n>)|b)", "(?(1))", "(?(a)b|c|d)", r"(?i:\1)", r"\k<-1>"]),
)


def extended(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Sequences, alternatives and groups of patterns."""
    groups = st.tuples(st.sampled_from(GROUPS), inner, st.just(")")).map("".join)
    parts = st.one_of(
        st.tuples(st.one_of(inner, groups), st.one_of(st.just(""), quantifiers)).map("".join),
        st.sampled_from(ANCHORS),
        groups,
    )
    sequences = st.lists(parts, min_size=1, max_size=3).map("".join)
    return st.lists(sequences, min_size=1, max_size=3).map("|".join)


patterns = st.recursive(st.one_of(atoms, st.tuples(atoms, quantifiers).map("".join)), extended, max_leaves=6)


def compiled(pattern: str) -> _native.Regex | None:
    """None if a pattern is refused; patterns that are not supported are not looked at."""
    try:
        return _native.Regex(pattern)
    except ValueError as error:
        assume("not supported" not in str(error))
        return None


@given(patterns, st.lists(texts, min_size=1, max_size=3))
@tried(600)
def test_generated_patterns_find_what_the_library_finds_or_are_refused(pattern: str, some: list[str]) -> None:
    regex = compiled(pattern)
    assert (regex is not None) == is_regex(pattern)
    for text in some if regex is not None else []:
        try:
            found = stretches(regex, text)
        except RuntimeError:
            continue  # the library gives up elsewhere, or finds a shorter way
        assert found == reference_stretches(pattern, text)
        assert found == stretches(regex, text, capacity=4)


@pytest.mark.soak
@given(patterns, st.lists(texts, min_size=4, max_size=8))
@tried(20_000)
def test_many_generated_patterns_find_what_the_library_finds(pattern: str, some: list[str]) -> None:
    regex = compiled(pattern)
    assert (regex is not None) == is_regex(pattern)
    for text in some if regex is not None else []:
        try:
            found = stretches(regex, text)
        except RuntimeError:
            continue
        assert found == reference_stretches(pattern, text)


CALLS = [
    r"(?<n>[a-z]+)-\g<n>",
    r"\g<n>1|(?<n>(?i:a|ss)+)",
    r"(a|b)(?i:\g<1>)",
    r"(?<x>\g<y>2)(?<y>[ab])|\g<x>{2,}",
    r"(?<=')\g<1>|(s|t+)",
    r"(?:(a)|(b))\g<-1>\g<+1>(1)",
]
KEEPS = [r"a\Kb", r"\K", r"a\K", r"'\Ks|b", r"(?:a|b\K)1?", r"(?<=a)b\K1", r"a\K.\Kb?", r"\s+\K\S"]


@pytest.mark.parametrize("pattern", CALLS + KEEPS)
@given(st.text("ab12'-sS ß\n", max_size=14))
@tried(100)
def test_calls_of_groups_and_kept_beginnings_are_as_in_the_library(pattern: str, text: str) -> None:
    assert stretches(_native.Regex(pattern), text) == reference_stretches(pattern, text)
    assert stretches(_native.Regex(pattern), text, capacity=4) == reference_stretches(pattern, text)


ABSENT = [
    r"'(?~')'",
    r"(?~ab)1?",
    r"(?~|ab|[a-s]*)",
    r"(?~|b|.*?)1",
    r"(?~|'|a+|.)+",
    r"(?~|1)[ab]*(?~|)1?",
    r"(?:(?~|b|\w+)|-)(?!s)",
    r"(?>(?~|b)).*",
]
CONDITIONS = [
    r"(a)?(?(1)b|1)",
    r"(?<n>')?[ab]+(?(<n>)'|-)",
    r"(?:(a)|(b))(?(2)1|2|s)",
    r"(?(a)b|1)+",
    r"(?(ab|a)b|.)",
    r"(')?\w(?(1))",
    r"(?(1)a|b)(1)?",
    r"(?<n>a)|(?<n>b)(?(<n>)1|2)",
]
REFERENCES = [
    *[r"(?i)(s+|ß|a)-?\1", r"(?:\2b|(a)(1))+", r"(?<n>a)(?<n>b)?\k<n>", r"(a)\k<+1>?(b)"],
    *[r"(?<=\b.*)a", r"(?<!\B.*)s"],
]


@pytest.mark.parametrize("pattern", ABSENT + CONDITIONS + REFERENCES)
@given(st.text("ab12'-sS ß\n", max_size=14))
@tried(100)
def test_absent_operators_conditions_and_references_are_as_in_the_library(pattern: str, text: str) -> None:
    assert stretches(_native.Regex(pattern), text) == reference_stretches(pattern, text)


# An example of every class that graphemes or words are cut by.
SEGMENTS = "\r\n\x01\v\u1100\u1161\u11a8가각e\u0301\u200d\u0903\u0600🇦🇧😀👩©a1א:.',\" ア_\u00ad\u0e33"


@pytest.mark.parametrize(
    "pattern", [r"\X", r"\y", r"\Y.", r"(?y{w})\X", r"(?y{w})\y", r"(?y{w}:\Y)\X", r"(?i)\y(?:a|E)\X\X?"]
)
@given(st.text(SEGMENTS, max_size=12))
@tried(300)
def test_text_segments_are_cut_as_in_the_library(pattern: str, text: str) -> None:
    assert stretches(_native.Regex(pattern), text) == reference_stretches(pattern, text)


@pytest.mark.parametrize("pattern", [r"(?<n>[a-z]+)-\g<n>", r"\g<n>1|(?<n>(?i:a|ss)+)"])
def test_calls_of_groups_need_no_backtracking(pattern: str) -> None:
    assert _native.Regex(pattern).is_dfa


# ---- all code points ----

EVERYTHING = "".join(chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000)
ONE_CHARACTER = [
    *[r"\s", r"\d", r"\w", r"\h", ".", r"(?i:s)", r"(?i:[k-m])", r"(?i)[^a-zß]", r"(?i:[\p{Lu}])", r"\p{^L}"],
    *[f"[[:{name}:]]" for name in POSIX[:-1]],
    *[r"\p{word}", r"[\p{word}]", r"[^\P{word}]"],
    *[
        rf"\p{{{name}}}"
        for name in ["L", "Lu", "Nd", "P", "S", "Z", "Cn", "Han", "Latin", "In_Greek_Extended"]
    ],
]


@pytest.mark.parametrize("pattern", ONE_CHARACTER)
def test_classes_have_the_code_points_of_the_library(pattern: str) -> None:
    assert stretches(_native.Regex(f"{pattern}+"), EVERYTHING) == reference_stretches(
        f"{pattern}+", EVERYTHING
    )


# ---- a few by hand ----


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"(?i:'s)", "'ſ", [(0, 3)]),
        (r"(?i)ss", "ẞ", [(0, 3)]),
        (r"a{1,3}+", "aaaaa", [(0, 5)]),  # a repeated group, not a possessive one
        (r"a{3,1}b|a", "aab", [(0, 3)]),  # but this is
        (r"^b", "a\nb", [(2, 3)]),
        (r"a*", "baac", [(0, 0), (1, 3), (4, 4)]),
        (r"(?=b)", "abb", [(1, 1), (2, 2)]),
        (r"\G.", "ab", [(0, 1), (1, 2)]),
        (r"(a+)-\1", "aa-a", [(1, 4)]),
    ],
)
def test_matches_by_hand(pattern: str, text: str, found: list[tuple[int, int]]) -> None:
    ends = _native.Regex(pattern).split(text.encode()).tolist()
    begins = [0, *(end & ~GAP for end in ends)]
    assert [(begin, end) for begin, end in zip(begins, ends, strict=False) if not end & GAP] == found


def test_a_search_sees_what_stands_before_it() -> None:
    assert _native.Regex(r"(?<=a)b|^c|\bd").find(b"abcd", 1) == (1, 2)
    assert _native.Regex(r"(?<=a)b|^c|\bd").find(b"abcd", 2) is None


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "unmatched parenthesis"),
        ("a)", "unmatched close parenthesis"),
        ("*a", "repeat operator is not specified"),
        ("^*", "repeat operator is invalid"),
        ("[a", "premature end of char-class"),
        ("[z-a]", "empty range"),
        (r"\p{Nonsense}", "invalid character property name"),
        (r"\1", "invalid backref"),
        (r"(?<=a(?=b))", "look-behind"),
        ("a{100001}", "too big number"),
        ("(?s)", "undefined group option"),
        ("\\", "end of pattern at an escape"),
        (r"(a)\g<2>", "undefined group reference"),
        (r"(a)\g<-2>", "undefined group reference"),
        (r"(?<n>a)\g<1>", "numbered call is not allowed"),
        (r"(?<n>a)\g<m>", "undefined name call"),
        (r"(?<n>a)(?<n>b)\g<n>", "call of a name with several definitions"),
        (r"(a)\g<>", "group name is empty"),
        (r"(a)\g<1x>", "invalid group name"),
        (r"\y+", "repeat operator is invalid"),
        (r"\K+", "repeat operator is invalid"),
        ("(?~a", "unmatched parenthesis"),
        ("(?~|", "end of pattern in a group"),
        ("(?(1)a|b)", "invalid backref"),
        ("(?(a))", "invalid if-else syntax"),
        ("(a)(?(1)", "end of pattern in a group"),
        ("(?(<n>)a|b)", "undefined name reference"),
        ("(?y{x})", "undefined group option"),
        ("(?<=(?~|a))", "look-behind"),
    ],
)
def test_what_the_library_refuses_is_refused_with_the_reason(pattern: str, why: str) -> None:
    assert not is_regex(pattern)
    with pytest.raises(ValueError, match=re.escape(why)):
        _native.Regex(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        *[r"\s\xfa", r"(?:a\K)+b", "(" * 600 + ")" * 600, r"(a\1)", r"(a)\k<1+0>", "(?L)a|ab", "(*FAIL)"],
        *["(?~a(?~b))", "(?!(?~|a)b)", "(?<=(?~a)b)", "(a)?(?(1)b)", r"(a(?(1)b|c))", r"(?(a)(?:\B){2}|b)"],
        *[r"(?<n>a\g<n>?)", r"a\g<0>?", r"(a?)\g<1>", r"(a)(b)\1\g<2>", r"(?<=\g<1>)(a)", r"a(?>\Kb)"],
        "(a{2})" + "".join(rf"(\g<{group}>{{2}}\g<{group}>{{2}})" for group in range(1, 20)),
    ],
)
def test_what_is_missing_is_said_to_be_not_supported(pattern: str) -> None:
    with pytest.raises(ValueError, match="is not supported"):
        _native.Regex(pattern)


def test_endless_backtracking_ends_with_an_error() -> None:
    regex = _native.Regex(r"(?:(a|aa)+\1)+$x")
    assert not regex.is_dfa
    with pytest.raises(RuntimeError, match="the pattern backtracks too far"):
        regex.split(b"a" * 100_000)


def test_reading_ahead_again_and_again_ends_with_an_error() -> None:
    regex = _native.Regex(r"a*b")
    assert regex.is_dfa
    with pytest.raises(RuntimeError, match="the pattern backtracks too far"):
        regex.split(b"a" * 1_000_000)


@given(st.binary(max_size=60), st.sampled_from([*PATTERNS.values(), r"(?=\S)\s*|(?<!a)b", r"\b"]))
@tried(100)
def test_bytes_that_are_not_utf8_are_covered_all_the_same(text: bytes, pattern: str) -> None:
    ends = _native.Regex(pattern).split(text, 5) & ~np.uint32(GAP)
    assert (np.diff(ends.astype(np.int64), prepend=0) >= 0).all()
    assert not text or ends[-1] == len(text)
