"""Random tokenizers, whole ones and as older versions of the library wrote them, and texts for them.

In: nothing. Out: strategies for Hypothesis. Nothing is held.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import assume
from hypothesis import strategies as st
from tokenizers import Tokenizer

from krill.tokenizer.vocabulary import to_text
from tokenizer_strategies_sections import (
    BOOLEAN,
    DECODERS,
    NORMALIZERS,
    POST_PROCESSORS,
    Section,
    pre_tokenizers,
)

T = TypeVar("T")

LETTERS = "abAB \u2581.,1\n\u00e9e\u0301\u00df\u0130\u2460\ufb01\u6f22\u5b57\u0e01\u0e33\u200d\U0001f600'"
LETTERS += "-\u00a0\u017f\t\x00"
# Characters that are made of several: families, flags, Hangul in parts, Devanagari, marks upon marks.
CLUSTERS = [
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f1e9\U0001f1ea\U0001f1eb",
    "\u1112\u1161\u11ab\uac00\u11a8",
    "\u0915\u094d\u0937\u093f",
    "a\u0323\u0307\u0301",
    "\u304b\u3099",
    "\U0001f44d\U0001f3fd\ufe0f",
    "\r\n",
]
PARTS = ["ab", "  ", "\n\n", " b", "1a1", "for (i=0; i<10; ++i) {\n\t", "don't", "I'LL", "\u65e5\u672c\u8a9e"]
TEXTS = st.text(
    st.one_of(st.sampled_from(LETTERS), st.sampled_from("ab "), st.characters(exclude_categories=["Cs"])),
    max_size=24,
)
MARKERS = ["<s>", "</s>", "[X]", "ab", " b", "\u00c9", "A", "a b", "\u2581", "\u2581a", "<s", "s>", "AB"]
MARKERS += ["\n", "b ", "\u0301", "E", "\u00df", "\ufb01", "  ", "1", "<unk>", "x", "a.", "\u6f22"]
LONG = st.builds(str.__mul__, st.sampled_from(["a", "ab", " ", "\u6f22", "a ", "1", "\u2581"]), st.just(150))
# Text in which added tokens are likely.
DOCUMENTS = st.lists(
    st.one_of(
        TEXTS, st.sampled_from(MARKERS), st.just(" "), st.sampled_from(CLUSTERS), st.sampled_from(PARTS), LONG
    ),
    max_size=7,
).map("".join)


def allowed(call: Callable[[], T]) -> T | None:
    """What the library's `call` gives; None if it refuses. Where it panics there is nothing to compare."""
    try:
        return call()
    except Exception:  # the library raises plain Exception
        return None
    except BaseException as error:
        assume(type(error).__name__ != "PanicException")
        raise


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
        without = draw(st.sampled_from([(), (), (0x61, 0xC3), (0x9F, 0x80, 0x20)]))
        count = draw(st.sampled_from([0, 128, 256, 256]))
        texts += [f"<0x{byte:02X}>" for byte in range(count) if byte not in without]
    return list(dict.fromkeys(["<unk>", "x", *texts]))


UNKNOWN = st.sampled_from(["<unk>", "<unk>", "<unk>", "a", "nowhere"])


@st.composite
def bpe(draw: st.DrawFn, byte_level: bool) -> Section:
    prefix = draw(st.sampled_from([None, None, None, "", "##", "b"]))
    suffix = draw(st.sampled_from([None, None, None, "", "b", "\u2581"]))
    tokens = draw(vocabularies(byte_level, prefix or ""))
    if suffix:
        tokens = list(dict.fromkeys([*tokens, *(token + suffix for token in tokens[2:])]))
    ids = {token: number for number, token in enumerate(tokens)}
    cut = len(prefix or "")
    merges: list[list[str]] = []
    for _ in range(draw(st.integers(0, 10))):
        left, right = draw(st.sampled_from(tokens)), draw(st.sampled_from(tokens))
        joined = left + right[cut:]
        is_rest = right.startswith(prefix or "") and len(right) > cut
        if "<" in left + right or len(joined) > 8 or not is_rest or [left, right] in merges:
            continue
        merges.append([left, right])
        ids.setdefault(joined, len(ids))
        tokens = list(ids)
    return {
        "type": "BPE",
        "dropout": draw(st.sampled_from([None, None, 0.0])),
        "unk_token": draw(st.one_of(st.none(), UNKNOWN)),
        "continuing_subword_prefix": prefix,
        "end_of_word_suffix": suffix,
        "fuse_unk": draw(BOOLEAN),
        "byte_fallback": not byte_level and not suffix and not prefix and draw(BOOLEAN),
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
        "unk_id": draw(st.sampled_from([0, 0, 0, 1, None])),
        "vocab": [[token, score / 2] for token, score in zip(tokens, scores, strict=True)],
        "byte_fallback": draw(BOOLEAN),
    }


@st.composite
def word_piece(draw: st.DrawFn, byte_level: bool) -> Section:
    prefix = draw(st.sampled_from(["##", "", "b"]))
    tokens = draw(vocabularies(byte_level, prefix))
    return {
        "type": "WordPiece",
        "unk_token": draw(UNKNOWN),
        "continuing_subword_prefix": prefix,
        "max_input_chars_per_word": draw(st.sampled_from([100, 5, 1])),
        "vocab": {token: number for number, token in enumerate(tokens)},
    }


@st.composite
def word_level(draw: st.DrawFn, byte_level: bool) -> Section:
    tokens = draw(vocabularies(byte_level))
    vocabulary = {token: number for number, token in enumerate(tokens)}
    return {"type": "WordLevel", "vocab": vocabulary, "unk_token": draw(UNKNOWN)}


@st.composite
def added_tokens(draw: st.DrawFn, vocabulary: dict[str, int]) -> list[Section]:
    contents = draw(st.lists(st.sampled_from(MARKERS), max_size=5, unique=True))
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    ids = dict(vocabulary)
    for content in contents:
        ids.setdefault(content, len(ids))
    return [
        {"id": ids[content], "content": content, **{flag: draw(BOOLEAN) for flag in flags}}
        for content in contents
    ]


TRUNCATION = {"max_length": 3, "strategy": "LongestFirst", "stride": 0, "direction": "Left"}
PADDING = {
    "strategy": {"Fixed": 9},
    "direction": "Left",
    "pad_to_multiple_of": 4,
    "pad_id": 0,
    "pad_type_id": 1,
    "pad_token": "<unk>",
}


@st.composite
def tokenizers(draw: st.DrawFn) -> Section:
    """A `tokenizer.json`, as JSON gives it."""
    byte_level = draw(BOOLEAN)
    model = draw(draw(st.sampled_from([bpe, bpe, unigram, word_piece, word_level]))(byte_level))
    vocabulary = model["vocab"]
    if isinstance(vocabulary, list):
        vocabulary = {piece: number for number, (piece, _) in enumerate(vocabulary)}
    return {
        "version": "1.0",
        "truncation": draw(st.sampled_from([None, TRUNCATION])),
        "padding": draw(st.sampled_from([None, PADDING])),
        "added_tokens": draw(added_tokens(vocabulary)),
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
        left_out = set(draw(st.lists(st.sampled_from(sorted(OPTIONAL)), max_size=2)))
        return {key: older(value) for key, value in section.items() if key not in left_out}

    written = older(draw(tokenizers()))
    model = written["model"]
    if "merges" in model and not any(" " in token for pair in model["merges"] for token in pair):
        model["merges"] = [" ".join(pair) for pair in model["merges"]]
    assume(allowed(lambda: Tokenizer.from_str(json.dumps(written))) is not None)
    return written
