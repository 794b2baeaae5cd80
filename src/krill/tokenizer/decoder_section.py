"""The section `decoder` of tokenizer.json as a native decoder.

In: the section, as JSON gives it. Out: a `Decoder` that makes of tokens exactly the text that `tokenizers`
makes of them, or a `ValueError` that says what is wrong. Held in memory: the decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from krill import _native
from krill.tokenizer.section_fields import DEEPEST, Section, field_of, kind_of

_SCHEMES = ("always", "first", "never")


def build_decoder(section: object) -> _native.Decoder:
    """None stands for no decoder: tokens are joined with spaces."""
    return _native.Decoder() if section is None else _native.Decoder(_steps(section, 0))


def _steps(section: object, depth: int) -> list[_native.DecoderStep]:
    if not isinstance(section, Mapping):
        raise ValueError(f"a decoder must be an object, not {kind_of(section)}")
    kind = _type_of(section)
    if kind != "Sequence":
        return [_BUILDERS[kind](section)]
    if depth == DEEPEST:
        raise ValueError("decoders are nested too deeply")
    return [step for part in _field(section, "decoders", list) for step in _steps(part, depth + 1)]


def _type_of(section: Section) -> str:
    """Like the library, which knows sections of older files by their fields where `type` does not say."""
    kind = section.get("type")
    if isinstance(kind, str) and (kind == "Sequence" or kind in _BUILDERS):
        return kind
    for name, fields in _FIELDS.items():
        if fields <= section.keys():
            return name
    raise ValueError("a decoder has no `type`" if kind is None else f"unknown decoder `{kind}`")


def _byte_level(section: Section) -> _native.DecoderStep:
    for name in ("add_prefix_space", "trim_offsets"):
        _field(section, name, bool)
    return _native.DecoderStep.byte_level()


def _replace(section: Section) -> _native.DecoderStep:
    pattern = _field(section, "pattern", dict)
    content = _text(section, "content")
    match pattern:
        case {"String": str(string)} if len(pattern) == 1:
            return _native.DecoderStep.replace(_valid(string, "pattern"), content)
        case {"Regex": str(regex)} if len(pattern) == 1:
            try:
                return _native.DecoderStep.replace_regex(_valid(regex, "pattern"), content)
            except ValueError as error:
                raise ValueError(f"the regular expression of decoder `Replace`: {error}: `{regex}`") from None
    raise ValueError("`pattern` of decoder `Replace` must be `String` or `Regex` with a string")


def _strip(section: Section) -> _native.DecoderStep:
    content = _character(section, "content")
    return _native.DecoderStep.strip(content, _count(section, "start"), _count(section, "stop"))


def _metaspace(section: Section) -> _native.DecoderStep:
    replacement = _character(section, "replacement")
    scheme = section.get("prepend_scheme", "always")
    if scheme not in _SCHEMES:
        raise ValueError("`prepend_scheme` of decoder `Metaspace` must be `always`, `first` or `never`")
    if section.get("add_prefix_space") is False and scheme != "never":
        raise ValueError("`add_prefix_space` of decoder `Metaspace` contradicts its `prepend_scheme`")
    return _native.DecoderStep.metaspace(replacement, scheme != "never")


def _field(section: Section, name: str, kind: type) -> Any:
    return field_of(section, name, kind, f"decoder `{_type_of(section)}`")


def _text(section: Section, name: str) -> str:
    return _valid(_field(section, name, str), name)


def _character(section: Section, name: str) -> str:
    text = _text(section, name)
    if len(text) != 1:
        raise ValueError(f"`{name}` of decoder `{_type_of(section)}` must be one character")
    return text


def _count(section: Section, name: str) -> int:
    count: int = _field(section, name, int)
    if not 0 <= count < 1 << 64:
        raise ValueError(f"`{name}` of decoder `{_type_of(section)}` must be a count, not {count}")
    return count


def _valid(text: str, name: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"`{name}` of a decoder is not valid Unicode") from None
    return text


_FIELDS = {
    "BPEDecoder": {"suffix"},
    "WordPiece": {"prefix", "cleanup"},
    "CTC": {"pad_token", "word_delimiter_token", "cleanup"},
    "Replace": {"pattern", "content"},
    "Strip": {"content", "start", "stop"},
}

_BUILDERS: dict[str, Callable[[Section], _native.DecoderStep]] = {
    "ByteLevel": _byte_level,
    "ByteFallback": lambda _: _native.DecoderStep.byte_fallback(),
    "Fuse": lambda _: _native.DecoderStep.fuse(),
    "Replace": _replace,
    "Strip": _strip,
    "Metaspace": _metaspace,
    "WordPiece": lambda section: _native.DecoderStep.word_piece(
        _text(section, "prefix"), _field(section, "cleanup", bool)
    ),
    "BPEDecoder": lambda section: _native.DecoderStep.bpe(_text(section, "suffix")),
    "CTC": lambda section: _native.DecoderStep.ctc(
        _text(section, "pad_token"), _text(section, "word_delimiter_token"), _field(section, "cleanup", bool)
    ),
}
