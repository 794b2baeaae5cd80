"""Whole tokenizers of random sections give the library's ids, offsets and text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from krill.tokenizer.native import NativeEncoder
from krill.tokenizer.tokenizer_json import NotNative, read_spec
from krill.tokenizer.vocabulary import to_text
from properties import tried

Section = dict[str, Any]

LETTERS = "abAB \u2581.,1\n\u00e9e\u0301\u00df\u0130\u2460\ufb01\u6f22\u5b57\u0e01\u0e33\u200d\U0001f600'"
LETTERS += "-\u00a0\u017f\t\x00"
TEXTS = st.text(
    st.one_of(st.sampled_from(LETTERS), st.sampled_from("ab "), st.characters(exclude_categories=["Cs"])),
    max_size=24,
)
MARKERS = ["<s>", "</s>", "[X]", "ab", " b", "\u00c9", "A"]
# Text in which added tokens are likely.
DOCUMENTS = st.lists(st.one_of(TEXTS, st.sampled_from(MARKERS), st.just(" ")), max_size=6).map("".join)


def plain(*kinds: str) -> list[Section]:
    return [{"type": kind} for kind in kinds]


BOOLEAN = st.booleans()
NORMALIZER = st.one_of(
    st.sampled_from(plain("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt")),
    st.builds(
        lambda left, right: {"type": "Strip", "strip_left": left, "strip_right": right}, BOOLEAN, BOOLEAN
    ),
    st.sampled_from(
        [
            {"type": "Prepend", "prepend": "\u2581"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
            {"type": "Replace", "pattern": {"String": "a"}, "content": ""},
            {"type": "Replace", "pattern": {"Regex": r"(?<=a)b|\s+$"}, "content": "\u2581a"},
            {"type": "Replace", "pattern": {"Regex": r"\X\y(?=\n)"}, "content": ""},
        ]
    ),
    st.builds(
        lambda clean, chinese, accents, lower: {
            "type": "BertNormalizer",
            "clean_text": clean,
            "handle_chinese_chars": chinese,
            "strip_accents": accents,
            "lowercase": lower,
        },
        BOOLEAN,
        BOOLEAN,
        st.sampled_from([None, True, False]),
        BOOLEAN,
    ),
)
NORMALIZERS = st.one_of(
    st.none(),
    NORMALIZER,
    st.recursive(
        NORMALIZER,
        lambda inner: st.lists(inner, max_size=3).map(
            lambda steps: {"type": "Sequence", "normalizers": steps}
        ),
        max_leaves=4,
    ),
)

BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
PATTERNS = [
    {"String": " "},
    {"String": "ab"},
    {"Regex": r"\s+"},
    {"Regex": r"\d|[ab]+"},
    {"Regex": r"(?i:'s|'t)|\p{L}+|\s+(?!\S)|."},
    {"Regex": r"(?y{w})\X"},
    {"Regex": r"(a)?(?(1)b|[^a])|(?~b)"},
]
BYTE_LEVEL = st.builds(
    lambda prefix, trims, cuts: {
        "type": "ByteLevel",
        "add_prefix_space": prefix,
        "trim_offsets": trims,
        "use_regex": cuts,
    },
    BOOLEAN,
    BOOLEAN,
    BOOLEAN,
)
METASPACE = st.builds(
    lambda scheme, splits: {
        "type": "Metaspace",
        "replacement": "\u2581",
        "prepend_scheme": scheme,
        "split": splits,
    },
    st.sampled_from(["first", "always", "never"]),
    BOOLEAN,
)
CUT = st.one_of(
    st.sampled_from(plain("Whitespace", "WhitespaceSplit", "BertPreTokenizer", "UnicodeScripts")),
    st.builds(
        lambda pattern, behavior, invert: {
            "type": "Split",
            "pattern": pattern,
            "behavior": behavior,
            "invert": invert,
        },
        st.sampled_from(PATTERNS),
        st.sampled_from(BEHAVIORS),
        BOOLEAN,
    ),
    st.builds(lambda each: {"type": "Digits", "individual_digits": each}, BOOLEAN),
    st.builds(lambda behavior: {"type": "Punctuation", "behavior": behavior}, st.sampled_from(BEHAVIORS)),
    st.just({"type": "CharDelimiterSplit", "delimiter": "a"}),
    st.just({"type": "FixedLength", "length": 3}),
    METASPACE,
)


@st.composite
def pre_tokenizers(draw: st.DrawFn, byte_level: bool) -> Section | None:
    steps = draw(st.lists(CUT, max_size=2))
    if byte_level:
        steps.append(draw(BYTE_LEVEL))
        steps += draw(st.lists(st.one_of(CUT, BYTE_LEVEL), max_size=draw(st.sampled_from([0, 0, 0, 2]))))
    if len(steps) == 1:
        return steps[0]
    if len(steps) == 3 and draw(BOOLEAN):
        steps = [steps[0], {"type": "Sequence", "pretokenizers": steps[1:]}]
    return {"type": "Sequence", "pretokenizers": steps} if steps or draw(BOOLEAN) else None


@st.composite
def vocabularies(draw: st.DrawFn, byte_level: bool, affix: str = "") -> list[str]:
    """Tokens, each once: letters, then longer ones, an unknown token among them, perhaps some of bytes."""
    parts = draw(st.lists(st.text(LETTERS, min_size=1, max_size=4), max_size=12))
    letters = draw(st.lists(st.sampled_from(LETTERS), max_size=len(LETTERS)))
    texts = [*letters, *parts]
    if byte_level:
        texts = [to_text(text.encode()) for text in texts]
    texts += [affix + text for text in texts] if affix else []
    if draw(BOOLEAN):
        texts += [f"<0x{byte:02X}>" for byte in range(draw(st.sampled_from([0, 128, 256])))]
    return list(dict.fromkeys(["<unk>", *texts]))


@st.composite
def bpe(draw: st.DrawFn, byte_level: bool) -> Section:
    tokens = draw(vocabularies(byte_level))
    ids = {token: number for number, token in enumerate(tokens)}
    merges: list[list[str]] = []
    for _ in range(draw(st.integers(0, 10))):
        left, right = draw(st.sampled_from(tokens)), draw(st.sampled_from(tokens))
        if "<" not in left + right and len(left + right) < 8 and [left, right] not in merges:
            merges.append([left, right])
            ids.setdefault(left + right, len(ids))
            tokens = list(ids)
    suffix = draw(st.sampled_from([None, None, "b", "\u2581"]))
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": draw(st.sampled_from([None, "<unk>"])),
        "continuing_subword_prefix": None,
        "end_of_word_suffix": suffix,
        "fuse_unk": draw(BOOLEAN),
        "byte_fallback": not byte_level and suffix is None and draw(BOOLEAN),
        "ignore_merges": draw(BOOLEAN),
        "vocab": ids,
        "merges": merges,
    }


@st.composite
def unigram(draw: st.DrawFn, byte_level: bool) -> Section:
    tokens = draw(vocabularies(byte_level))
    scores = draw(st.lists(st.integers(-8, 0), min_size=len(tokens), max_size=len(tokens)))
    return {
        "type": "Unigram",
        "unk_id": 0,
        "vocab": [[token, score / 2] for token, score in zip(tokens, scores, strict=True)],
        "byte_fallback": not byte_level and draw(BOOLEAN),
    }


@st.composite
def word_piece(draw: st.DrawFn, byte_level: bool) -> Section:
    prefix = draw(st.sampled_from(["##", "", "b"]))
    tokens = draw(vocabularies(byte_level, prefix))
    return {
        "type": "WordPiece",
        "unk_token": "<unk>",
        "continuing_subword_prefix": prefix,
        "max_input_chars_per_word": draw(st.sampled_from([100, 5])),
        "vocab": {token: number for number, token in enumerate(tokens)},
    }


@st.composite
def word_level(draw: st.DrawFn, byte_level: bool) -> Section:
    tokens = draw(vocabularies(byte_level))
    vocabulary = {token: number for number, token in enumerate(tokens)}
    return {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"}


@st.composite
def added_tokens(draw: st.DrawFn, first: int) -> list[Section]:
    contents = draw(st.lists(st.sampled_from(MARKERS), max_size=4, unique=True))
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    return [
        {"id": first + number, "content": content, **{flag: draw(BOOLEAN) for flag in flags}}
        for number, content in enumerate(contents)
    ]


TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [
        {"SpecialToken": {"id": "<unk>", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "<unk>", "type_id": 0}},
    ],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"<unk>": {"id": "<unk>", "ids": [0], "tokens": ["<unk>"]}},
}
POST_PROCESSORS = st.one_of(
    st.none(),
    st.just(TEMPLATE),
    BYTE_LEVEL,
    st.just({"type": "BertProcessing", "sep": ["<unk>", 0], "cls": ["<unk>", 0]}),
    st.builds(
        lambda trims, prefix: {
            "type": "RobertaProcessing",
            "sep": ["<unk>", 0],
            "cls": ["<unk>", 0],
            "trim_offsets": trims,
            "add_prefix_space": prefix,
        },
        BOOLEAN,
        BOOLEAN,
    ),
    BYTE_LEVEL.map(lambda step: {"type": "Sequence", "processors": [step, TEMPLATE]}),
)
DECODERS = st.sampled_from(
    [
        None,
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
        {"type": "WordPiece", "prefix": "##", "cleanup": True},
        {"type": "WordPiece", "prefix": "b", "cleanup": False},
        {"type": "BPEDecoder", "suffix": "\u2581"},
        {"type": "CTC", "pad_token": "a", "word_delimiter_token": "b", "cleanup": True},
        {"type": "CTC", "pad_token": "<unk>", "word_delimiter_token": "\u2581", "cleanup": False},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": "a", "start": 2, "stop": 1},
        {"type": "Replace", "pattern": {"Regex": "[ab]+"}, "content": "-"},
        {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
    ]
)


@st.composite
def tokenizers(draw: st.DrawFn) -> Section:
    """A `tokenizer.json`, as JSON gives it."""
    byte_level = draw(BOOLEAN)
    model = draw(draw(st.sampled_from([bpe, bpe, unigram, word_piece, word_level]))(byte_level))
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": draw(added_tokens(len(model["vocab"]))),
        "normalizer": draw(NORMALIZERS),
        "pre_tokenizer": draw(pre_tokenizers(byte_level)),
        "post_processor": draw(POST_PROCESSORS),
        "decoder": draw(DECODERS),
        "model": model,
    }


OPTIONAL = {
    *["truncation", "padding", "version", "dropout", "unk_token", "continuing_subword_prefix", "fuse_unk"],
    *["end_of_word_suffix", "byte_fallback", "ignore_merges", "invert", "individual_digits", "behavior"],
    *["use_regex", "trim_offsets", "add_prefix_space", "prepend_scheme", "split", "strip_accents", "cleanup"],
    *["single_word", "lstrip", "rstrip", "normalized", "special", "max_input_chars_per_word", "type"],
}


@st.composite
def older_spellings(draw: st.DrawFn) -> Section:
    """As earlier versions of the library wrote it: merges as strings, missing fields, fields of another name.
    Of what it does not read any more there is nothing to compare."""

    def older(section: Any) -> Any:
        if isinstance(section, list):
            return [older(each) for each in section]
        if not isinstance(section, dict) or "<unk>" in section:
            return section
        if section.get("type") == "Metaspace" and "prepend_scheme" in section and draw(BOOLEAN):
            return {"type": "Metaspace", "replacement": "\u2581", "add_prefix_space": draw(BOOLEAN)} | draw(
                st.sampled_from([{}, {"str_rep": "\u2581"}])
            )
        left_out = set(draw(st.lists(st.sampled_from(sorted(OPTIONAL)), max_size=6)))
        return {key: older(value) for key, value in section.items() if key not in left_out}

    written = older(draw(tokenizers()))
    model = written["model"]
    if "merges" in model and not any(" " in token for pair in model["merges"] for token in pair):
        model["merges"] = [" ".join(pair) for pair in model["merges"]]
    try:
        Tokenizer.from_str(json.dumps(written))
    except Exception:  # the library raises plain Exception
        assume(False)
    return written


def assert_equal(written: Section, texts: list[str]) -> None:
    content = json.dumps(written)
    spec = read_spec(Path("tokenizer.json"), content.encode())
    assert not isinstance(spec, NotNative), spec.reason
    library = Tokenizer.from_str(content)
    ours = NativeEncoder(Path("tokenizer.json"), "", spec, 100_000, 1)
    for text in texts:
        expected = library.encode(text)
        ids, offsets = ours.encode_offsets(text)
        assert ids.tolist() == expected.ids
        assert [tuple(pair) for pair in offsets.tolist()] == expected.offsets
        assert ours.encode(pa.array([text], pa.large_string()), eos=False)[0].tolist() == expected.ids
        if not spec.model.byte_level or spec.joins_bytes:  # else it is the library that decodes
            for skips in (False, True):
                assert ours.decode(ids, skip_special_tokens=skips) == library.decode(
                    expected.ids, skip_special_tokens=skips
                )


@tried(150)
@given(tokenizers(), st.lists(DOCUMENTS, min_size=1, max_size=3))
def test_a_tokenizer_of_any_sections_gives_what_the_library_gives(written: Section, texts: list[str]) -> None:
    assert_equal(written, texts)


@tried(100)
@given(older_spellings(), st.lists(DOCUMENTS, min_size=1, max_size=3))
def test_older_spellings_of_any_sections_give_what_the_library_gives(
    written: Section, texts: list[str]
) -> None:
    assert_equal(written, texts)


@pytest.mark.soak
@tried(1000)
@given(tokenizers(), st.lists(DOCUMENTS, min_size=1, max_size=3))
def test_many_tokenizers_of_any_sections_give_what_the_library_gives(
    written: Section, texts: list[str]
) -> None:
    assert_equal(written, texts)


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
