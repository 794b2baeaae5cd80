"""Writes form_tables.cpp and character_tables.cpp: what the normalizers of `tokenizers` make of code points.

In: the normalizers of the installed `tokenizers`, asked about every code point. Out: two-stage tables in
which equal pages of 64 code points (those that share all but the last byte of their UTF-8) stand once. Each
component of the library has a Unicode version of its own, so each is asked by itself, and Python's
`unicodedata` never.

    python native/normalize/generate_tables.py        # half a minute
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from tokenizers import normalizers

POINTS = 0x110000
PAGE = 64
HANGUL = range(0xAC00, 0xAC00 + 11172)
LEADS, VOWELS, TAILS = range(0x1100, 0x1113), range(0x1161, 0x1176), range(0x11A8, 0x11C3)
HERE = Path(__file__).parent

# The bits of a word of the table of forms, as in forms.hpp; the lowest six are the combining class's rank.
CANONICAL, COMPATIBLE, CHANGED_C, CHANGED_KC, INSIDE_C, INSIDE_KC, INSIDE_D, INSIDE_KD = (
    64 << n for n in range(8)
)

# As in graphemes.hpp.
GRAPHEMES = [
    *("other", "cr", "lf", "control", "extend", "conjunct_extend", "conjunct_linker", "joiner", "spacing"),
    *("prepend", "lead", "vowel", "tail", "lead_vowel", "lead_vowel_tail", "pictograph", "consonant"),
]

# As in characters.hpp.
REMOVED_BY_CLEANING, SPACE_BY_CLEANING, NONSPACING, COMBINING, WHITESPACE = (1 << n for n in range(5))


def points() -> Iterator[int]:
    yield from range(0xD800)
    yield from range(0xE000, POINTS)


# ---- forms ----


class Forms:
    """Decompositions, combining classes and compositions, as NFD, NFKD, NFC and NFKC show them."""

    def __init__(self) -> None:
        self.nfd, self.nfkd = normalizers.NFD().normalize_str, normalizers.NFKD().normalize_str
        self.nfc, self.nfkc = normalizers.NFC().normalize_str, normalizers.NFKC().normalize_str
        self.canonical = self.decompositions(self.nfd)
        compatible = self.decompositions(self.nfkd)
        self.compatible = {
            point: text for point, text in compatible.items() if self.canonical.get(point) != text
        }
        self.ranks = self.combining_ranks()
        self.pairs = self.compositions()
        self.backward = {second for _, second in self.pairs} | {chr(p) for p in (*VOWELS, *TAILS)}

    @staticmethod
    def decompositions(form: Callable[[str], str]) -> dict[int, str]:
        plain = (point for point in points() if point not in HANGUL)
        return {point: text for point in plain if (text := form(chr(point))) != chr(point)}

    def combining_ranks(self) -> dict[str, int]:
        """The order of combining classes; equal for equal classes, and none for characters of class 0."""

        def before(one: str, other: str) -> bool:
            return self.nfd("a" + other + one) == "a" + one + other

        # U+0345 has the highest class of all, 240, and U+0334 the lowest, 1.
        candidates = (chr(point) for point in points() if point not in self.canonical and point not in HANGUL)
        marks = [mark for mark in candidates if before(mark, "\u0345") or before("\u0334", mark)] + ["\u0334"]
        classes: list[list[str]] = []
        for mark in dict.fromkeys(marks):
            low, high = 0, len(classes)
            while low < high:
                middle = (low + high) // 2
                if before(classes[middle][0], mark):
                    low = middle + 1
                else:
                    high = middle
            if low < len(classes) and not before(mark, classes[low][0]):
                classes[low].append(mark)
            else:
                classes.insert(low, [mark])
        return {mark: rank for rank, marks in enumerate(classes, 1) for mark in marks}

    def compositions(self) -> dict[tuple[str, str], str]:
        """Pairs that become one character; without Hangul, which is arithmetic."""
        pairs = {}
        for point, text in self.canonical.items():
            if len(text) < 2 or self.nfc(text) != chr(point):
                continue
            first = self.nfc(text[:-1])
            assert len(first) == 1 and self.nfc(first + text[-1]) == chr(point)
            pairs[first, text[-1]] = chr(point)
        return pairs

    def word(self, point: int) -> int:
        if point in HANGUL:
            return CANONICAL | COMPATIBLE
        mark = chr(point)
        canonical = self.canonical.get(point, mark)
        compatible = self.compatible.get(point, canonical)
        word = self.ranks.get(mark, 0)
        word |= CANONICAL * (canonical != mark) | COMPATIBLE * (compatible != mark)
        for first, form, changed, inside, inside_decomposed in (
            (canonical[0], self.nfc, CHANGED_C, INSIDE_C, INSIDE_D),
            (compatible[0], self.nfkc, CHANGED_KC, INSIDE_KC, INSIDE_KD),
        ):
            word |= inside_decomposed * (first in self.ranks)
            word |= inside * (first in self.ranks or first in self.backward)
            word |= changed * (form(mark) != mark or first in self.backward)
        return word


# ---- graphemes ----


def counting_normalizer() -> Callable[[str], str]:
    """A charsmap that makes one Z of each cluster below six bytes, and of each character of the others."""
    units = [0] * 768
    units[0] = 256 << 10
    for byte in range(1, 256):
        units[256 + byte] = byte | 1 << 8 | 768 << 10
        units[512 + byte] = 1 << 31
    trie = struct.pack("<768I", *units)
    return normalizers.Precompiled(struct.pack("<I", len(trie)) + trie + b"Z\0").normalize_str


class Graphemes:
    """Which class a character has among grapheme clusters, so far as it shows in Precompiled."""

    ACUTE, JOINER, COPYRIGHT, KA, VIRAMA = "\u0301", "\u200d", "\u00a9", "\u0915", "\u094d"
    LEAD, VOWEL, TAIL, LEAD_VOWEL, LEAD_VOWEL_TAIL = "\u1100", "\u1161", "\u11a8", "\uac00", "\uac01"

    def __init__(self) -> None:
        self.normalize = counting_normalizer()

    def joined(self, before: str, after: str) -> bool:
        """Whether there is no border between them; `after` and an accent are shorter than six bytes."""
        text = before + after + self.ACUTE
        assert len(text.encode()) >= 6 and len((after + self.ACUTE).encode()) < 6
        return len(self.normalize(text)) == len(text)

    def kind(self, point: int) -> str:
        mark = chr(point)
        if mark in "\r\n":
            return "cr" if mark == "\r" else "lf"
        if len(self.normalize(mark + self.ACUTE + self.ACUTE)) == 2:
            return "control"
        if len(self.normalize("a" + mark)) == 1:
            return self.attached(mark)
        if len(self.normalize(mark + "a")) == 1:
            return "prepend"
        if self.joined(mark + self.VIRAMA, self.KA):
            return "consonant"
        if self.joined(mark + self.JOINER, self.COPYRIGHT):
            return "pictograph"
        return self.hangul(mark)

    def attached(self, mark: str) -> str:
        if self.joined(self.COPYRIGHT + mark, self.COPYRIGHT):
            return "joiner"
        conjunct = self.joined(self.KA + mark + self.VIRAMA, self.KA)
        if not self.joined(self.COPYRIGHT + mark + self.JOINER, self.COPYRIGHT):
            assert not conjunct
            return "spacing"
        if self.joined(self.KA + mark, self.KA):
            return "conjunct_linker"
        return "conjunct_extend" if conjunct else "extend"

    def hangul(self, mark: str) -> str:
        if len(mark.encode()) < 3:
            return "other"
        if self.joined(mark, self.LEAD):
            return "lead"
        short = len(mark.encode()) == 3
        if self.joined(mark, self.VOWEL):
            return "vowel" if not short or self.joined(self.LEAD_VOWEL, mark) else "lead_vowel"
        if self.joined(mark, self.TAIL):
            return "tail" if not short or self.joined(self.LEAD_VOWEL_TAIL, mark) else "lead_vowel_tail"
        return "other"


# ---- single characters ----


def traits() -> list[int]:
    cleaning = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False
    ).normalize_str
    unaccented = normalizers.BertNormalizer(
        clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False
    ).normalize_str
    unmarked = normalizers.StripAccents().normalize_str
    stripped = normalizers.Strip().normalize_str
    result = [0] * POINTS
    for point in points():
        mark = chr(point)
        cleaned = cleaning(mark)
        assert cleaned in ("", " ", mark)
        bits = REMOVED_BY_CLEANING * (cleaned == "") | SPACE_BY_CLEANING * (cleaned == " " != mark)
        bits |= NONSPACING * (unaccented(mark) == "") | COMBINING * (unmarked(mark) == "")
        result[point] = bits | WHITESPACE * (stripped(mark) == "")
    return result


def lowercase() -> list[int]:
    """What to add to a code point, and 0 for U+0130, the only one that becomes two characters."""
    lower = normalizers.Lowercase().normalize_str
    result = [0] * POINTS
    for point in points():
        text = lower(chr(point))
        if len(text) == 1:
            result[point] = ord(text) - point
        else:
            assert (point, text) == (0x130, "i\u0307")
    return result


# ---- writing ----


def two_stages(values: Sequence[int]) -> tuple[list[int], list[int]]:
    """For each page of code points its number among the distinct pages, and those, one after the other.

    The first page is that of ASCII. One more stands at the end, for what is no code point: it is all zero.
    """
    numbers: dict[tuple[int, ...], int] = {}
    pages = [tuple(values[begin : begin + PAGE]) for begin in range(0, POINTS, PAGE)] + [(0,) * PAGE]
    page_of = [numbers.setdefault(page, len(numbers)) for page in pages]
    return page_of, [value for page in numbers for value in page]


def array(kind: str, name: str, values: Iterable[int], width: int = 24) -> list[str]:
    values = list(values)
    rows = (values[begin : begin + width] for begin in range(0, len(values), width))
    return [
        f"const {kind} {name}[{len(values)}] = {{",
        *("    " + ", ".join(map(str, row)) + "," for row in rows),
        "};",
        "",
    ]


def staged(kind: str, name: str, values: Sequence[int]) -> list[str]:
    page_of, pages = two_stages(values)
    index = "uint8_t" if max(page_of) < 256 else "uint16_t"
    print(f"{name}: {max(page_of) + 1} pages, index {index}")
    return array(index, f"{name}PageOf", page_of) + array(kind, f"{name}Pages", pages)


def write(name: str, header: str, lines: list[str]) -> None:
    opening = [
        "// Made by generate_tables.py from the normalizers of Hugging Face's tokenizers.",
        f'#include "normalize/{header}"',
        "",
        "namespace krill::normalize {",
        "",
    ]
    (HERE / name).write_text("\n".join([*opening, *lines, "}  // namespace krill::normalize", ""]))


def form_tables() -> list[str]:
    forms = Forms()
    pool = [0]
    places: dict[str, int] = {}

    def place(text: str | None) -> int:
        if text is None:
            return 0
        if text not in places:
            places[text] = len(pool)
            pool.extend([len(text), *map(ord, text)])
        return places[text]

    words = [0 if 0xD800 <= point < 0xE000 else forms.word(point) for point in range(POINTS)]
    assert max(forms.ranks.values()) < 64
    canonical = [place(forms.canonical.get(point)) for point in range(POINTS)]
    compatible = [place(forms.compatible.get(point)) or canonical[point] for point in range(POINTS)]
    assert len(pool) < 1 << 16
    triples = sorted((ord(second), ord(first), ord(whole)) for (first, second), whole in forms.pairs.items())
    return [
        *staged("uint16_t", "kForm", words),
        *staged("uint16_t", "kCanonical", canonical),
        *staged("uint16_t", "kCompatible", compatible),
        *array("uint32_t", "kDecompositions", pool, 16),
        f"const size_t kCompositionCount = {len(triples)};",
        *array(
            "uint32_t",
            "kCompositions",
            (part for second, first, whole in triples for part in (first, second, whole)),
            15,
        ),
    ]


def character_tables() -> list[str]:
    graphemes = Graphemes()
    number = {kind: position for position, kind in enumerate(GRAPHEMES)}
    kinds = [0 if 0xD800 <= point < 0xE000 else number[graphemes.kind(point)] for point in range(POINTS)]
    return [
        *staged("uint8_t", "kTrait", traits()),
        *staged("int32_t", "kLower", lowercase()),
        *staged("uint8_t", "kGrapheme", kinds),
    ]


if __name__ == "__main__":
    write("form_tables.cpp", "forms.hpp", form_tables())
    write("character_tables.cpp", "characters.hpp", character_tables())
