"""The BPE model of a `tokenizer.json` as the arrays of the native encoder, or the reason why it can't run it.

In: the `model` section, parsed, and the added tokens. Out: a `BpeModel`. Held in memory: the parsed section,
then flat arrays (less than the file).
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from krill.errors import InputError
from krill.tokenizer.vocabulary import to_bytes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# What the native tables can number: native/bpe/merge_table.hpp.
MAX_IDS: Final = 2**20
MAX_MERGES: Final = 2**20
PRESENT, WORD, SPECIAL = 1, 2, 4


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
class BpeModel:
    """Tokens by id, and merges by rank."""

    tokens: NDArray[np.uint8]
    """What each id decodes to, one after the other."""
    offsets: NDArray[np.int64]
    flags: NDArray[np.uint8]
    merges: NDArray[np.uint32]
    """Left, right and new id of each."""
    ignore_merges: bool


def bpe_model(
    file: Path, section: Any, vocab: Mapping[str, int], added: Mapping[int, AddedToken]
) -> BpeModel:
    """The arrays of a model section that `check_model` accepts; `vocab` is what `bpe_vocabulary` gave."""
    tokens, offsets, flags = _token_arrays(file, vocab, added)
    merges = _merge_array(file, section["merges"], vocab, flags)
    return BpeModel(tokens, offsets, flags, merges, bool(section.get("ignore_merges")))


def check_model(model: Any) -> tuple[Any, Any]:
    """Vocabulary and merges of a model of a kind that can be run natively."""
    kind = type_of(model)
    if not isinstance(model, dict) or kind not in ("BPE", "nothing"):
        raise NotSupported(f"its model is {kind}")
    vocab, merges = model.get("vocab"), model.get("merges")
    if not isinstance(vocab, dict) or not isinstance(merges, list):
        raise NotSupported("its model has no vocabulary and merges")
    if model.get("dropout"):
        raise NotSupported("its model drops merges at random")
    for affix in ("continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(affix):
            raise NotSupported(f"its model has a {affix}")
    return vocab, merges


def bpe_vocabulary(file: Path, model: Any) -> dict[str, int]:
    """Id by text of a model that can be run natively."""
    vocab, merges = check_model(model)
    if len(merges) > MAX_MERGES:
        raise NotSupported(f"it has {len(merges):,} merges")
    if not set(map(type, vocab.values())) <= {int} or min(vocab.values(), default=0) < 0:
        token, number = next(pair for pair in vocab.items() if type(pair[1]) is not int or pair[1] < 0)
        raise InputError(f"the token `{token}` of `{file}` has the id `{number}`", hint="mend the file")
    if (largest := max(vocab.values(), default=0)) >= MAX_IDS:
        raise NotSupported(f"its ids reach {largest:,}")
    complete = sum(len(token) == 1 and to_bytes(token) is not None for token in vocab) == 256
    for way in ("unk_token", "byte_fallback"):
        # With a token for every byte, neither is ever used.
        if model.get(way) and not complete:
            raise NotSupported(f"its model has a {way} for bytes without a token")
    known: dict[str, int] = vocab
    return known


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
        raise NotSupported("its merges are written in more than one way")
    elif any(len(pair) != 2 for pair in merges) or set(map(type, chain.from_iterable(merges))) != {str}:
        raise NotSupported("its merges are not pairs")
    return [pair[0] for pair in merges], [pair[1] for pair in merges]


def type_of(section: Any) -> str:
    """The `type` of a section of the file."""
    kind = section.get("type") if isinstance(section, dict) else None
    return kind if isinstance(kind, str) else "nothing"
