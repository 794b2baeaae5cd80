"""Sections of a `tokenizer.json`, as JSON has them, by short names. Nothing is held."""

from __future__ import annotations

from typing import Any

Section = dict[str, Any]

MARK = "\u2581"


def normalizers(*steps: Section) -> Section:
    return {"type": "Sequence", "normalizers": list(steps)}


def cutters(*steps: Section) -> Section:
    return {"type": "Sequence", "pretokenizers": list(steps)}


def replaced(pattern: str, content: str) -> Section:
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


def matched(regex: str, content: str) -> Section:
    return {"type": "Replace", "pattern": {"Regex": regex}, "content": content}


def stripped(left: bool, right: bool) -> Section:
    return {"type": "Strip", "strip_left": left, "strip_right": right}


def bert(lowercase: bool, accents: bool | None = None, chinese: bool = True) -> Section:
    options = {"clean_text": True, "handle_chinese_chars": chinese, "strip_accents": accents}
    return {"type": "BertNormalizer", **options, "lowercase": lowercase}


def byte_level(prefix: bool = False, trims: bool = True, cuts: bool = True) -> Section:
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": trims, "use_regex": cuts}


def split(regex: str, behavior: str = "Isolated", invert: bool = False) -> Section:
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": invert}


def split_at(string: str, behavior: str = "Isolated", invert: bool = False) -> Section:
    return {"type": "Split", "pattern": {"String": string}, "behavior": behavior, "invert": invert}


def digits(individual: bool = True) -> Section:
    return {"type": "Digits", "individual_digits": individual}


def punctuation(behavior: str = "Isolated") -> Section:
    return {"type": "Punctuation", "behavior": behavior}


def metaspace(scheme: str = "always", splits: bool = True) -> Section:
    return {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme, "split": splits}


def old_metaspace() -> Section:
    return {"type": "Metaspace", "replacement": MARK, "str_rep": MARK, "add_prefix_space": True}


def template(single: str) -> Section:
    """`<s> $A </s>`; ids are filled in when the vocabulary is there."""
    return {"type": "TemplateProcessing", "single": single}


def roberta(start: str, end: str, trims: bool = True, prefix: bool = False) -> Section:
    return {
        "type": "RobertaProcessing",
        "sep": [end, 0],
        "cls": [start, 0],
        "trim_offsets": trims,
        "add_prefix_space": prefix,
    }


def steps_of(*steps: Section) -> Section:
    return {"type": "Sequence", "decoders": list(steps)}


NFC, NFD, NFKC, NFKD, LOWER, ACCENTS, NMT = (
    {"type": kind} for kind in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt")
)
SPACES_ARE_MARKS = replaced(" ", MARK)
ONE_SPACE = matched(" {2,}", " ")
BY_BYTES = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
PIECES = {"type": "WordPiece", "prefix": "##", "cleanup": True}
MARKS_ARE_SPACES = replaced(MARK, " ")
JOINED = steps_of(MARKS_ARE_SPACES, {"type": "ByteFallback"}, {"type": "Fuse"})
JOINED_WITHOUT_FIRST = steps_of(
    MARKS_ARE_SPACES,
    {"type": "ByteFallback"},
    {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0},
)
BERT_WORDS = {"type": "BertPreTokenizer"}
AT_SPACES = {"type": "WhitespaceSplit"}
