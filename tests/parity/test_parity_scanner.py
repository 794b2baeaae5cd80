"""The native scanner cuts text as Hugging Face's pre-tokenizer does, for every pattern that has a name, and
some that have none."""

from __future__ import annotations

import gzip
import importlib.util
import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from krill import _native
from krill.tokenizer.patterns import PATTERNS, pre_tokenizer
from properties import tried

TABLES = Path(__file__).parents[2] / "native" / "text" / "char_class_tables.cpp"
# Regexes that have no name here, but words of the scanner: Mistral Nemo's, and Qwen 3.5's kind.
UNNAMED = (
    PATTERNS["o200k"].replace("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "").replace("{1,3}", ""),
    PATTERNS["qwen2"].replace(r"\p{L}+", r"[\p{L}\p{M}]+").replace(r"[^\s\p{L}", r"[^\s\p{L}\p{M}"),
)
CUT_ALIKE = {**PATTERNS, **{regex: regex for regex in UNNAMED}}
SPLITS = {name: pre_tokenizers.Split(Regex(regex), "isolated") for name, regex in CUT_ALIKE.items()}

# Text of this length after a word makes the scanner look at whole blocks.
BLOCK = 70
WHITESPACE = [*" \t\n\r\x0b\x0c\x85\xa0\u2003\u2028\u3000", "  ", "\r\n"]
WORDS = [*"aBéÉßİǅʰ\u017fЖж漢字か\u0627한", "ab", "Ab", "ABC", "का"]
OTHERS = [*"'\u2019!/.—。😀\u200d\u0301ा\x00\x1c\ufffd", "''", "//"]
NUMBERS = [*"1²½٣Ⅷ", "12", "1234"]
ENDINGS = ["'s", "'S", "'\u017f", "'t", "'re", "'rE", "'ve", "'m", "'ll", "'lL", "'d", "'D", "'l", "'x"]
piece = st.one_of(
    st.sampled_from(WHITESPACE),
    st.sampled_from(WORDS),
    st.sampled_from(OTHERS + NUMBERS),
    st.sampled_from(ENDINGS),
    st.characters(exclude_categories=["Cs"]),
    st.builds(
        lambda text, times: text * times, st.sampled_from(WORDS + OTHERS + NUMBERS), st.integers(1, BLOCK)
    ),
    st.builds(lambda text, times: text * times, st.sampled_from(WHITESPACE), st.integers(1, BLOCK)),
)


def library_words(text: str, pattern: str) -> list[str]:
    return [word for word, _ in SPLITS[pattern].pre_tokenize_str(text)]


def native_words(text: bytes, pattern: str) -> list[str]:
    ends = _native.scan_words(text, pattern).tolist()
    parts = zip([0, *ends], ends, strict=False)
    return [text[start:end].decode("utf-8", "replace") for start, end in parts]


def assert_same_words(text: str) -> None:
    for pattern in CUT_ALIKE:
        assert native_words(text.encode(), pattern) == library_words(text, pattern), (pattern, text)


@given(pieces=st.lists(piece, max_size=80))
@tried(240)
def test_random_text_has_the_same_words(pieces: list[str]) -> None:
    assert_same_words("".join(pieces))


@given(text=st.one_of(st.text(max_size=200), st.text("' \n\tsS1Aa漢\u0301!/\u3000", max_size=200)))
@tried(120)
def test_text_of_random_characters_has_the_same_words(text: str) -> None:
    assert_same_words(text)


@given(pieces=st.lists(st.one_of(piece.map(str.encode), st.binary(max_size=4)), max_size=40))
@tried(120)
def test_ill_formed_bytes_count_as_the_replacement_character(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    for pattern in PATTERNS:
        assert native_words(data, pattern) == library_words(data.decode("utf-8", "replace"), pattern)


@pytest.mark.parametrize("longest", [4, pytest.param(5, marks=pytest.mark.soak)])
@pytest.mark.parametrize("after", ["", "x" * BLOCK], ids=["end", "more"])
@pytest.mark.parametrize(
    "alphabet",
    [" \n\ta!", " \r\u3000a!", "'sSAa ", "Aa漢\u0301!", "1a \u0301'", "!/\n a"],
    ids=["blank", "wide-space", "contraction", "case", "number", "slash"],
)
def test_every_short_text_has_the_same_words(alphabet: str, after: str, longest: int) -> None:
    for size in range(1, longest + 1):
        for characters in itertools.product(alphabet, repeat=size):
            assert_same_words("".join(characters) + after)


def test_real_documents_have_the_same_words(sample: Path) -> None:
    with gzip.open(sample, "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in itertools.islice(lines, 0, None, 12)]
    foreign = [text for text in texts if sum(map(str.isascii, text[:1000])) < 900]
    assert len(foreign) > 10
    for text in texts[:60] + foreign:
        assert_same_words(text[:10_000])


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_section_of_a_saved_tokenizer_cuts_like_the_scanner(pattern: str) -> None:
    text = "It's 12345 dollars!\n\n  HTMLParser d'été 漢字API /\n/ "
    tokenizer = json.loads(Tokenizer(models.BPE()).to_str()) | {"pre_tokenizer": pre_tokenizer(pattern)}
    library = Tokenizer.from_str(json.dumps(tokenizer)).pre_tokenizer
    assert library is not None
    spans = [(start, end) for _, (start, end) in library.pre_tokenize_str(text)]
    assert native_words(text.encode(), pattern) == [text[start:end] for start, end in spans]


def generator() -> tuple[Callable[[], bytes], Callable[[bytes], str]]:
    spec = importlib.util.spec_from_file_location("generate", TABLES.with_name("generate_char_classes.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.probe, module.source


def test_the_character_tables_are_what_the_library_says_of_every_code_point() -> None:
    probe, source = generator()
    assert TABLES.read_text() == source(probe()), "run native/text/generate_char_classes.py again"


def may_fold(character: str) -> bool:
    return character.isascii() or len({character, character.lower(), character.upper()}) > 1


@pytest.mark.parametrize(
    ("before", "cased"),
    [
        ("'", False),
        *[(before, True) for before in ("'l", "'r", "'v")],
        *[pytest.param(before, False, marks=pytest.mark.soak) for before in ("'l", "'r", "'v")],
    ],
)
def test_every_character_is_told_apart_after_an_apostrophe(before: str, cased: bool) -> None:
    """Case does not count in contractions, and case folding reaches beyond ASCII.

    After the first letter of a contraction only those that have a case can be taken for its second;
    `make soak` takes all.
    """
    points = [chr(point) for point in range(0x20000) if not 0xD800 <= point < 0xE000]
    if cased:
        points = list(filter(may_fold, points))
    assert len(points) > 2500
    for begin in range(0, len(points), 0x1000):
        text = "".join(f"{before}{point}e\n" for point in points[begin : begin + 0x1000])
        assert native_words(text.encode(), "llama3") == library_words(text, "llama3")
