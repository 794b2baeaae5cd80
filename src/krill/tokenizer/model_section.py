"""The `model` section of a `tokenizer.json` as the arrays of a native model, or the reason why there is none.

In: the section, parsed, and the added tokens. Out: a `ModelSpec`, which builds the native model. Held in
memory: the parsed section, then flat arrays (less than the file).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from krill.errors import InputError
from krill.tokenizer.vocabulary import to_bytes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from krill import _native

# What the native tables can number: native/bpe/merge_table.hpp.
MAX_IDS: Final = 2**20
MAX_MERGES: Final = 2**20
PRESENT, WORD, SPECIAL = 1, 2, 4
MODELS: Final = ("BPE", "Unigram", "WordPiece", "WordLevel")


class NotSupported(Exception):
    """Why the native core can't run a tokenizer; the reason fits behind "because"."""


@dataclass(frozen=True, slots=True)
class AddedToken:
    """A token that is found in the text before it is split into words."""

    content: str
    single_word: bool
    lstrip: bool
    rstrip: bool
    normalized: bool
    special: bool


@dataclass(frozen=True, slots=True)
class TokenTexts:
    """By id: what it decodes to, one after the other, and what kind of id it is."""

    tokens: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    flags: NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model's tokens, and how to build it of them."""

    texts: TokenTexts
    byte_level: bool
    """Whether its tokens are bytes, since the pre-tokenizer turns every byte into a letter."""
    build: Callable[[], _native.Model] = field(repr=False)


def model_vocabulary(file: Path, section: Any) -> dict[str, int]:
    """Id by text of a model that can be run natively."""
    kind = check_model(section)
    vocab: Any = section["vocab"]
    if kind == "Unigram":
        return {piece: number for number, (piece, _) in enumerate(_pieces(vocab))}
    if not set(map(type, vocab.values())) <= {int} or min(vocab.values(), default=0) < 0:
        token, number = next(pair for pair in vocab.items() if type(pair[1]) is not int or pair[1] < 0)
        raise InputError(f"the token `{token}` of `{file}` has the id `{number}`", hint="mend the file")
    if (largest := max(vocab.values(), default=0)) >= MAX_IDS:
        raise NotSupported(f"its ids reach {largest:,}")
    known: dict[str, int] = vocab
    return known


def check_model(model: Any) -> str:
    """The kind of a model that can be run natively."""
    kind = type_of(model)
    kind = "BPE" if kind == "nothing" else kind
    if not isinstance(model, dict) or kind not in MODELS:
        raise NotSupported(f"its model is {kind}")
    vocab = model.get("vocab")
    if not isinstance(vocab, list if kind == "Unigram" else dict):
        raise NotSupported("its model has no vocabulary")
    if kind == "BPE" and not isinstance(model.get("merges"), list):
        raise NotSupported("its model has no merges")
    if model.get("dropout"):
        raise NotSupported("its model drops merges at random")
    return kind


def model_spec(
    file: Path, section: Any, vocab: Mapping[str, int], added: Mapping[int, AddedToken], *, byte_level: bool
) -> ModelSpec:
    """Of a section that `check_model` accepts; `vocab` is what `model_vocabulary` gave."""
    kind = check_model(section)
    if kind == "BPE":
        return _bpe(file, section, vocab, added, byte_level)
    if byte_level:
        raise NotSupported(f"its model is {kind} over bytes")
    texts = _token_texts(file, vocab, added, byte_level)
    build = {"Unigram": _unigram, "WordPiece": _word_piece, "WordLevel": _word_level}[kind]
    return ModelSpec(texts, byte_level, build(section, vocab))


def _bpe(
    file: Path,
    section: Mapping[str, Any],
    vocab: Mapping[str, int],
    added: Mapping[int, AddedToken],
    byte_level: bool,
) -> ModelSpec:
    if len(section["merges"]) > MAX_MERGES:
        raise NotSupported(f"it has {len(section['merges']):,} merges")
    prefix = section.get("continuing_subword_prefix") or ""
    suffix = section.get("end_of_word_suffix") or ""
    if byte_level and (prefix or suffix):
        raise NotSupported("its tokens have affixes beside the letters of bytes")
    texts = _token_texts(file, vocab, added, byte_level)
    merges = _merge_array(file, section["merges"], vocab, texts.flags, len(prefix))
    unknown = section.get("unk_token")

    def build() -> _native.Model:
        from krill import _native

        return _native.BpeModel(
            texts.tokens,
            texts.offsets,
            texts.flags,
            merges,
            byte_level=byte_level,
            byte_fallback=bool(section.get("byte_fallback")),
            unk=None if unknown is None else vocab.get(unknown, -1),
            fuse_unk=bool(section.get("fuse_unk")),
            prefix=prefix.encode() or None,
            suffix=suffix.encode() or None,
            ignore_merges=bool(section.get("ignore_merges")),
        )

    return ModelSpec(texts, byte_level, build)


def _unigram(section: Mapping[str, Any], vocab: Mapping[str, int]) -> Callable[[], _native.Model]:
    import numpy as np

    pieces = _pieces(section["vocab"])
    tokens, offsets = _joined([piece.encode() for piece, _ in pieces])
    scores = np.array([score for _, score in pieces], np.float64)
    unknown = section.get("unk_id")
    if unknown is not None and not (type(unknown) is int and 0 <= unknown < len(pieces)):
        raise NotSupported(f"its unk_id is `{unknown}`")

    def build() -> _native.Model:
        from krill import _native

        fallback = bool(section.get("byte_fallback"))
        return _native.Unigram(tokens, offsets, scores, unknown, fallback, False)

    return build


def _word_piece(section: Mapping[str, Any], vocab: Mapping[str, int]) -> Callable[[], _native.Model]:
    tokens, offsets, ids = _words(vocab)
    unknown = vocab.get(section.get("unk_token", "[UNK]"))
    prefix = section.get("continuing_subword_prefix", "##")
    most = section.get("max_input_chars_per_word", 100)
    if not isinstance(prefix, str) or type(most) is not int or most < 0:
        raise NotSupported("its model is not as the library writes it")

    def build() -> _native.Model:
        from krill import _native

        return _native.WordPiece(tokens, offsets, ids, unknown, prefix.encode(), most, False)

    return build


def _word_level(section: Mapping[str, Any], vocab: Mapping[str, int]) -> Callable[[], _native.Model]:
    tokens, offsets, ids = _words(vocab)
    unknown = vocab.get(section.get("unk_token", "<unk>"))

    def build() -> _native.Model:
        from krill import _native

        return _native.WordLevel(tokens, offsets, ids, unknown)

    return build


def _pieces(vocab: Any) -> list[tuple[str, float]]:
    for entry in vocab:
        if not (
            isinstance(entry, list)
            and len(entry) == 2
            and isinstance(entry[0], str)
            and type(entry[1]) in (int, float)
        ):
            raise NotSupported("its vocabulary is not a list of pieces and scores")
    return [(piece, float(score)) for piece, score in vocab]


def _words(vocab: Mapping[str, int]) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint32]]:
    import numpy as np

    tokens, offsets = _joined([token.encode() for token in vocab])
    return tokens, offsets, np.fromiter(vocab.values(), np.uint32, len(vocab))


def _joined(pieces: Sequence[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    import numpy as np

    offsets = np.zeros(len(pieces) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, pieces), np.int64, len(pieces)), out=offsets[1:])
    return np.frombuffer(b"".join(pieces), np.uint8), offsets


def _token_texts(
    file: Path, vocab: Mapping[str, int], added: Mapping[int, AddedToken], byte_level: bool
) -> TokenTexts:
    import numpy as np

    size = 1 + max([*vocab.values(), *added], default=-1)
    pieces = [b""] * size
    flags = bytearray(size)
    # Text in other letters than those of bytes is never found in a word, and decodes to itself.
    words = [to_bytes(token) if byte_level else token.encode() for token in vocab]
    for token, number, word in zip(vocab, vocab.values(), words, strict=True):
        pieces[number] = token.encode() if word is None else word
        flags[number] = PRESENT | WORD if word else PRESENT
    if flags.count(0) + len(vocab) > size:
        raise _two_with_one_id(file, vocab)
    for number, known in added.items():
        word = to_bytes(known.content) if byte_level else None
        pieces[number] = known.content.encode() if word is None else word
        flags[number] |= PRESENT | (SPECIAL if known.special else 0)
    tokens, offsets = _joined(pieces)
    return TokenTexts(tokens, offsets, np.frombuffer(flags, np.uint8))


def _two_with_one_id(file: Path, vocab: Mapping[str, int]) -> InputError:
    """For a vocabulary that has an id twice."""
    first: dict[int, str] = {}
    token, number = next(pair for pair in vocab.items() if first.setdefault(pair[1], pair[0]) != pair[0])
    return InputError(
        f"two tokens of `{file}` have the id {number}: `{first[number]}` and `{token}`",
        hint="give each token an id of its own",
    )


def _merge_array(
    file: Path, merges: list[Any], vocab: Mapping[str, int], flags: NDArray[np.uint8], prefix: int
) -> NDArray[np.uint32]:
    """Left, right and new id of each merge by rank, without those of tokens that no word can hold; of a right
    token the first `prefix` characters are not in the new one."""
    import numpy as np

    lefts, rights = _pairs(file, merges)
    ends = [right[prefix:] for right in rights] if prefix else rights
    columns = (lefts, rights, list(map(operator.add, lefts, ends)))
    try:
        ids = np.array([list(map(vocab.__getitem__, column)) for column in columns], np.uint32).T
    except KeyError:
        raise _unknown_token(file, lefts, rights, ends, vocab) from None
    return np.ascontiguousarray(ids[(flags[ids] & WORD).all(axis=1)]).reshape(-1)


def _unknown_token(
    file: Path, lefts: Sequence[str], rights: Sequence[str], ends: Sequence[str], vocab: Mapping[str, int]
) -> InputError:
    """For merges of which one names a token that isn't there."""
    place, left, right, missing = next(
        (place, left, right, token)
        for place, (left, right, end) in enumerate(zip(lefts, rights, ends, strict=True))
        for token in (left, right, left + end)
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
        raise NotSupported("its merges are written in more than one way")
    elif any(len(pair) != 2 for pair in merges) or set(map(type, chain.from_iterable(merges))) != {str}:
        raise NotSupported("its merges are not pairs")
    return [pair[0] for pair in merges], [pair[1] for pair in merges]


def type_of(section: Any) -> str:
    """The `type` of a section of the file."""
    kind = section.get("type") if isinstance(section, dict) else None
    return kind if isinstance(kind, str) else "nothing"
