"""From a `tokenizer.json` to the spec of a native encoder, or to the reason why only the library can run it.

This is the only place that decides it. The model's section has a module of its own (`model_section`).

In: a tokenizer file of Hugging Face's library, and the files beside it that declare EOS. Out: a `NativeSpec`,
or `NotNative` with a reason that fits behind "because". Held in memory: while it is read, the parsed JSON
(about ten times the file); afterwards flat arrays (less than the file).

Everything is as the library would make it of this file, quirks included: added tokens get their ids from the
vocabulary and not from the file. Files that the library refuses are refused here, or left for it to refuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from krill.errors import InputError
from krill.tokenizer.model_section import (
    MAX_IDS,
    MAX_MERGES,
    AddedToken,
    ModelSpec,
    NotSupported,
    check_model,
    model_spec,
    model_vocabulary,
    type_of,
)
from krill.tokenizer.normalizer_section import build_normalizer
from krill.tokenizer.outline import Outline, outline_of
from krill.tokenizer.patterns import recognise
from krill.tokenizer.tokenizer_file import DECLARATIONS, HINT, find_eos, read_tokenizer_file

if TYPE_CHECKING:
    from krill import _native


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
    added: Mapping[int, AddedToken]
    pattern: str | None
    """The named pattern by which text is cut into words; None if each section is a word."""
    post: PostProcessing
    vocab_size: int
    eos_token: str | None
    eos_id: int | None
    byte_decoder: bool
    """Whether decoding joins bytes; if not, the library's own decoder must be asked."""


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
    return read_spec(file, read_tokenizer_file(file))


def forget_spec() -> None:
    """Free the remembered spec: an encoder has tables of its own."""
    _remembered_spec.cache_clear()


def fallback_reason(file: Path) -> str | None:
    """Why the library has to run a tokenizer, from its outline; None if it hasn't."""
    return why_not_native(outline_of(file))


def read_spec(file: Path, content: bytes) -> NativeSpec | NotNative:
    """What the native encoder needs of this tokenizer, or why it can't run it."""
    import orjson

    try:
        parsed = orjson.loads(content)
    except ValueError as error:
        raise InputError(f"the tokenizer `{file}` is not JSON: {error}", hint=HINT) from None
    if not isinstance(parsed, dict):
        raise InputError(f"the tokenizer `{file}` is JSON, but not an object", hint=HINT)
    try:
        return _spec(file, parsed)
    except NotSupported as error:
        return NotNative(str(error))


def why_not_native(outline: Outline) -> str | None:
    """What of an outline the native encoder can't do; a reason may also be hidden among the tokens."""
    parsed = outline.sections
    if parsed is None:
        return "its sections are too large"
    try:
        _check_sections(parsed)
        check_model(parsed.get("model"))
    except NotSupported as error:
        return str(error)
    merges, tokens = outline.merges.values, outline.vocabulary.values + outline.added.values
    if merges > MAX_MERGES:
        return f"it has {merges:,} merges"
    return f"it has {tokens:,} tokens" if tokens > MAX_IDS else None


def _check_sections(
    parsed: Mapping[str, Any],
) -> tuple[_native.Normalizer | None, str | None, PostProcessing]:
    """The normalizer, the pattern, and what is put around texts."""
    if parsed.get("version", "1.0") != "1.0":
        raise NotSupported(f"its version is {parsed['version']}")
    try:
        normalizer = build_normalizer(parsed.get("normalizer"))
    except ValueError as error:
        raise NotSupported(str(error)) from None
    return normalizer, _pattern(parsed.get("pre_tokenizer")), _post_processing(parsed.get("post_processor"))


def _spec(file: Path, parsed: Mapping[str, Any]) -> NativeSpec:
    normalizer, pattern, post = _check_sections(parsed)
    section = parsed.get("model")
    vocab = model_vocabulary(file, section)
    ids, added = _added_tokens(parsed.get("added_tokens"), vocab)
    byte_level = pattern is not None
    model = model_spec(file, section, vocab, added, byte_level=byte_level)

    def token_to_id(token: str) -> int | None:
        return ids.get(token, vocab.get(token))

    special = {token.content for token in added.values() if token.special}
    eos_token, eos_id = find_eos(file, token_to_id, special)
    return NativeSpec(
        model=model,
        normalizer=normalizer,
        added=added,
        pattern=pattern,
        post=post,
        vocab_size=max(len(model.texts.flags), len(vocab) + sum(token not in vocab for token in ids)),
        eos_token=eos_token,
        eos_id=eos_id,
        byte_decoder=byte_level and type_of(parsed.get("decoder")) == "ByteLevel",
    )


def _pattern(section: Any) -> str | None:
    if section is None:
        return None
    pattern = recognise(section)
    if pattern is not None:
        return pattern
    steps = section.get("pretokenizers", [section]) if isinstance(section, dict) else []
    if isinstance(steps, list) and any(
        type_of(step) == "ByteLevel" and step.get("add_prefix_space") is not False for step in steps
    ):
        raise NotSupported("it puts a space before the first word")
    raise NotSupported("its pattern is not one that Krill knows")


def _post_processing(section: Any) -> PostProcessing:
    """The post-processors in order: at most one trims offsets, at most one adds tokens."""
    if section is None:
        return PostProcessing()
    steps: Any = section.get("processors") if type_of(section) == "Sequence" else [section]
    found = PostProcessing()
    for step in steps if isinstance(steps, list) else [{}]:
        kind = type_of(step)
        if kind not in ("ByteLevel", "TemplateProcessing", "RobertaProcessing", "BertProcessing"):
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


def _added_tokens(section: Any, vocab: Mapping[str, int]) -> tuple[dict[str, int], dict[int, AddedToken]]:
    """Ids by text and tokens by id, as the library numbers them: known texts keep their id, others follow."""
    ids: dict[str, int] = {}
    tokens: dict[int, AddedToken] = {}
    taken = set(vocab.values())
    following = len(vocab)
    for entry in section if isinstance(section, list) else []:
        token = _added_token(entry)
        if not token.content:
            continue
        number = ids.get(token.content, vocab.get(token.content))
        if number is None:
            number, following = following, following + 1
            if number in taken:
                raise NotSupported(f"its added token `{token.content}` gets an id that is taken")
        known = tokens.get(number)
        if known is not None and known.special and not token.special:
            raise NotSupported(f"its added token `{token.content}` is there twice")
        ids[token.content] = number
        tokens[number] = token
    return ids, tokens


def _added_token(entry: Any) -> AddedToken:
    names = list(AddedToken.__dataclass_fields__)
    values = [entry.get(name) for name in names] if isinstance(entry, dict) else [None]
    if not isinstance(values[0], str) or not all(isinstance(value, bool) for value in values[1:]):
        raise NotSupported("its added tokens are not as the library writes them")
    return AddedToken(*values)


def _id(number: Any) -> int:
    if type(number) is not int or not 0 <= number < 2**32:
        raise TypeError(number)
    return number
