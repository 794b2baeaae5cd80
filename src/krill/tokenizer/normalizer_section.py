"""The section `normalizer` of tokenizer.json as a native normalizer.

In: the section, as JSON gives it. Out: a `Normalizer` that does exactly what `tokenizers` does with it, or a
`ValueError` that says what is wrong. Held in memory: the normalizer; of a charsmap, its bytes and a table of
about 60 KB.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Final

from krill import _native
from krill.tokenizer.section_fields import DEEPEST, Section, SectionReader, kind_of, step_of_pattern


def build_normalizer(section: object) -> _native.Normalizer | None:
    """None stands for no normalizer: the text stays as it is."""
    return None if section is None else _build(section, 0)


def flat_normalizers(section: object) -> list[Section]:
    """The steps of a section that `build_normalizer` takes, without the sequences around them, each with its
    type."""
    if not isinstance(section, Mapping):
        return []
    kind = _READER.type_of(section)
    if kind != "Sequence":
        return [{**section, "type": kind}]
    return [step for inner in section["normalizers"] for step in flat_normalizers(inner)]


def _build(section: object, depth: int) -> _native.Normalizer:
    if not isinstance(section, Mapping):
        raise ValueError(f"a normalizer must be an object, not {kind_of(section)}")
    kind = _READER.type_of(section)
    if kind == "Sequence":
        return _sequence(section, depth)
    return _BUILDERS[kind](section)


def _sequence(section: Section, depth: int) -> _native.Normalizer:
    if depth == DEEPEST:
        raise ValueError("normalizers are nested too deeply")
    return _native.Normalizer.sequence(
        [_build(step, depth + 1) for step in _READER.field(section, "normalizers", list)]
    )


def _bert(section: Section) -> _native.Normalizer:
    accents = section.get("strip_accents")
    if accents is not None and not isinstance(accents, bool):
        raise ValueError(
            "`strip_accents` of normalizer `BertNormalizer` must be a boolean or null, "
            f"not {kind_of(accents)}"
        )
    return _native.Normalizer.bert(
        _READER.field(section, "clean_text", bool),
        _READER.field(section, "handle_chinese_chars", bool),
        accents,
        _READER.field(section, "lowercase", bool),
    )


def _replace(section: Section) -> _native.Normalizer:
    pattern = _READER.field(section, "pattern", dict)
    content = _READER.text(section, "content").encode()
    return step_of_pattern(
        pattern,
        "normalizer `Replace`",
        text="`pattern` of a normalizer",
        of_string=lambda string: _native.Normalizer.replace(string.encode(), content),
        of_regex=lambda regex: _native.Normalizer.replace_regex(regex.encode(), content),
    )


def _precompiled(section: Section) -> _native.Normalizer:
    encoded = _READER.field(section, "precompiled_charsmap", str)
    try:
        charsmap = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("the charsmap of normalizer `Precompiled` is not base64") from None
    return _native.Normalizer.precompiled(charsmap)


def _form(compose: bool, compatible: bool) -> Callable[[Section], _native.Normalizer]:
    return lambda _: _native.Normalizer.form(compose, compatible)


_FIELDS = {
    "BertNormalizer": {"clean_text", "handle_chinese_chars", "lowercase"},
    "Strip": {"strip_left", "strip_right"},
    "Sequence": {"normalizers"},
    "Precompiled": {"precompiled_charsmap"},
    "Replace": {"pattern", "content"},
    "Prepend": {"prepend"},
}

_BUILDERS: dict[str, Callable[[Section], _native.Normalizer]] = {
    "NFC": _form(True, False),
    "NFD": _form(False, False),
    "NFKC": _form(True, True),
    "NFKD": _form(False, True),
    "Lowercase": lambda _: _native.Normalizer.lowercase(),
    "Strip": lambda section: _native.Normalizer.strip(
        _READER.field(section, "strip_left", bool), _READER.field(section, "strip_right", bool)
    ),
    "StripAccents": lambda _: _native.Normalizer.strip_accents(),
    "Nmt": lambda _: _native.Normalizer.nmt(),
    "ByteLevel": lambda _: _native.Normalizer.byte_level(),
    "BertNormalizer": _bert,
    "Prepend": lambda section: _native.Normalizer.prepend(_READER.text(section, "prepend").encode()),
    "Replace": _replace,
    "Precompiled": _precompiled,
}

_READER: Final[SectionReader] = SectionReader("normalizer", _BUILDERS, _FIELDS)
