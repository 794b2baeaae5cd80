"""The section `normalizer` of tokenizer.json as a native normalizer.

In: the section, as JSON gives it. Out: a `Normalizer` that does exactly what `tokenizers` does with it, or a
`ValueError` that says what is wrong. Held in memory: the normalizer; of a charsmap, its bytes and a table of
about 60 KB.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any

from krill import _native
from krill.tokenizer.section_fields import DEEPEST, Section, field_of, kind_of


def build_normalizer(section: object) -> _native.Normalizer | None:
    """None stands for no normalizer: the text stays as it is."""
    return None if section is None else _build(section, 0)


def _build(section: object, depth: int) -> _native.Normalizer:
    if not isinstance(section, Mapping):
        raise ValueError(f"a normalizer must be an object, not {kind_of(section)}")
    kind = _type_of(section)
    if kind == "Sequence":
        return _sequence(section, depth)
    return _BUILDERS[kind](section)


def _type_of(section: Section) -> str:
    """Like the library, which knows sections of older files by their fields where `type` does not say."""
    kind = section.get("type")
    if isinstance(kind, str) and (kind == "Sequence" or kind in _BUILDERS):
        return kind
    for name, fields in _FIELDS.items():
        if fields <= section.keys():
            return name
    raise ValueError("a normalizer has no `type`" if kind is None else f"unknown normalizer `{kind}`")


def _sequence(section: Section, depth: int) -> _native.Normalizer:
    if depth == DEEPEST:
        raise ValueError("normalizers are nested too deeply")
    return _native.Normalizer.sequence(
        [_build(step, depth + 1) for step in _field(section, "normalizers", list)]
    )


def _bert(section: Section) -> _native.Normalizer:
    accents = section.get("strip_accents")
    if accents is not None and not isinstance(accents, bool):
        raise ValueError(
            "`strip_accents` of normalizer `BertNormalizer` must be a boolean or null, "
            f"not {kind_of(accents)}"
        )
    return _native.Normalizer.bert(
        _field(section, "clean_text", bool),
        _field(section, "handle_chinese_chars", bool),
        accents,
        _field(section, "lowercase", bool),
    )


def _replace(section: Section) -> _native.Normalizer:
    pattern = _field(section, "pattern", dict)
    content = _utf8(section, "content")
    match pattern:
        case {"String": str(string)} if len(pattern) == 1:
            return _native.Normalizer.replace(_encoded(string, "pattern"), content)
        case {"Regex": str(regex)} if len(pattern) == 1:
            try:
                return _native.Normalizer.replace_regex(_encoded(regex, "pattern"), content)
            except ValueError as error:
                raise ValueError(
                    f"the regular expression of normalizer `Replace`: {error}: `{regex}`"
                ) from None
    raise ValueError("`pattern` of normalizer `Replace` must be `String` or `Regex` with a string")


def _precompiled(section: Section) -> _native.Normalizer:
    encoded = _field(section, "precompiled_charsmap", str)
    try:
        charsmap = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("the charsmap of normalizer `Precompiled` is not base64") from None
    return _native.Normalizer.precompiled(charsmap)


def _field(section: Section, name: str, kind: type) -> Any:
    return field_of(section, name, kind, f"normalizer `{_type_of(section)}`")


def _utf8(section: Section, name: str) -> bytes:
    return _encoded(_field(section, name, str), name)


def _encoded(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"`{name}` of a normalizer is not valid Unicode") from None


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
        _field(section, "strip_left", bool), _field(section, "strip_right", bool)
    ),
    "StripAccents": lambda _: _native.Normalizer.strip_accents(),
    "Nmt": lambda _: _native.Normalizer.nmt(),
    "ByteLevel": lambda _: _native.Normalizer.byte_level(),
    "BertNormalizer": _bert,
    "Prepend": lambda section: _native.Normalizer.prepend(_utf8(section, "prepend")),
    "Replace": _replace,
    "Precompiled": _precompiled,
}
