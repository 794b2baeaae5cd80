"""Writes unicode_tables.cpp: case and normal form C of each code point, as this Python knows them.

In: `str` and `unicodedata`, asked about every code point, because py3langid prepares text with them. Out: a
two-stage table of traits in which equal pages stand once, and sorted lists of mappings.

    python native/language/generate_unicode.py > native/language/unicode_tables.cpp
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator

POINTS = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]
PAGE = 128
# Characters that a C++ string holds as they are, to write the numbers of traits with.
SYMBOLS = [chr(code) for code in range(35, 127) if chr(code) not in "\\?"]


def traits(point: int) -> tuple[int, int]:
    """The flags of `Trait` in unicode.hpp, and the canonical combining class."""
    character = chr(point)
    # What stands after a capital sigma decides its lower case: Python shows in no other way which characters
    # have case and which are looked past.
    before_nothing = ("A\u03a3" + character).lower()[1] == "\u03c3"
    before_letter = ("A\u03a3" + character + "A").lower()[1] == "\u03c3"
    flags = (
        character.isupper(),
        character.islower() or (character.istitle() and not character.isupper()),
        before_nothing,
        before_letter and not before_nothing,
        not unicodedata.is_normalized("NFC", character) or composes_backwards(point),
    )
    combining = unicodedata.combining(character)
    return sum(flag << bit for bit, flag in enumerate(flags)), combining


SECONDS: set[int] = set()


def composes_backwards(point: int) -> bool:
    """Whether a character may become one with what stands before it."""
    return point in SECONDS or 0x1161 <= point < 0x1176 or 0x11A8 <= point < 0x11C3


def decompositions() -> Iterator[tuple[int, int, int, bool]]:
    """Code point, the one or two that it is made of (0 = no second), and whether these compose to it."""
    for point in POINTS:
        mapping = unicodedata.decomposition(chr(point))
        if mapping and not mapping.startswith("<"):
            parts = [int(part, 16) for part in mapping.split()]
            composed = len(parts) == 2 and unicodedata.normalize("NFC", "".join(map(chr, parts))) == chr(
                point
            )
            yield point, parts[0], parts[1] if len(parts) == 2 else 0, composed


def lower_cases() -> Iterator[tuple[int, int]]:
    """Code point and its lower case, but for the one that becomes two characters."""
    for point in POINTS:
        lower = chr(point).lower()
        if lower != chr(point) and len(lower) == 1:
            yield point, ord(lower)


def table(kind: str, name: str, entries: Iterable[tuple[object, ...]], width: int) -> list[str]:
    """A sorted list of records, and how many they are."""
    cells = ["{" + ", ".join(map(str, entry)) + "}" for entry in sorted(entries)]
    rows = ["    " + ", ".join(cells[begin : begin + width]) + "," for begin in range(0, len(cells), width)]
    return [
        f"const {kind} {name}[] = {{",
        *rows,
        "};",
        f"const size_t {name}Size = {len(cells)};",
        "",
    ]


def trait_tables() -> list[str]:
    numbers: dict[tuple[int, int], int] = {}
    everything = bytearray(0x110000)
    for point in POINTS:
        everything[point] = numbers.setdefault(traits(point), len(numbers))
    distinct: dict[bytes, int] = {}
    pages = [bytes(everything[begin : begin + PAGE]) for begin in range(0, len(everything), PAGE)]
    page_of = [distinct.setdefault(page, len(distinct)) for page in pages]
    lines = [f"const uint8_t kUnicodePageOf[{len(page_of)}] = {{"]
    assert len(distinct) <= 256 and len(numbers) <= len(SYMBOLS)
    for begin in range(0, len(page_of), 24):
        lines.append("    " + ", ".join(map(str, page_of[begin : begin + 24])) + ",")
    lines += [
        "};",
        "",
        "// One character for each code point: the number of its traits, counted from `#`.",
        f"const char kUnicodePages[{len(distinct)} * kUnicodePage + 1] =",
    ]
    for page in distinct:
        lines.append('    "' + "".join(SYMBOLS[number] for number in page) + '"')
    lines[-1] += ";"
    by_symbol = {SYMBOLS[number]: trait for trait, number in numbers.items()}
    symbols = [by_symbol.get(chr(code), (0, 0)) for code in range(35, 127)]
    cells = [f"{{{flags}, {combining}}}" for flags, combining in symbols]
    lines += ["", "const Traits kUnicodeTraits[] = {"]
    lines += ["    " + ", ".join(cells[begin : begin + 10]) + "," for begin in range(0, len(cells), 10)]
    return [*lines, "};", ""]


def source() -> str:
    parts = list(decompositions())
    pairs = [(first, second, point) for point, first, second, composed in parts if composed]
    SECONDS.update(second for _, second, _ in pairs)
    lines = [
        f"// Made by generate_unicode.py from Python's Unicode {unicodedata.unidata_version}.",
        '#include "language/unicode.hpp"',
        "",
        "namespace krill::language {",
        "",
        *trait_tables(),
        *table("Lower", "kLower", lower_cases(), 10),
        *table("Decomposition", "kDecompositions", [part[:3] for part in parts], 6),
        *table("Composition", "kCompositions", pairs, 6),
        "}  // namespace krill::language",
    ]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    print(source(), end="")
