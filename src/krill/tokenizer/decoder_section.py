"""The section `decoder` of tokenizer.json as a native decoder.

In: the section, as JSON gives it. Out: a `Decoder` that makes of tokens exactly the text that `tokenizers`
makes of them, or a `ValueError` that says what is wrong. Held in memory: the decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from krill import _native
from krill.tokenizer.section_fields import DEEPEST, Section, SectionReader, kind_of, step_of_pattern

_SCHEMES = ("always", "first", "never")


def build_decoder(section: object) -> _native.Decoder:
    """None stands for no decoder: tokens are joined with spaces."""
    return _native.Decoder() if section is None else _native.Decoder(_steps(section, 0))


def _steps(section: object, depth: int) -> list[_native.DecoderStep]:
    if not isinstance(section, Mapping):
        raise ValueError(f"a decoder must be an object, not {kind_of(section)}")
    kind = _READER.type_of(section)
    if kind != "Sequence":
        return [_BUILDERS[kind](section)]
    if depth == DEEPEST:
        raise ValueError("decoders are nested too deeply")
    return [step for part in _READER.field(section, "decoders", list) for step in _steps(part, depth + 1)]


def _byte_level(section: Section) -> _native.DecoderStep:
    for name in ("add_prefix_space", "trim_offsets"):
        _READER.field(section, name, bool)
    return _native.DecoderStep.byte_level()


def _replace(section: Section) -> _native.DecoderStep:
    pattern = _READER.field(section, "pattern", dict)
    content, step = _READER.text(section, "content"), _native.DecoderStep
    return step_of_pattern(
        pattern,
        "decoder `Replace`",
        text="`pattern` of a decoder",
        of_string=lambda string: step.replace(string, content),
        of_regex=lambda regex: step.replace_regex(regex, content),
    )


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


def _character(section: Section, name: str) -> str:
    text = _READER.text(section, name)
    if len(text) != 1:
        raise ValueError(f"`{name}` of decoder `{_READER.type_of(section)}` must be one character")
    return text


def _count(section: Section, name: str) -> int:
    count: int = _READER.field(section, name, int)
    if not 0 <= count < 1 << 64:
        raise ValueError(f"`{name}` of decoder `{_READER.type_of(section)}` must be a count, not {count}")
    return count


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
        _READER.text(section, "prefix"), _READER.field(section, "cleanup", bool)
    ),
    "BPEDecoder": lambda section: _native.DecoderStep.bpe(_READER.text(section, "suffix")),
    "CTC": lambda section: _native.DecoderStep.ctc(
        _READER.text(section, "pad_token"),
        _READER.text(section, "word_delimiter_token"),
        _READER.field(section, "cleanup", bool),
    ),
}

_READER: Final[SectionReader] = SectionReader("decoder", _BUILDERS, _FIELDS)
