"""Native normalizers do what `tokenizers` does, byte for byte, and know where each byte comes from."""

from __future__ import annotations

import json
import time
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill._native import Normalizer
from krill.tokenizer.normalizer_section import build_normalizer
from oracles.normalizers import (
    Section,
    Traced,
    charsmap_of,
    double_array,
    library_normalizer,
    library_origins,
    precompiled,
)
from properties import tried

# Every cluster shorter than six bytes becomes one letter, and every character of the others: borders show.
CLUSTERS = precompiled(charsmap_of(dict.fromkeys(range(1, 256), "Z")))
# Replacements of no, one, two and three characters, of some characters only.
LENGTHS = precompiled(
    charsmap_of({byte: ("", "Z", "yz", "▁éq")[byte // 3 % 4] for byte in range(1, 256) if byte % 3})
)


def bert(clean: bool, chinese: bool, accents: bool | None, lower: bool) -> Section:
    names = ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")
    return {"type": "BertNormalizer", **dict(zip(names, (clean, chinese, accents, lower), strict=True))}


def replace(pattern: str, content: str) -> Section:
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


SECTIONS: dict[str, Section] = {
    **{
        name: {"type": name}
        for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel")
    },
    "strip": {"type": "Strip", "strip_left": True, "strip_right": True},
    "strip left": {"type": "Strip", "strip_left": True, "strip_right": False},
    "strip right": {"type": "Strip", "strip_left": False, "strip_right": True},
    "bert": bert(True, True, None, True),
    "bert cased": bert(True, True, None, False),
    "bert accents": bert(False, False, True, False),
    "bert ideographs": bert(False, True, False, False),
    "prepend": {"type": "Prepend", "prepend": "▁x"},
    "prepend nothing": {"type": "Prepend", "prepend": ""},
    "replace": replace(" ", "▁"),
    "replace all": replace("", "▁"),
    "replace by nothing": replace("a", ""),
    "replace two": replace("aa", "é"),
    "clusters": CLUSTERS,
    "lengths": LENGTHS,
    "empty": {"type": "Sequence", "normalizers": []},
}
# In a sequence the library panics when a step goes through the characters behind one that stands for none.
STEPS = [section for name, section in SECTIONS.items() if name not in ("prepend nothing", "replace all")]

POINTS = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]
# Marks of many classes, characters that join others or are joined, and those with a rule of their own.
HARD = [
    *map(chr, range(0x300, 0x370)),
    *"\u0591\u05b0\u064b\u0651\u093c\u094d\u0915\u0937\u09be\u09c7\u09cd\u0995\u0bbe\u0bc6\u0bd7\u0d4d\u0dcf\u0dd9",
    *"\u0f71\u0f72\u0f73\u0f74\u0fb2\u1039\u1000\u1100\u1112\u1161\u1175\u11a7\u11a8\u11c2\uac00\uac01\ud7a3\u3099",
    *"\u309a\uff76\uff9e\uff9f\u200b\u200c\u200d\ufe0f\u20e3\u2028\u2581\ufeff\ufffd\x00\x01\x7f\x85\xa0\xad\u1680",
    *"\u3000\u0600\u0605\u0903\u093e\u0e33\u1b44\u1b13\xa9\xae\u212a\u212b\u2126\u1ea5\u1e69\u0130\u03a3\u03c2\u1f84",
    *"\xbd\u3371\ufb01\ufdfa\u4e2d\u3400\uf900\U00020000\U0002b900\U0002f800\U0001d165\U0001d15e\U0001f600\U0001f3fb",
    *"\U0001f1e6\U0001f1e7\U000110bd\U00011133\U00011107\U00016d63\U00016d67\U000e0020\U000e0001",
]
CHARACTERS = st.one_of(
    st.sampled_from("aAeEiIoOuUsSnNcC .\t\r\n"),
    st.sampled_from(HARD),
    st.characters(max_codepoint=0x24F),
    st.characters(exclude_categories=["Cs"]),
)
TEXTS = st.text(CHARACTERS, max_size=40)


def native(section: Section) -> Normalizer:
    return _native(json.dumps(section))


@cache
def _native(section: str) -> Normalizer:
    normalizer = build_normalizer(json.loads(section))
    assert normalizer is not None
    return normalizer


def native_origins(section: Section, text: str) -> Traced:
    normalizer = native(section)
    normalised, flat = normalizer.apply_tracked(text.encode())
    assert normalised == normalizer.apply(text.encode())
    origins = [tuple(pair) for pair in flat.reshape(-1, 2).tolist()]
    traced, at = [], 0
    for character in normalised.decode():
        size = len(character.encode())
        assert len(set(origins[at : at + size])) == 1
        traced.append((character, origins[at]))
        at += size
    assert at == len(origins)
    return traced


def assert_equal(section: Section, text: str) -> None:
    normalizer = native(section)
    theirs = library_normalizer(section)
    expected = theirs.normalize_str(text)
    assert normalizer.apply(text.encode()).decode() == expected
    assert not normalizer.leaves(text.encode()) or expected == text
    if expected:
        assert native_origins(section, text) == library_origins(theirs, text)


@pytest.mark.parametrize(
    "name", [name for name in SECTIONS if name not in ("replace all", "strip left", "strip right")]
)
@pytest.mark.parametrize("form", ["a{}b", "\n{}\u0323\u0301"])
def test_every_code_point_becomes_what_the_library_makes_of_it(name: str, form: str) -> None:
    normalizer = native(SECTIONS[name])
    theirs = library_normalizer(SECTIONS[name])
    for begin in range(0, len(POINTS), 4096):
        text = "".join(form.format(chr(point)) for point in POINTS[begin : begin + 4096])
        assert normalizer.apply(text.encode()).decode() == theirs.normalize_str(text)


@pytest.mark.soak
@pytest.mark.parametrize("name", SECTIONS)
def test_every_code_point_alone_becomes_what_the_library_makes_of_it(name: str) -> None:
    for point in POINTS:
        assert_equal(SECTIONS[name], chr(point))


@pytest.mark.parametrize("name", SECTIONS)
@tried(60)
@given(text=TEXTS)
def test_texts_and_origins_are_the_library_s(name: str, text: str) -> None:
    assert_equal(SECTIONS[name], text)


@tried(300)
@given(st.lists(st.sampled_from(STEPS), max_size=4), TEXTS)
def test_sequences_do_their_steps_one_after_the_other(steps: list[Section], text: str) -> None:
    assert_equal({"type": "Sequence", "normalizers": steps}, text)


@tried(100)
@given(
    st.text("ab .*\\[(#-&~\n\r▁é", max_size=3), st.text("ab▁é", max_size=6), st.text("ab .*\\[(#-&~\n\r▁é")
)
def test_strings_are_replaced_whatever_they_mean_as_regular_expressions(
    pattern: str, content: str, text: str
) -> None:
    assert_equal(replace(pattern, content), text)
    assert_equal(replace(pattern, content), (text + "long enough for blocks, " * 4) * 3)


REGEXES = (
    r"\s+",
    " {2,}",
    "[ab]",
    "a*",
    "^",
    "$",
    r"\b",
    "(?=b)",
    "",
    "x|",
    r"(?i:É)",
    r"\p{L}+",
    "[\u2581 ]+",
    "\n",
)


@tried(300)
@given(
    st.sampled_from(REGEXES),
    st.text("▁é_", max_size=3),
    st.text("ab x\n▁éÉ漢", max_size=12),
    st.integers(1, 120),
)
def test_matches_of_regular_expressions_are_replaced(
    pattern: str, content: str, text: str, times: int
) -> None:
    assert_equal({"type": "Replace", "pattern": {"Regex": pattern}, "content": content}, text * times)


def test_a_regular_expression_that_the_library_refuses_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the regular expression of normalizer `Replace`: .*: `\("):
        build_normalizer({"type": "Replace", "pattern": {"Regex": "("}, "content": ""})


def test_long_texts_are_normalised_around_what_changes() -> None:
    plain = "an English line, und eine deutsche äöüß; Съешь же ещё; 漢字かな交じり文 한국어 ไทย "
    for odd in ("", "e\u0301", "\u1100\u1161\u11a8", "ﬁ½㍱", "İ", "a\u0323\u0302b" * 50, "\r\n\t"):
        text = (plain * 7 + odd) * 5
        for section in SECTIONS.values():
            assert_equal(section, text)


@pytest.mark.parametrize("name", ["NFC", "NFD", "NFKC", "NFKD", "bert", "clusters", "StripAccents"])
def test_a_megabyte_of_marks_takes_a_moment_and_keeps_their_order(name: str) -> None:
    text = "".join(chr(0x300 + number * 7 % 0x50) for number in range(1 << 19))
    normalizer = native(SECTIONS[name])
    begin = time.thread_time()
    result = normalizer.apply(text.encode())
    assert time.thread_time() - begin < 2
    assert result.decode() == library_normalizer(SECTIONS[name]).normalize_str(text)


def test_origins_of_a_text_that_stays_are_its_characters() -> None:
    assert native_origins(SECTIONS["NFC"], "aé漢") == [("a", (0, 1)), ("é", (1, 3)), ("漢", (3, 6))]
    assert native_origins(SECTIONS["strip"], "  a é ") == [("a", (2, 3)), (" ", (3, 4)), ("é", (4, 6))]


def test_no_section_is_no_normalizer() -> None:
    assert build_normalizer(None) is None


@pytest.mark.parametrize(
    "section",
    [
        {"type": "Bert", "clean_text": True, "handle_chinese_chars": True, "lowercase": True},
        {"prepend": "_"},
        {"normalizers": [{"type": "NFC"}, {"pattern": {"String": "a"}, "content": "b"}]},
        {"type": "StripNormalizer", "strip_left": True, "strip_right": False},
    ],
)
def test_sections_of_older_files_are_known_by_their_fields(section: Section) -> None:
    assert_equal(section, " A\u0301a ")


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ([], "a normalizer must be an object, not a list"),
        ({}, "a normalizer has no `type`"),
        ({"type": "Append", "append": "x"}, "unknown normalizer `Append`"),
        (
            {"type": "Strip", "strip_left": True},
            "`strip_right` of normalizer `Strip` must be a boolean, not missing",
        ),
        (
            bert(True, True, 1, True),
            "`strip_accents` of normalizer `BertNormalizer` must be a boolean or null",
        ),  # type: ignore[arg-type]
        (
            {"type": "Replace", "pattern": "a", "content": "b"},
            "`pattern` of normalizer `Replace` must be an object",
        ),
        ({"type": "Replace", "pattern": {"Regexp": "a"}, "content": "b"}, "must be `String` or `Regex`"),
        ({"type": "Prepend", "prepend": "\ud800"}, "`prepend` of a normalizer is not valid Unicode"),
        ({"type": "Precompiled", "precompiled_charsmap": None}, "must be a string, not missing or null"),
        ({"type": "Precompiled", "precompiled_charsmap": "?"}, "is not base64"),
    ],
)
def test_what_is_malformed_is_refused_with_what_is_wrong(section: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_normalizer(section)


def test_sequences_that_are_nested_without_end_are_refused() -> None:
    section: Section = {"type": "NFC"}
    for _ in range(70):
        section = {"type": "Sequence", "normalizers": [section]}
    with pytest.raises(ValueError, match="nested too deeply"):
        build_normalizer(section)


def test_a_charsmap_that_lies_is_refused() -> None:
    whole = charsmap_of({65: "é", 66: "Z"})
    wrong = {
        b"": "no size of its trie",
        b"\0\0\0\0": "an empty trie",
        whole[:2000]: "cut short",
        b"\xff\xff\xff\xff" + whole[4:]: "cut short",
        double_array({65: 9}) + b"Z\0": "points behind its replacements",
        double_array({65: 1}) + "é\0".encode(): "points into a character",
        double_array({65: 0}) + b"\xc3\0": "are not UTF-8",
        whole[:4] + (1 << 30).to_bytes(4, "little") + whole[8:]: "points outside of itself",
    }
    for charsmap, message in wrong.items():
        with pytest.raises(ValueError, match=message):
            build_normalizer(precompiled(charsmap))


@tried(200)
@given(st.data())
def test_a_damaged_charsmap_is_refused_or_read_within_its_bounds(data: st.DataObject) -> None:
    charsmap = bytearray(charsmap_of({byte: "é" * (byte % 3) for byte in range(60, 200)}))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(charsmap) - 1))
        charsmap[at] = data.draw(st.integers(0, 255))
    del charsmap[data.draw(st.integers(0, 2 * len(charsmap))) :]
    try:
        normalizer = build_normalizer(precompiled(bytes(charsmap)))
    except ValueError:
        return
    assert normalizer is not None
    normalizer.apply("".join(map(chr, range(0x250))).encode()).decode()


@tried(100)
@given(st.binary(max_size=60))
def test_bytes_that_are_no_text_do_no_harm(text: bytes) -> None:
    for section in SECTIONS.values():
        normalizer = native(section)
        normalised, origins = normalizer.apply_tracked(text)
        assert normalised == normalizer.apply(text)
        assert origins.size == 2 * len(normalised)
        assert all(0 <= end <= len(text) for end in origins.tolist())
        assert not normalizer.leaves(text) or normalised == text


def test_origins_never_run_backwards_in_what_tokenizers_do() -> None:
    steps = [SECTIONS[name] for name in ("prepend", "replace", "NFKC", "Lowercase")]
    traced = native_origins({"type": "Sequence", "normalizers": steps}, "Ein e\u0301 ﬁne\u0323\u0302 ½ İ")
    assert all(one[0] <= other[0] for (_, one), (_, other) in pairwise(traced))
