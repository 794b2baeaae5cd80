"""From a `tokenizer.json` to the spec of a native encoder, or to the reason why only the library can run it.

This is the only place that decides it. Each section has a module of its own (`normalizer_section`,
`pretokenizer_section`, `model_section`, `decoder_section`).

In: a tokenizer file of Hugging Face's library, and the files beside it that declare EOS. Out: a `NativeSpec`,
or `NotNative` with a reason that fits behind "because". Held in memory: while it is read, a block of the file
and its tokens once; afterwards flat arrays (less than the file).

Everything is as the library would make it of this file, quirks included: added tokens get their ids from the
vocabulary and not from the file. Files that the library refuses are refused here, or left for it to refuse.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from krill.errors import InputError
from krill.tokenizer.decoder_section import build_decoder
from krill.tokenizer.encoder import regexes_of
from krill.tokenizer.marks import Unmarked, pre_tokenizer_left, unmarked_steps
from krill.tokenizer.model_section import (
    MAX_IDS,
    MAX_MERGES,
    ModelSpec,
    NotSupported,
    check_model,
    needs_letters,
    type_of,
    unknown_id,
)
from krill.tokenizer.normalizer_section import build_normalizer
from krill.tokenizer.outline import MOST_BYTES, READ_BYTES, Outline, outline_of
from krill.tokenizer.pretokenizer_section import PreTokenizerParts, build_pre_tokenizer
from krill.tokenizer.section_fields import DEEPEST
from krill.tokenizer.tokenizer_file import DECLARATIONS, HINT, find_eos, read_blocks

if TYPE_CHECKING:
    from krill import _native


# Those by which the library knows a post-processor, in its order.
_PROCESSOR_FIELDS: Final[Mapping[str, set[str]]] = {
    "RobertaProcessing": {"sep", "cls", "trim_offsets", "add_prefix_space"},
    "BertProcessing": {"sep", "cls"},
    "TemplateProcessing": {"single", "pair", "special_tokens"},
}


@dataclass(frozen=True, slots=True)
class AddedToken:
    """A token that is found in the text before it is split into words."""

    content: str
    id: int
    single_word: bool
    lstrip: bool
    rstrip: bool
    normalized: bool
    special: bool


@dataclass(frozen=True, slots=True)
class PostProcessing:
    """What is put around each text, and what becomes of offsets."""

    prefix: tuple[int, ...] = ()
    suffix: tuple[int, ...] = ()
    trims_offsets: bool = False
    keeps_first_space: bool = False


@dataclass(frozen=True, slots=True)
class NativeSpec:
    """All that a native encoder needs to know of a tokenizer."""

    model: ModelSpec
    normalizer: _native.Normalizer | None
    pre_tokenizer: _native.PreTokenizer | None
    unmarked: Unmarked | None
    """Steps that leave spaces to the model, if it can read them as marks."""
    added: tuple[AddedToken, ...]
    patterns: tuple[str, ...]
    """The regular expressions of the pre-tokenizer, for messages."""
    post: PostProcessing
    vocab_size: int
    eos_token: str | None
    eos_id: int | None
    joins_bytes: bool
    """Whether decoding joins the bytes of tokens; if not, `decoder` does it, else the library's own."""
    decoder: _native.Decoder | None


@dataclass(frozen=True, slots=True)
class NotNative:
    """A tokenizer that only the library can run."""

    reason: str


def native_spec(file: Path) -> NativeSpec | NotNative:
    """The spec of a tokenizer file; remembered from the plan until `forget_spec`."""
    beside = [file, *(file.parent / name for name in DECLARATIONS)]
    states = [path.stat() if path.is_file() else None for path in beside]
    return _remembered_spec(file, tuple(state and (state.st_size, state.st_mtime_ns) for state in states))


@lru_cache(maxsize=1)
def _remembered_spec(file: Path, state: object) -> NativeSpec | NotNative:
    return read_spec(file, read_blocks(file))


def forget_spec() -> None:
    """Free the remembered spec: an encoder has tables of its own."""
    _remembered_spec.cache_clear()


def fallback_reason(file: Path) -> str | None:
    """Why the library has to run a tokenizer, from its outline; None if it hasn't."""
    return why_not_native(outline_of(file))


def read_spec(file: Path, content: bytes | Iterable[bytes]) -> NativeSpec | NotNative:
    """What the native encoder needs of this tokenizer, or why it can't run it."""
    from krill import _native

    reader = _native.TokenizerFile(MOST_BYTES)
    blocks = (
        (content[at : at + READ_BYTES] for at in range(0, len(content), READ_BYTES))
        if isinstance(content, bytes)
        else content
    )
    try:
        for block in blocks:
            reader.feed(block)
        reader.finish()
        parsed = _without_repeats(reader.sections())
    except ValueError as error:
        raise InputError(f"the tokenizer `{file}` can't be read: {error}", hint=HINT) from None
    if not isinstance(parsed, dict):
        raise InputError(f"the tokenizer `{file}` is JSON, but not an object", hint=HINT)
    try:
        return _spec(file, parsed, reader)
    except NotSupported as error:
        return NotNative(str(error))


def _without_repeats(sections: bytes) -> Any:
    """The sections, parsed; of a key that stands there twice the library may refuse the first."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            repeated = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
            raise ValueError(f"the key `{repeated}` stands there twice")
        return found

    orjson.loads(sections)  # stricter than the standard library, and says where
    return json.loads(sections, object_pairs_hook=once)


def why_not_native(outline: Outline) -> str | None:
    """What of an outline the native encoder can't do; a reason may also be hidden among the tokens."""
    parsed = outline.sections
    if parsed is None:
        return "its sections are too large"
    try:
        _Sections.of(parsed)
        check_model(parsed.get("model"))
    except NotSupported as error:
        return str(error)
    merges, tokens = outline.merges.values, outline.vocabulary.values + outline.added.values
    if merges > MAX_MERGES:
        return f"it has {merges:,} merges"
    return f"it has {tokens:,} tokens" if tokens > MAX_IDS else None


@dataclass(frozen=True, slots=True)
class _Sections:
    """All sections but the model."""

    normalizer: _native.Normalizer | None
    pre_tokenizer: PreTokenizerParts
    unmarked: Unmarked | None
    post: PostProcessing
    joins_bytes: bool
    decoder: _native.Decoder | None

    @classmethod
    def of(cls, parsed: Mapping[str, Any]) -> _Sections:
        if parsed.get("version", "1.0") != "1.0":
            raise NotSupported(f"its version is {parsed['version']}")
        try:
            spells_bytes = needs_letters(parsed.get("model"))
            normalizer = build_normalizer(parsed.get("normalizer"))
            section = parsed.get("pre_tokenizer")
            pre_tokenizer = build_pre_tokenizer(section, spells_bytes=spells_bytes)
            letters = pre_tokenizer.byte_level
            left = pre_tokenizer_left(parsed.get("normalizer"), section)
            if left is not section:
                pre_tokenizer = build_pre_tokenizer(left, spells_bytes=spells_bytes)
            decoder = build_decoder(parsed.get("decoder"))
            return cls(
                normalizer,
                pre_tokenizer,
                unmarked_steps(parsed),
                _post_processing(parsed.get("post_processor")),
                letters and type_of(parsed.get("decoder")) == "ByteLevel",
                None if letters else decoder,
            )
        except ValueError as error:
            raise NotSupported(str(error)) from None


def _spec(file: Path, parsed: Mapping[str, Any], reader: _native.TokenizerFile) -> NativeSpec:
    sections = _Sections.of(parsed)
    section: Any = parsed.get("model")
    byte_level = sections.pre_tokenizer.byte_level
    kind = check_model(section)
    try:
        arrays = reader.arrays(byte_level)
    except ValueError as error:
        raise InputError(f"the tokenizer `{file}`: {error}", hint="mend the file") from None
    ids, merges = len(arrays[2]), len(arrays[4]) // 3
    if kind == "BPE" and ids > MAX_IDS:
        raise NotSupported(f"its ids reach {ids - 1:,}")
    if merges > MAX_MERGES:
        raise NotSupported(f"it has {merges:,} merges")
    if (clash := reader.clash()) is not None:
        raise NotSupported(f"its added token {clash} gets an id that is taken")
    added = tuple(AddedToken(*each) for each in reader.added())

    def token_to_id(token: str) -> int | None:
        return reader.find(token.encode())

    unknown = unknown_id(kind, section, token_to_id)
    unmarked = None if any(token.normalized for token in added) else sections.unmarked
    model = ModelSpec(kind, section, byte_level, *arrays, unknown, unmarked is not None)
    if kind == "BPE" and byte_level and section.get("byte_fallback") and model.lacks_bytes():
        raise NotSupported("its model falls back to bytes where letters stand for bytes")
    special = {token.content for token in added if token.special}
    eos_token, eos_id = find_eos(file, token_to_id, special)
    return NativeSpec(
        model=model,
        normalizer=sections.normalizer,
        pre_tokenizer=sections.pre_tokenizer.native,
        unmarked=unmarked,
        added=added,
        patterns=tuple(regexes_of(parsed.get("pre_tokenizer"))),
        post=sections.post,
        vocab_size=len(model.flags),
        eos_token=eos_token,
        eos_id=eos_id,
        joins_bytes=sections.joins_bytes,
        decoder=sections.decoder,
    )


def _post_processing(section: Any) -> PostProcessing:
    """The post-processors in order: at most one trims offsets, at most one adds tokens."""
    if section is None:
        return PostProcessing()
    found = PostProcessing()
    for step in _post_processors(section, 0):
        kind = _processor_kind(step)
        if kind not in ("ByteLevel", *_PROCESSOR_FIELDS):
            raise NotSupported(f"its post-processor ({kind}) is not one that Krill knows")
        prefix, suffix = _surrounding(step, kind)
        trims = kind in ("ByteLevel", "RobertaProcessing") and step.get("trim_offsets") is not False
        if (found.trims_offsets and trims) or ((found.prefix or found.suffix) and (prefix or suffix)):
            raise NotSupported("its post-processors do the same thing twice")
        found = PostProcessing(
            found.prefix + prefix,
            found.suffix + suffix,
            found.trims_offsets or trims,
            found.keeps_first_space or (trims and step.get("add_prefix_space") is not False),
        )
    return found


def _processor_kind(step: Any) -> str:
    """What the library takes a post-processor for: most by their fields, whatever the type says."""
    fields = step.keys() if isinstance(step, dict) else set()
    return next((kind for kind, own in _PROCESSOR_FIELDS.items() if own <= fields), type_of(step))


def _post_processors(section: Any, depth: int) -> Iterator[Any]:
    """Those of a section, without the sequences around them."""
    inner = section.get("processors") if _processor_kind(section) == "Sequence" else None
    if not isinstance(inner, list) or depth == DEEPEST:
        yield section
    else:
        for each in inner:
            yield from _post_processors(each, depth + 1)


def _surrounding(step: Mapping[str, Any], kind: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ids before and behind the text."""
    try:
        if kind == "TemplateProcessing":
            return _template(step)
        if kind in ("RobertaProcessing", "BertProcessing"):
            return (_id(step["cls"][1]),), (_id(step["sep"][1]),)
    except (KeyError, IndexError, TypeError):
        raise NotSupported(f"its post-processor ({kind}) is not as the library writes it") from None
    return (), ()


def _template(step: Mapping[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    around: tuple[list[int], list[int]] = ([], [])
    texts = 0
    for piece in step["single"]:
        if "Sequence" in piece:
            texts += 1
            if texts > 1 or piece["Sequence"]["id"] != "A":
                raise NotSupported("its template holds the text more than once")
        else:
            token = step["special_tokens"][piece["SpecialToken"]["id"]]
            around[min(texts, 1)].extend(_id(number) for number in token["ids"])
    if texts == 0:
        raise NotSupported("its template doesn't hold the text")
    return tuple(around[0]), tuple(around[1])


def _id(number: Any) -> int:
    if type(number) is not int or not 0 <= number < 2**32:
        raise TypeError(number)
    return number
