"""Writes traits_tables.cpp: what each code point is to the quality filters, and the known contractions.

In: `word_traits.py`, the one definition of both, and Python's own string methods. Out: a two-stage table in
which equal pages of 128 code points stand once, each code point as a small class, and the traits of each
class; the contractions with the lengths of their words.

    python native/quality/generate_traits.py > native/quality/traits_tables.cpp
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence

import word_traits as of

POINTS = 0x110000
PAGE = 128


def _is_in(characters: frozenset[str]) -> Callable[[str], bool]:
    return characters.__contains__


# In the order of Trait in traits.hpp, from the lowest bit.
TRAITS: dict[str, Callable[[str], bool]] = {
    "space": str.isspace,
    "line_break": lambda c: len(f"{c}.".splitlines()) > 1,
    "alphabetic": str.isalpha,
    "alphanumeric": str.isalnum,
    "decimal": str.isdecimal,
    "symbol": _is_in(of.SYMBOLS),
    "terminal": _is_in(of.TERMINAL),
    "punctuation": of.is_punctuation,
    "front_mark": lambda c: c in of.FRONT_MARKS or of.is_picture(c),
    "back_mark": lambda c: c in of.BACK_MARKS or of.is_picture(c),
    "mark": _is_in(of.MARKS),
    "quote": _is_in(of.QUOTES),
    "currency": _is_in(of.CURRENCIES),
    "picture": of.is_picture,
    "may_be_lower": of.may_be_lower,
    "may_be_upper": of.may_be_upper,
    "wide_mark": _is_in(of.WIDE_MARKS),
    "han": of.is_han,
    "hiragana": of.is_hiragana,
}


_LISTED = of.SYMBOLS | of.FRONT_MARKS | of.BACK_MARKS
_ALL = list(enumerate(TRAITS.values()))
_RANGES = [(bit, TRAITS[name]) for bit, name in enumerate(TRAITS) if name in ("han", "hiragana")]


def traits(point: int) -> int:
    """The traits of a code point as bits; surrogates, which no text has, have none."""
    character = chr(point)
    category = unicodedata.category(character)
    if category == "Cs":
        return 0
    # Of most code points, which mean nothing, only a list or a range can say something.
    nothing = category in ("Cn", "Co") and character not in _LISTED
    return sum([holds(character) << bit for bit, holds in (_RANGES if nothing else _ALL)])


def rows(values: Sequence[object], width: int) -> Iterator[str]:
    for begin in range(0, len(values), width):
        yield "    " + ", ".join(map(str, values[begin : begin + width])) + ","


def character_tables() -> Iterator[str]:
    classes: dict[int, int] = {}
    kinds = [classes.setdefault(traits(point), len(classes)) for point in range(POINTS)]
    pages: dict[tuple[int, ...], int] = {}
    page_of = [
        pages.setdefault(tuple(kinds[begin : begin + PAGE]), len(pages)) for begin in range(0, POINTS, PAGE)
    ]
    assert len(classes) < 256 and len(pages) < 256
    yield "const uint32_t kTraitsOfAscii[128] = {"
    yield from rows([hex(traits(point)) for point in range(128)], 12)
    yield "};"
    yield f"const uint32_t kTraitsOfClass[{len(classes)}] = {{"
    yield from rows([hex(bits) for bits in classes], 12)
    yield "};"
    yield f"const uint8_t kTraitPageOf[{len(page_of)}] = {{"
    yield from rows(page_of, 24)
    yield "};"
    yield f"const uint8_t kTraitPages[{len(pages)} * kTraitPage] = {{"
    for page in pages:
        yield from rows(page, 32)
    yield "};"


def contraction_table() -> Iterator[str]:
    yield "// The bytes of the chunk, and how many of them each of its words has."
    yield f"const Contraction kContractions[{len(of.contractions())}] = {{"
    for chunk, words in of.contractions().items():
        lengths = [len(word.encode()) for word in words] + [0] * (3 - len(words))
        text = "".join(chr(b) if chr(b).isalnum() and b < 128 else f"\\{b:03o}" for b in chunk.encode())
        yield f'    {{"{text}", {{{", ".join(map(str, lengths))}}}}},'
    yield "};"
    yield f"const size_t kContractionCount = {len(of.contractions())};"


def source() -> str:
    lines = [
        "// Made by generate_traits.py from word_traits.py.",
        '#include "quality/contractions.hpp"',
        '#include "quality/traits.hpp"',
        "",
        "namespace krill::quality {",
        "",
        *character_tables(),
        "",
        *contraction_table(),
        "",
        "}  // namespace krill::quality",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(source(), end="")
