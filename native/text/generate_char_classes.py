"""Writes char_class_tables.cpp: what Hugging Face's regex engine takes each code point for.

In: the engine of the installed `tokenizers`, asked about every code point. Out: a two-stage table in which
equal pages of 128 code points stand once. The engine is asked rather than Python's `unicodedata`, because
what counts is where the peer splits, and their Unicode versions differ.

    python native/text/generate_char_classes.py > native/text/char_class_tables.cpp
"""

from __future__ import annotations

from collections.abc import Iterator

from tokenizers import Regex, pre_tokenizers

POINTS = 0x110000
PAGE = 128
STEP = 8192

# In the order of CharClass in char_class.hpp. Later ones win where they overlap, as `\s` and `[\r\n]` do.
CLASSES = {
    "mark": r"\p{M}",
    "letter": r"[\p{Lm}\p{Lo}]",
    "upper": r"[\p{Lu}\p{Lt}]",
    "lower": r"\p{Ll}",
    "number": r"\p{N}",
    "space": r"\s",
    "newline": r"[\r\n]",
}


def matching(regex: str, characters: str) -> str:
    """Those of some characters that a regex for one character matches."""
    remove = pre_tokenizers.Split(Regex(regex), behavior="removed")
    matched: list[str] = []
    for begin in range(0, len(characters), STEP):
        text = characters[begin : begin + STEP]
        others = {character for word, _ in remove.pre_tokenize_str(text) for character in word}
        matched += (character for character in text if character not in others)
    return "".join(matched)


def probe() -> bytes:
    """The class of every code point; 0 is `other`, and so are surrogates, which no text has."""
    classes = bytearray(POINTS)
    everything = "".join(chr(point) for point in range(POINTS) if not 0xD800 <= point < 0xE000)
    classified = matching(r"[\p{L}\p{M}\p{N}\s]", everything)
    for number, regex in enumerate(CLASSES.values(), 1):
        for character in matching(regex, classified):
            classes[ord(character)] = number
    return bytes(classes)


def two_stages(classes: bytes) -> tuple[list[int], list[bytes]]:
    """For each page of code points its number among the distinct pages, and those."""
    numbers: dict[bytes, int] = {}
    pages = [classes[begin : begin + PAGE] for begin in range(0, POINTS, PAGE)]
    page_of = [numbers.setdefault(page, len(numbers)) for page in pages]
    return page_of, list(numbers)


def rows(values: list[int], width: int) -> Iterator[str]:
    for begin in range(0, len(values), width):
        yield "    " + ", ".join(map(str, values[begin : begin + width])) + ","


def source(classes: bytes) -> str:
    page_of, pages = two_stages(classes)
    lines = [
        "// Made by generate_char_classes.py from the regex engine of Hugging Face's tokenizers.",
        '#include "text/char_class.hpp"',
        "",
        "namespace krill::text {",
        "",
        f"const uint8_t kCharPageOf[{len(page_of)}] = {{",
        *rows(page_of, 24),
        "};",
        "",
        "// One digit for each code point, the number of its class.",
        f"const char kCharPages[{len(pages)} * kCharPage + 1] =",
    ]
    for page in pages:
        digits = "".join(map(str, page))
        lines += [f'    "{digits[:64]}"', f'    "{digits[64:]}"']
    lines[-1] += ";"
    return "\n".join([*lines, "", "}  // namespace krill::text", ""])


if __name__ == "__main__":
    print(source(probe()), end="")
