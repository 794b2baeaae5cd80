"""Text in normal form C, and the way back to the characters that it came from.

In: a text. Out: the text as tokenizers get it, and for each of its characters where it begins and
ends in the original. Held in memory: two numbers for each character, and only where the text changes.

Composition happens inside clusters: a character, and those after it that may join it. Clusters are composed
one by one, so each new character belongs to one cluster of the original.
"""

from __future__ import annotations

import sys
import unicodedata
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

# Vowels and final consonants of Hangul compose by rule, not by table.
_HANGUL = [*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)]


@dataclass(frozen=True, slots=True)
class Composed:
    """A text in normal form C; `begins` and `ends` have a number for each character, None = unchanged."""

    text: str
    begins: npt.NDArray[np.int32] | None = None
    ends: npt.NDArray[np.int32] | None = None

    def original_spans(self, spans: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Begins and ends in the composed text, shape (n, 2), as those of the original."""
        if self.begins is None or self.ends is None or not len(self.text):
            return spans
        last = len(self.text) - 1
        begins = self.begins[np.minimum(spans[:, 0], last)]
        # An empty span stays empty, where the character after it begins.
        ends = np.where(spans[:, 1] > spans[:, 0], self.ends[np.maximum(spans[:, 1] - 1, 0)], begins)
        return np.stack([begins, ends], axis=1).astype(np.int32)


def compose(text: str) -> Composed:
    if unicodedata.is_normalized("NFC", text):
        return Composed(text)
    joining = _joining()
    parts: list[str] = []
    begins: list[int] = []
    ends: list[int] = []
    start = 0
    for end in range(1, len(text) + 1):
        if end < len(text) and text[end] in joining:
            continue
        cluster = text[start:end]
        composed = unicodedata.normalize("NFC", cluster)
        parts.append(composed)
        if composed == cluster:  # character by character
            begins += range(start, end)
            ends += range(start + 1, end + 1)
        else:
            begins += [start] * len(composed)
            ends += [end] * len(composed)
        start = end
    return Composed("".join(parts), np.array(begins, np.int32), np.array(ends, np.int32))


@cache
def _joining() -> frozenset[str]:
    """Characters that may join or reorder with what stands before them: 0.3 s to find, once."""
    found = {chr(code) for code in _HANGUL}
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        if unicodedata.combining(character):
            found.add(character)
        parts = unicodedata.decomposition(character)
        if parts and not parts.startswith("<"):
            codes = [int(part, 16) for part in parts.split()]
            found.update(map(chr, codes[1:]))
            # A character whose decomposition begins with a mark joins as the mark would.
            if unicodedata.combining(chr(codes[0])):
                found.add(character)
    return frozenset(found)
