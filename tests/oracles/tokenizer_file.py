"""The tables of a tokenizer.json by way of Python's own JSON: slow, obvious, and without limits."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from krill.tokenizer.vocabulary import to_bytes

PRESENT, WORD, SPECIAL = 1, 2, 4
ADDED_KEYS = ("single_word", "lstrip", "rstrip", "normalized", "special")


@dataclass
class Tables:
    """Tokens and flags by id, merges as ids by rank, and added tokens as the library numbers them."""

    tokens: list[bytes]
    flags: list[int]
    merges: list[tuple[int, int, int]]
    added: dict[str, tuple[int, tuple[bool, ...]]]


def reference_tables(text: str, byte_level: bool) -> Tables:
    """The tables of a file that is as it should be."""
    parsed = json.loads(text)
    model = parsed["model"]
    vocab, scored = model["vocab"], isinstance(model["vocab"], list)
    entries = [(piece, number) for number, (piece, _) in enumerate(vocab)] if scored else list(vocab.items())
    ids = dict(entries)
    size = 1 + max((number for _, number in entries), default=-1)
    tokens, flags = [b""] * size, [0] * size
    for token, number in entries:
        word = to_bytes(token) if byte_level else token.encode()
        tokens[number] = token.encode() if word is None else word
        flags[number] = PRESENT | (WORD if word else 0)
    merges = _merges(model.get("merges", []), ids, flags, model.get("continuing_subword_prefix") or "")
    added: dict[str, tuple[int, tuple[bool, ...]]] = {}
    following = len(entries)
    for entry in parsed.get("added_tokens", []):
        content = entry["content"]
        if not content:
            continue
        if content in ids or content in added:
            number = added[content][0] if content in added else ids[content]
        else:
            number, following = following, following + 1
        known = [entry[key] for key in ADDED_KEYS]
        known[4] = known[4] or (content in added and added[content][1][4])
        added[content] = (number, tuple(known))
        if number >= len(tokens):
            tokens += [b""] * (number + 1 - len(tokens))
            flags += [0] * (number + 1 - len(flags))
        if not flags[number]:
            word = to_bytes(content) if byte_level else content.encode()
            tokens[number] = content.encode() if word is None else word
        flags[number] |= PRESENT | (SPECIAL if known[4] else 0)
    return Tables(tokens, flags, merges, added)


def _merges(
    written: list[Any], ids: dict[str, int], flags: list[int], prefix: str
) -> list[tuple[int, int, int]]:
    pairs = [
        line.split(" ") if isinstance(line, str) else line
        for line in written
        if not (isinstance(line, str) and line.startswith("#version"))
    ]
    found = [
        (ids[left], ids[right], ids[(left.encode() + right.encode()[len(prefix.encode()) :]).decode()])
        for left, right in pairs
    ]
    return [merge for merge in found if all(flags[number] & WORD for number in merge)]
