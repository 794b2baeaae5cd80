"""The vocabulary of byte-level BPE: characters that stand for bytes, the ids before any merge, all ids after.

In: the count of each byte, and the options. Out: the first tokens of the vocabulary and the id of each byte;
after merging, plain lists. Held in memory: the vocabulary, about 150 bytes a token.

Files hold tokens as text, so GPT-2 gave each byte a printable character: 188 bytes that are printable Latin-1
stand for themselves, and the other 68, in byte order, for the code points from 256 on (a space is `Ġ`).
`mapped text` below is text in these characters.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from krill.errors import ConfigError
from krill.tokenizer.options import TrainOptions

_PRINTABLE: Final = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_OTHERS: Final = tuple(byte for byte in range(256) if byte not in _PRINTABLE)

BYTE_ORDER: Final = _PRINTABLE + _OTHERS
"""All bytes in the order of the characters that stand for them."""

_CODE_POINTS: Final = (*_PRINTABLE, *range(256, 256 + len(_OTHERS)))
_TO_BYTE: Final = {chr(point): byte for point, byte in zip(_CODE_POINTS, BYTE_ORDER, strict=True)}
_TO_CHARACTER: Final = {byte: character for character, byte in _TO_BYTE.items()}


def to_text(token: bytes) -> str:
    """The mapped text of some bytes, one character for each."""
    return "".join(map(_TO_CHARACTER.__getitem__, token))


def to_bytes(text: str) -> bytes | None:
    """The bytes that a mapped text stands for; None if one of its characters stands for none."""
    try:
        return bytes(map(_TO_BYTE.__getitem__, text))
    except KeyError:
        return None


@dataclass(frozen=True)
class TrainedBpe:
    """A trained byte-level BPE: special tokens, then single bytes, then what merges made."""

    options: TrainOptions
    tokens: list[bytes]
    """By id; a special token is the UTF-8 of its text."""
    special: int
    """How many of the first ids are special tokens, in the order given."""
    alphabet: int
    """How many ids after those are single bytes."""
    merges: list[tuple[int, int, int]]
    """(left id, right id, new id) by rank; each pair once."""

    def text(self, token_id: int) -> str:
        """A token as files spell it: special tokens as they are, others in mapped text."""
        token = self.tokens[token_id]
        return token.decode("utf-8") if token_id < self.special else to_text(token)

    def byte_ids(self) -> list[int]:
        """The id of each byte, -1 if it is not in the alphabet."""
        ids = [-1] * 256
        for token_id in range(self.special, self.special + self.alphabet):
            ids[self.tokens[token_id][0]] = token_id
        if self.options.tie_break == "huggingface":
            _share_ids(ids, map(self.text, range(self.special)))
        return ids


def initial_ids(byte_counts: Sequence[int], options: TrainOptions) -> tuple[list[bytes], list[int]]:
    """The vocabulary before the first merge: its tokens by id, and the id of each byte (-1: left out).

    Special tokens come first, as the UTF-8 of their text. The bytes follow in the order of their characters,
    as Hugging Face sorts them, or in byte order with the tie-break `greatest`. With Hugging Face's, a special
    token that reads like a byte's character is that byte: they share one id.
    """
    tokens = [token.encode("utf-8") for token in options.special_tokens]
    ids = [-1] * 256
    if options.tie_break == "huggingface":
        _share_ids(ids, options.special_tokens)
    kept = _kept_bytes(byte_counts, options)
    for byte in sorted(kept) if options.tie_break == "greatest" else BYTE_ORDER:
        if byte in kept and ids[byte] < 0:
            ids[byte] = len(tokens)
            tokens.append(bytes([byte]))
    if len(tokens) > options.vocab_size:
        raise ConfigError(
            f"a vocabulary of {options.vocab_size:,} is smaller than its alphabet: "
            f"{len(tokens) - len(options.special_tokens)} bytes and "
            f"{len(options.special_tokens)} special tokens",
            hint=f"set vocab_size to {len(tokens)} or more, or limit_alphabet to fewer bytes",
        )
    return tokens, ids


def _share_ids(byte_ids: list[int], special_tokens: Iterable[str]) -> None:
    for token_id, token in enumerate(special_tokens):
        if token in _TO_BYTE:
            byte_ids[_TO_BYTE[token]] = token_id


def _kept_bytes(byte_counts: Sequence[int], options: TrainOptions) -> set[int]:
    """The alphabet: bytes that occur or are asked for, as many of the most frequent as the limit allows."""
    if options.initial_alphabet == "bytes":
        asked = set(range(256))
    elif options.initial_alphabet == "seen":
        asked = set()
    else:
        asked = set(options.initial_alphabet.encode("utf-8"))
    alphabet = [byte for byte in BYTE_ORDER if byte in asked or byte_counts[byte] > 0]
    if options.limit_alphabet is None:
        return set(alphabet)
    # What was asked for counts as the most frequent of all. Hugging Face leaves open which of equally
    # frequent bytes go; here the first in order stay, since sorting keeps it.
    alphabet.sort(key=lambda byte: math.inf if byte in asked else byte_counts[byte], reverse=True)
    return set(alphabet[: options.limit_alphabet])
