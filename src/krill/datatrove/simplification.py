"""The table by which documents are simplified before MinHash compares them, as datatrove's own rules say.

In: nothing but the installed datatrove. Out: for each character that doesn't stay as it is, what becomes of
it. Held in memory: 20,000 short strings while it is made, then what the native signer makes of it.

`datatrove.utils.text.simplify_text` goes over a whole text again and again: lower case, numbers,
punctuation, whitespace, diacritics. All of it but numbers and a capital sigma at a word's end is about one
character at a time; the native signer does numbers, and `lowered` takes care of the sigma.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Final

import numpy as np
from datatrove.utils.text import NUMBERS_PATTERN, PUNCTUATION_TRANS
from numpy.typing import NDArray

SEPARATORS: Final = frozenset(".,\u060c\u066b\u2396\u2397\u2398")
"""What may stand once between the digits of one number."""

CAPITAL_SIGMA: Final = "\N{GREEK CAPITAL LETTER SIGMA}"

# The native signer's numbers of what becomes of a character.
TEXT: Final = 0
SPACE: Final = 1
DIGIT: Final = 2
SEPARATOR: Final = 3

# Planes without letters, digits, marks or punctuation are passed by, but for the two stretches of such.
_STRETCHES: Final = ((0, 0xD800), (0xE000, 0x20000), (0x2F800, 0x2FA80), (0xE0000, 0xE0200))
_PAGE: Final = 128


def lowered(text: str) -> str:
    """The text, with capital sigmas made small as only their neighbours tell."""
    return text.lower() if CAPITAL_SIGMA in text else text


@cache
def simplification() -> tuple[NDArray[np.uint32], NDArray[np.uint8], NDArray[np.int64], bytes]:
    """Characters in rising order, what becomes of each, and replacements as offsets and UTF-8."""
    found = list(_changes())
    replacements = [replacement.encode() for _, _, replacement in found]
    offsets = np.zeros(len(found) + 1, np.int64)
    np.cumsum([len(replacement) for replacement in replacements], out=offsets[1:])
    points = np.array([point for point, _, _ in found], np.uint32)
    changes = np.array([change for _, change, _ in found], np.uint8)
    return points, changes, offsets, b"".join(replacements)


def _changes() -> Iterator[tuple[int, int, str]]:
    for begin, end in _STRETCHES:
        for first in range(begin, end, _PAGE):
            page = "".join(map(chr, range(first, first + _PAGE)))
            # Asked of datatrove's own pattern, whose tables may be newer than Python's.
            digits = {match.group() for match in NUMBERS_PATTERN.finditer("x".join(page))}
            if digits or not _stays(page):
                yield from _page_changes(page, digits)


def _stays(page: str) -> bool:
    """Whether all of a page is letters that nothing becomes of: most pages are."""
    small = page.lower().translate(PUNCTUATION_TRANS)
    return page.isalnum() and page == small == unicodedata.normalize("NFD", page)


def _page_changes(page: str, digits: set[str]) -> Iterator[tuple[int, int, str]]:
    for character in page:
        small = character.lower().translate(PUNCTUATION_TRANS)
        if character in SEPARATORS:
            yield ord(character), SEPARATOR, small
        elif character in digits:
            yield ord(character), DIGIT, ""
        elif (simple := _without_marks(small)).isspace():
            yield ord(character), SPACE, ""
        elif simple != character:
            yield ord(character), TEXT, simple


def _without_marks(text: str) -> str:
    if text.isascii():
        return text
    return "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")
