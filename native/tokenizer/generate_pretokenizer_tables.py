"""Writes pretokenizer_tables.cpp: what Hugging Face's pre-tokenizers take each code point for.

In: the pre-tokenizers of the installed `tokenizers`, asked about every code point. Each has Unicode tables
of its own, of different versions. Out: ranges of code points.

    python -m native.tokenizer.generate_pretokenizer_tables > native/tokenizer/pretokenizer_tables.cpp
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from native.packed_tables import array, packed, packed_ranges
from tokenizers import pre_tokenizers

EVERYTHING = [chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000]
Ranges = list[tuple[int, int]]


def ranges_of(characters: Iterable[str]) -> Ranges:
    ranges: Ranges = []
    for point in map(ord, characters):
        if ranges and ranges[-1][1] + 1 == point:
            ranges[-1] = (ranges[-1][0], point)
        else:
            ranges.append((point, point))
    return ranges


def kept(step: pre_tokenizers.PreTokenizer, others: Iterable[str]) -> set[str]:
    """The characters that a step does not remove."""
    return {character for piece, _ in step.pre_tokenize_str("".join(others)) for character in piece}


def isolated(step: pre_tokenizers.PreTokenizer) -> list[str]:
    """The characters that a step cuts off from letters around them."""
    pieces = step.pre_tokenize_str("".join(f"a{character}" for character in EVERYTHING))
    return sorted({piece for piece, _ in pieces if len(piece) == 1 and piece != "a"})


def words(step: pre_tokenizers.PreTokenizer, others: Iterable[str]) -> Iterator[str]:
    """The characters that are one piece with a letter before them."""
    for character in others:
        if step.pre_tokenize_str(f"a{character}") == [(f"a{character}", (0, 2))]:
            yield character


def scripts() -> list[tuple[int, int, int]]:
    """Ranges and the number of their script, from 1; others belong to any script."""
    step = pre_tokenizers.UnicodeScripts()

    def is_one(text: str) -> bool:
        return len(step.pre_tokenize_str(text)) == 1

    with_script = [character for character in EVERYTHING if step.pre_tokenize_str(character)]
    numbers: list[str] = []
    found: list[tuple[int, int, int]] = []
    for character in with_script:
        point = ord(character)
        if found and is_one(chr(found[-1][1]) + character):
            number = found[-1][2]
            if found[-1][1] + 1 == point:
                found[-1] = (found[-1][0], point, number)
                continue
        else:
            number = next((at for at, other in enumerate(numbers, 1) if is_one(other + character)), 0)
            if number == 0:
                numbers.append(character)
                number = len(numbers)
        found.append((point, point, number))
    return found


def packed_scripts(ranges: list[tuple[int, int, int]]) -> list[int]:
    """As ranges, each followed by its number."""
    numbers = [len(ranges)]
    at = 0
    for first, last, number in ranges:
        numbers += [first - at, last - first, number]
        at = last + 1
    return packed(numbers)


def source() -> str:
    whitespace = kept(pre_tokenizers.WhitespaceSplit(), EVERYTHING)
    spaces = kept(pre_tokenizers.Whitespace(), EVERYTHING)
    sets = {
        "kDigits": isolated(pre_tokenizers.Digits(individual_digits=True)),
        "kPunctuation": isolated(pre_tokenizers.Punctuation()),
        "kWhitespace": [character for character in EVERYTHING if character not in whitespace],
        "kRegexSpaces": [character for character in EVERYTHING if character not in spaces],
        "kRegexWords": list(words(pre_tokenizers.Whitespace(), EVERYTHING)),
    }
    lines = [
        "// Made by generate_pretokenizer_tables.py from Hugging Face's tokenizers.",
        '#include "tokenizer/pretokenizer_tables.hpp"',
        "",
        "namespace krill::tokenizer {",
        "",
        "// clang-format off",
    ]
    for name, characters in sets.items():
        lines += array(name, packed_ranges(ranges_of(characters)))
    lines += array("kScripts", packed_scripts(scripts()))
    return "\n".join([*lines, "// clang-format on", "", "}  // namespace krill::tokenizer", ""])


if __name__ == "__main__":
    print(source(), end="")
