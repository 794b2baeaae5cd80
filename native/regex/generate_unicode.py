r"""Writes unicode_tables.cpp: what Hugging Face's regex engine means by `\p{...}`, `(?i)`, `\X` and `\y`.

In: the engine of the installed `tokenizers`, asked about every code point. Out: the ranges of each property,
equal ones once, and the names that the engine knows for them; characters that are the same when case is
ignored, and those that are the same as two or three others. Takes ten minutes.

    python -m native.regex.generate_unicode > native/regex/unicode_tables.cpp
"""

from __future__ import annotations

from native.packed_tables import array, packed, packed_ranges
from native.regex.probe_unicode import (
    GRAPHEME_UNITS,
    GRAPHEMES,
    WORD_UNITS,
    WORDS,
    Ranges,
    all_ranges,
    matches,
    property_names,
    ranges_of,
    segment_classes,
)

# In brackets: `[[:punct:]]` is another set than the property Punct.
POSIX = "alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit"
CASED = r"[\p{Changes_When_Casefolded}\p{Changes_When_Casemapped}]"


def folded_classes(cased: str) -> list[tuple[int, ...]]:
    """Characters that are the same when case is ignored, by two and more."""
    text = "\n".join(cased)
    classes = {
        tuple(ord(text[begin]) for begin, _ in matches(rf"(?i:[\x{{{ord(character):x}}}&&[^\n]])", text))
        for character in cased
    }
    assert sum(map(len, classes)) == len(cased) and all(list(each) == sorted(each) for each in classes)
    return sorted(each for each in classes if len(each) > 1)


def folded_sequences(cased: str) -> list[tuple[int, ...]]:
    """Characters that are the same as two or three others when case is ignored, with these."""
    found = []
    for character in cased:
        others = character.casefold()
        if len(others) > 1 and matches(f"(?i:{others})", character) == [(0, 1)]:
            assert matches(f"(?i:[{character}])", others) == [(0, len(others))], others
            found.append((ord(character), *map(ord, others)))
    return found


def named_ranges() -> dict[str, Ranges]:
    """The code points of every property, and of the classes that no pattern can name."""
    regexes = {name: f"\\p{{{name}}}" for name in property_names()}
    regexes |= {f"[:{name}:]": f"[[:{name}:]]" for name in POSIX.split(" ")}
    named = dict(zip(regexes, all_ranges(list(regexes.values())), strict=True))
    named["(word)"] = ranges_of(r"\w")  # outside of brackets, where it is another set than `[[:word:]]`
    for kind, units, examples in (("grapheme", GRAPHEME_UNITS, GRAPHEMES), ("word", WORD_UNITS, WORDS)):
        for name, ranges in segment_classes(kind[0], units, examples).items():
            named[f"({kind} {name})"] = ranges
    return dict(sorted(named.items()))


def source() -> str:
    sets: dict[Ranges, int] = {}
    data: list[int] = []
    names: dict[str, int] = {}
    for name, ranges in named_ranges().items():
        if ranges not in sets:
            sets[ranges] = len(data)
            data += packed_ranges(ranges)
        names[name] = sets[ranges]
    cased = "".join(chr(point) for first, last in ranges_of(CASED) for point in range(first, last + 1))
    classes, sequences = folded_classes(cased), folded_sequences(cased)
    lines = [
        "// Made by generate_unicode.py from the regex engine of Hugging Face's tokenizers.",
        '#include "regex/unicode.hpp"',
        "",
        "namespace krill::regex {",
        "",
        "// clang-format off",
        *array("kPropertyRanges", data),
        f"const size_t kProperties = {len(names)};",
        f"const Property kPropertyNames[{len(names)}] = {{",
        *(f'    {{"{name}", {offset}}},' for name, offset in names.items()),
        "};",
        "",
        f"const size_t kFoldedClasses = {len(classes)};",
        *array("kFoldedClassPoints", packed(n for each in classes for n in (len(each), *each))),
        f"const size_t kFoldedSequences = {len(sequences)};",
        *array("kFoldedSequencePoints", packed(n for each in sequences for n in (len(each), *each))),
        "// clang-format on",
        "",
        "}  // namespace krill::regex",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(source(), end="")
