r"""Writes unicode_tables.cpp: what Hugging Face's regex engine means by `\p{...}` and by ignoring case.

In: the engine of the installed `tokenizers`, asked about every code point; names to try from the `regex`
package. Out: the ranges of each property, equal ones once, and the names that the engine knows for them;
characters that are the same when case is ignored, and those that are the same as two or three others.

    python -m native.regex.generate_unicode > native/regex/unicode_tables.cpp
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import regex._regex_core as regex_names
from native.packed_tables import array, packed, packed_ranges
from tokenizers import Regex, pre_tokenizers

POINTS = 0x110000
STEP = 0x8000
EVERYTHING = [
    "".join(chr(point) for point in range(begin, begin + STEP) if not 0xD800 <= point < 0xE000)
    for begin in range(0, POINTS, STEP)
]
# In brackets: `[[:punct:]]` is another set than the property Punct.
POSIX = "alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit"
Ranges = tuple[tuple[int, int], ...]


def matches(regex: str, text: str) -> list[tuple[int, int]]:
    """Where the matches of a regex begin and end."""
    split = pre_tokenizers.Split(Regex(regex), behavior="removed", invert=True)
    return [place for _, place in split.pre_tokenize_str(text)]


def ranges_of(regex: str) -> Ranges:
    """The code points that a regex for one character matches."""
    found: list[tuple[int, int]] = []
    for text in EVERYTHING:
        for begin, end in matches(f"{regex}+", text):
            first, last = ord(text[begin]), ord(text[end - 1])
            if found and found[-1][1] + 1 == first:
                first = found.pop()[0]
            found.append((first, last))
    return tuple(found)


def is_known(name: str) -> bool:
    try:
        Regex(f"\\p{{{name}}}")
    except Exception:  # the library raises plain Exception
        return False
    return True


def candidates() -> Iterator[str]:
    """Names that the engine may know, as it writes them: lower case, without spaces, `-` and `_`."""
    for name, (_, values) in regex_names.PROPERTIES.items():
        for value in [name, *map(str, values)]:
            plain = re.sub("[-_ ]", "", value).lower()
            yield plain
            yield f"in{plain}"


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


def source() -> str:
    sets: dict[Ranges, int] = {}
    data: list[int] = []
    names: dict[str, int] = {}
    regexes = {name: f"\\p{{{name}}}" for name in filter(is_known, set(candidates()))}
    regexes |= {f"[:{name}:]": f"[[:{name}:]]" for name in POSIX.split(" ")}
    regexes["(word)"] = r"\w"  # outside of brackets, where it is another set than `[[:word:]]`
    for name, regex in sorted(regexes.items()):
        ranges = ranges_of(regex)
        if ranges not in sets:
            sets[ranges] = len(data)
            data += packed_ranges(ranges)
        names[name] = sets[ranges]
    cased = "".join(
        chr(point)
        for first, last in ranges_of(r"[\p{Changes_When_Casefolded}\p{Changes_When_Casemapped}]")
        for point in range(first, last + 1)
    )
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
