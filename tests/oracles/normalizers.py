"""What the library's normalizers do with a text, where its characters come from, and charsmaps to try.

In: a section of tokenizer.json and a text. Out: what `tokenizers` makes of it. Held in memory: one text.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping
from typing import Any

from tokenizers import PreTokenizedString, Regex, Tokenizer, normalizers

Section = dict[str, Any]
Traced = list[tuple[str, tuple[int, int]]]

_EMPTY = json.loads(Tokenizer.from_str('{"model": {"type": "BPE", "vocab": {}, "merges": []}}').to_str())


def library_normalizer(section: Section) -> normalizers.Normalizer:
    """The library's own reading of a section."""
    return Tokenizer.from_str(json.dumps({**_EMPTY, "normalizer": section})).normalizer


def library_origins(normalizer: normalizers.Normalizer, text: str) -> Traced:
    """Each character of the normalised text, and the bytes of the original that it stands for."""
    pieces = PreTokenizedString(text)
    pieces.normalize(normalizer.normalize)
    pieces.split(lambda _, piece: piece.split(Regex("(?m:.)"), "isolated"))
    return [(piece, place) for piece, place, _ in pieces.get_splits("original", "byte") if piece]


def double_array(values: Mapping[int, int]) -> bytes:
    """A trie whose keys are single bytes, and where the replacement of each begins."""
    units = [0] * 768
    units[0] = 256 << 10
    for byte, value in values.items():
        units[256 + byte] = byte | 1 << 8 | 768 << 10
        units[512 + byte] = 1 << 31 | value
    return struct.pack("<I768I", 4 * 768, *units)


def charsmap_of(replacements: Mapping[int, str]) -> bytes:
    """A charsmap that replaces what begins with certain bytes."""
    contents = b""
    values = {}
    for byte, replacement in replacements.items():
        values[byte] = len(contents)
        contents += replacement.encode() + b"\0"
    return double_array(values) + contents


def precompiled(charsmap: bytes) -> Section:
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()}
