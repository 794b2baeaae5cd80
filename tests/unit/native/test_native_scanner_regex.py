"""Regexes that the scanner takes: found by what they match, however written, and cut as the automaton cuts.

That the automaton's matches are the library's is held in tests/unit/tokenizer/test_tokenizer_regex.py.
"""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill import _native
from krill.tokenizer.patterns import PATTERNS
from properties import tried

LEAD = r"[^\r\n\p{L}\p{N}]?"
NOT_LOWER, NOT_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CONTRACTIONS = "", "'s|'t|'re|'ve|'m|'ll|'d", "(?i:'s|'t|'re|'ve|'m|'ll|'d)"


def regex_of(letters: str, contractions: str, numbers: str, trail: str, ending: str) -> str:
    marks = ""
    if letters == "cased":
        suffix = f"(?:{contractions})?" if contractions else ""
        words = f"{LEAD}{NOT_LOWER}*{NOT_UPPER}+{suffix}|{LEAD}{NOT_LOWER}+{NOT_UPPER}*{suffix}"
    else:
        marks = r"\p{M}" if letters == "marks" else ""
        words = f"{contractions}|" if contractions else ""
        words += rf"{LEAD}[\p{{L}}{marks}]+"
    others = rf" ?[^\s\p{{L}}{marks}\p{{N}}]+{trail}"
    return rf"{words}|\p{{N}}{numbers}|{others}{ending}|\s*[\r\n]+|\s+(?!\S)|\s+"


REGEXES = [
    PATTERNS["gpt2"],
    *itertools.starmap(
        regex_of,
        itertools.product(
            ("caseless", "marks", "cased"),
            CONTRACTIONS,
            ("", "{1,3}", "+"),
            (r"[\r\n]*", r"[\r\n/]*"),
            ("", r"|\s+$(?!\s)"),
        ),
    ),
]

PIECES = [
    *(" ", "  ", "\t", "\n", "\r\n", " \n", "\u00a0", "\u0085", "\u3000"),
    *("a", "B", "Word", "WORD", "'s", "'S", "'LL", "'ll", "'x", "'", "''", "!", "!!", "/", "//"),
    *("1", "12", "1234", "²", "½", "é", "É", "ß", "ǅ", "ʰ", "\u017f", "'\u017f"),
    *("漢", "か", "का", "ा", "\u0301", "。", "😀", "漢A", "漢Aa"),
    *("x" * 70, " " * 70, "\n" * 70, "9" * 70, "語" * 30, "Ж" * 40, "!" * 66),
]
texts = st.one_of(st.text(max_size=100), st.lists(st.sampled_from(PIECES), max_size=60).map("".join))


def test_every_combination_is_known_and_none_is_taken_for_another() -> None:
    known = [_native.scanner_regex(regex) for regex in REGEXES]
    assert None not in known
    assert len(set(known)) == len(REGEXES)


def assert_cut_alike(regex: str, text: str) -> None:
    data = text.encode()
    assert _native.scan_words(data, regex).tolist() == _native.Regex(regex).split(data).tolist()


@given(regex=st.sampled_from(REGEXES), text=texts)
@tried(400)
def test_the_scanner_cuts_as_the_automaton(regex: str, text: str) -> None:
    assert_cut_alike(regex, text)


@pytest.mark.parametrize("between", ["1", "x" * 70], ids=["near", "far"])
@pytest.mark.parametrize("alphabet", ["'sSa! ", "Aa漢\u0301!'", " \n!/a1", "1 \r\n\u3000a"])
def test_every_short_text_is_cut_as_by_the_automaton(alphabet: str, between: str) -> None:
    short = ("".join(text) for size in (1, 2, 3, 4) for text in itertools.product(alphabet, repeat=size))
    joined = between.join(short)
    for regex in REGEXES:
        assert_cut_alike(regex, joined)


def test_real_documents_are_cut_as_by_the_automaton(sample: Path) -> None:
    with gzip.open(sample, "rt", encoding="utf-8") as lines:
        text = "".join(json.loads(line)["text"] for line in itertools.islice(lines, 0, None, 40))
    for regex in REGEXES:
        assert_cut_alike(regex, text[:500_000])


@pytest.mark.parametrize(
    "other",
    [
        r"\w+|\W+",
        r"\s+(?!\S)|\s+",
        "(",
        r"(a)\1",
        PATTERNS["llama3"].replace("{1,3}", "{1,2}"),
        PATTERNS["llama3"].replace("|'d", ""),
        PATTERNS["llama3"].replace(r"[^\r\n", r"[^\n"),
        PATTERNS["llama3"].replace(r"\p{L}+", r"[\p{L}\p{Han}_]+"),
        PATTERNS["llama3"].replace(r"\p{L}+", r"\p{L}{1,40}"),
        PATTERNS["qwen2"].replace(r"\p{N}|", r"\p{Nd}|"),
        PATTERNS["o200k"].replace(r"\p{Lt}", ""),
        PATTERNS["gpt2"].replace(r" ?\p{N}", r"\p{N}"),
        PATTERNS["gpt2"].removesuffix(r"|\s+"),
    ],
)
def test_what_cuts_some_text_otherwise_is_not_known(other: str) -> None:
    assert _native.scanner_regex(other) is None
    with pytest.raises(ValueError, match="no pattern is named"):
        _native.scan_words(b"text", other)


@pytest.mark.parametrize(
    ("regex", "spelling"),
    [
        (REGEXES[1], REGEXES[1].replace(r"[\p{L}]+", r"\p{L}++")),
        (PATTERNS["llama3"], PATTERNS["llama3"].replace(r"\p{N}{1,3}", r"\p{N}\p{N}?+\p{N}?")),
        (PATTERNS["cl100k"], regex_of("caseless", CONTRACTIONS[2], "+", r"[\r\n]*", r"|\s+\z")),
        (
            PATTERNS["o200k"],
            PATTERNS["o200k"].replace("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "(?i:'(?:[sdtm]|ll|[vr]e))?"),
        ),
    ],
)
def test_spellings_of_the_same_are_the_same(regex: str, spelling: str) -> None:
    assert spelling != regex
    assert _native.scanner_regex(spelling) == _native.scanner_regex(regex)
