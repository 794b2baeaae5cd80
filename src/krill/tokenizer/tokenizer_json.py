"""A `tokenizer.json` read for the native encoder: its arrays, or the reason why it isn't one of ours.

In: a tokenizer file of Hugging Face's library, and the files beside it that declare EOS. Out: a `NativeSpec`,
or `NotNative` with a reason that fits behind "because". Held in memory: while it is read, the parsed JSON
(about ten times the file); afterwards flat arrays (less than the file).

Everything is as the library would make it of this file, quirks included: added tokens get their ids from the
vocabulary and not from the file. Files that the library refuses are refused here, or left for it to refuse.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from krill.errors import InputError
from krill.tokenizer.declared import HINT, find_eos
from krill.tokenizer.patterns import recognise
from krill.tokenizer.vocabulary import to_bytes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from krill.tokenizer.outline import Outline

# What the native tables can number: native/bpe/vocabulary_merges.hpp.
MAX_IDS: Final = 2**20
MAX_MERGES: Final = 2**20
PRESENT, WORD, SPECIAL = 1, 2, 4


@dataclass(frozen=True, slots=True)
class AddedToken:
    """A token that is found in the text before it is cut into words."""

    content: str
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
    """What `_native.BpeEncoder` is made of, and what else there is to know of a tokenizer."""

    tokens: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    flags: NDArray[np.uint8]
    merges: NDArray[np.uint32]
    added: Mapping[int, AddedToken]
    pattern: str
    ignore_merges: bool
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


class _Unknown(Exception):
    """Carries the reason of a `NotNative`."""


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
    except _Unknown as unknown:
        return NotNative(str(unknown))


def why_not_native(outline: Outline) -> str | None:
    """What of an outline the native encoder can't do; a reason may also be hidden among the tokens."""
    parsed = outline.sections
    if parsed is None:
        return "its sections are too large"
    try:
        _check_sections(parsed)
        _check_model(parsed.get("model"))
    except _Unknown as unknown:
        return str(unknown)
    if outline.merges.values > MAX_MERGES:
        return f"it has {outline.merges.values:,} merges"
    if outline.vocabulary.values + outline.added.values > MAX_IDS:
        return f"it has {outline.vocabulary.values + outline.added.values:,} tokens"
    return None


def _check_sections(parsed: Mapping[str, Any]) -> tuple[str, PostProcessing]:
    """The pattern, and what is put around texts."""
    if parsed.get("version", "1.0") != "1.0":
        raise _Unknown(f"its version is {parsed['version']}")
    if parsed.get("normalizer") is not None:
        raise _Unknown(f"it has a normalizer ({_type_of(parsed['normalizer'])})")
    return _pattern(parsed.get("pre_tokenizer")), _post_processing(parsed.get("post_processor"))


def _spec(file: Path, parsed: Mapping[str, Any]) -> NativeSpec:
    pattern, post = _check_sections(parsed)
    vocab, merges, ignore_merges = _model(file, parsed.get("model"))
    ids, added = _added_tokens(parsed.get("added_tokens"), vocab)
    special = {token.content for token in added.values() if token.special}
    tokens, offsets, flags = _token_arrays(file, vocab, added)

    def token_to_id(token: str) -> int | None:
        return ids.get(token, vocab.get(token))

    eos_token, eos_id = find_eos(file, token_to_id, special)
    return NativeSpec(
        tokens=tokens,
        offsets=offsets,
        flags=flags,
        merges=_merge_array(file, merges, vocab, flags),
        added=added,
        pattern=pattern,
        ignore_merges=ignore_merges,
        post=post,
        vocab_size=max(len(flags), len(vocab) + sum(token not in vocab for token in ids)),
        eos_token=eos_token,
        eos_id=eos_id,
        byte_decoder=_type_of(parsed.get("decoder")) == "ByteLevel",
    )


def _pattern(section: Any) -> str:
    if section is None:
        raise _Unknown("it has no pre-tokenizer")
    pattern = recognise(section)
    if pattern is not None:
        return pattern
    steps = section.get("pretokenizers", [section]) if isinstance(section, dict) else []
    if isinstance(steps, list) and any(
        _type_of(step) == "ByteLevel" and step.get("add_prefix_space") is not False for step in steps
    ):
        raise _Unknown("it puts a space before the first word")
    raise _Unknown("its pattern is not one that Krill knows")


def _post_processing(section: Any) -> PostProcessing:
    """The post-processors in order: at most one trims offsets, at most one adds tokens."""
    if section is None:
        return PostProcessing()
    steps: Any = section.get("processors") if _type_of(section) == "Sequence" else [section]
    found = PostProcessing()
    for step in steps if isinstance(steps, list) else [{}]:
        kind = _type_of(step)
        if kind not in ("ByteLevel", "TemplateProcessing", "RobertaProcessing", "BertProcessing"):
            raise _Unknown(f"its post-processor ({kind}) is not one that Krill knows")
        prefix, suffix = _surrounding(step, kind)
        trims = kind in ("ByteLevel", "RobertaProcessing") and step.get("trim_offsets") is not False
        if (found.trims_offsets and trims) or ((found.prefix or found.suffix) and (prefix or suffix)):
            raise _Unknown("its post-processors do the same thing twice")
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
        raise _Unknown(f"its post-processor ({kind}) is not as the library writes it") from None
    return (), ()


def _template(step: Mapping[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    around: tuple[list[int], list[int]] = ([], [])
    texts = 0
    for piece in step["single"]:
        if "Sequence" in piece:
            texts += 1
            if texts > 1 or piece["Sequence"]["id"] != "A":
                raise _Unknown("its template holds the text more than once")
        else:
            token = step["special_tokens"][piece["SpecialToken"]["id"]]
            around[min(texts, 1)].extend(_id(number) for number in token["ids"])
    if texts == 0:
        raise _Unknown("its template doesn't hold the text")
    return tuple(around[0]), tuple(around[1])


def _check_model(model: Any) -> tuple[Any, Any]:
    """Vocabulary and merges of a model of a kind that can be run natively."""
    kind = _type_of(model)
    if not isinstance(model, dict) or kind not in ("BPE", "nothing"):
        raise _Unknown(f"its model is {kind}")
    vocab, merges = model.get("vocab"), model.get("merges")
    if not isinstance(vocab, dict) or not isinstance(merges, list):
        raise _Unknown("its model has no vocabulary and merges")
    if model.get("dropout"):
        raise _Unknown("its model drops merges at random")
    for affix in ("continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(affix):
            raise _Unknown(f"its model has a {affix}")
    return vocab, merges


def _model(file: Path, model: Any) -> tuple[dict[str, int], list[Any], bool]:
    """Vocabulary, merges and `ignore_merges` of a model that can be run natively."""
    vocab, merges = _check_model(model)
    if len(merges) > MAX_MERGES:
        raise _Unknown(f"it has {len(merges):,} merges")
    if not set(map(type, vocab.values())) <= {int} or min(vocab.values(), default=0) < 0:
        token, number = next(pair for pair in vocab.items() if type(pair[1]) is not int or pair[1] < 0)
        raise InputError(f"the token `{token}` of `{file}` has the id `{number}`", hint="mend the file")
    if (largest := max(vocab.values(), default=0)) >= MAX_IDS:
        raise _Unknown(f"its ids reach {largest:,}")
    complete = sum(len(token) == 1 and to_bytes(token) is not None for token in vocab) == 256
    for way in ("unk_token", "byte_fallback"):
        # With a token for every byte, neither is ever used.
        if model.get(way) and not complete:
            raise _Unknown(f"its model has a {way} for bytes without a token")
    return vocab, merges, bool(model.get("ignore_merges"))


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
                raise _Unknown(f"its added token `{token.content}` gets an id that is taken")
        known = tokens.get(number)
        if known is not None and known.special and not token.special:
            raise _Unknown(f"its added token `{token.content}` is there twice")
        ids[token.content] = number
        tokens[number] = token
    return ids, tokens


def _added_token(entry: Any) -> AddedToken:
    names = list(AddedToken.__dataclass_fields__)
    values = [entry.get(name) for name in names] if isinstance(entry, dict) else [None]
    if not isinstance(values[0], str) or not all(isinstance(value, bool) for value in values[1:]):
        raise _Unknown("its added tokens are not as the library writes them")
    return AddedToken(*values)


def _token_arrays(
    file: Path, vocab: Mapping[str, int], added: Mapping[int, AddedToken]
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint8]]:
    """By id: the bytes that decoding gives, and what kind of id it is."""
    import numpy as np

    size = 1 + max([*vocab.values(), *added], default=-1)
    pieces = [b""] * size
    flags = bytearray(size)
    # Text in other letters than those of bytes is never found in a word, and decodes to itself.
    words = list(map(to_bytes, vocab))
    for token, number, word in zip(vocab, vocab.values(), words, strict=True):
        pieces[number] = token.encode() if word is None else word
        flags[number] = PRESENT | WORD if word else PRESENT
    if flags.count(0) + len(vocab) > size:
        raise _two_with_one_id(file, vocab)
    for number, known in added.items():
        word = to_bytes(known.content)
        pieces[number] = known.content.encode() if word is None else word
        flags[number] |= PRESENT | (SPECIAL if known.special else 0)
    offsets = np.zeros(size + 1, np.int64)
    np.cumsum(np.fromiter(map(len, pieces), np.int64, size), out=offsets[1:])
    return np.frombuffer(b"".join(pieces), np.uint8), offsets, np.frombuffer(flags, np.uint8)


def _two_with_one_id(file: Path, vocab: Mapping[str, int]) -> InputError:
    """For a vocabulary that has an id twice."""
    first: dict[int, str] = {}
    token, number = next(pair for pair in vocab.items() if first.setdefault(pair[1], pair[0]) != pair[0])
    return InputError(
        f"two tokens of `{file}` have the id {number}: `{first[number]}` and `{token}`",
        hint="give each token an id of its own",
    )


def _merge_array(
    file: Path, merges: list[Any], vocab: Mapping[str, int], flags: NDArray[np.uint8]
) -> NDArray[np.uint32]:
    """Left, right and new id of each merge by rank, without those of tokens that no word can hold."""
    import numpy as np

    lefts, rights = _pairs(file, merges)
    columns = (lefts, rights, list(map(operator.add, lefts, rights)))
    try:
        ids = np.array([list(map(vocab.__getitem__, column)) for column in columns], np.uint32).T
    except KeyError:
        raise _unknown_token(file, lefts, rights, vocab) from None
    return np.ascontiguousarray(ids[(flags[ids] & WORD).all(axis=1)]).reshape(-1)


def _unknown_token(
    file: Path, lefts: Sequence[str], rights: Sequence[str], vocab: Mapping[str, int]
) -> InputError:
    """For merges of which one names a token that isn't there."""
    place, left, right, missing = next(
        (place, left, right, token)
        for place, (left, right) in enumerate(zip(lefts, rights, strict=True))
        for token in (left, right, left + right)
        if token not in vocab
    )
    return InputError(
        f"merge {place:,} of `{file}` is `{left} {right}`, but `{missing}` is not in the vocabulary",
        hint="take vocabulary and merges from one tokenizer",
    )


def _pairs(file: Path, merges: list[Any]) -> tuple[Sequence[str], Sequence[str]]:
    """The left and the right tokens, from either way of writing merges: `"a b"` or `["a", "b"]`."""
    kinds = set(map(type, merges))
    if kinds <= {str}:
        merges = [line.split(" ") for line in merges if not line.startswith("#version")]
        if any(len(pair) != 2 for pair in merges):
            line = next(" ".join(pair) for pair in merges if len(pair) != 2)
            raise InputError(f"a merge of `{file}` is not two tokens: `{line}`", hint="mend the file")
    elif kinds != {list}:
        raise _Unknown("its merges are written in more than one way")
    elif any(len(pair) != 2 for pair in merges) or set(map(type, chain.from_iterable(merges))) != {str}:
        raise _Unknown("its merges are not pairs")
    return [pair[0] for pair in merges], [pair[1] for pair in merges]


def _type_of(section: Any) -> str:
    kind = section.get("type") if isinstance(section, dict) else None
    return kind if isinstance(kind, str) else "nothing"


def _id(number: Any) -> int:
    if type(number) is not int or not 0 <= number < 2**32:
        raise TypeError(number)
    return number
