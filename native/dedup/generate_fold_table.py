"""Writes fold_table.cpp: what each character becomes before near-duplicates are looked for.

In: `unicodedata` of the running Python, and `fold_character` of `oracles.dedup`, which is the
definition. Out: runs of code points that change in the same way. Hangul syllables are left out: they come
apart by arithmetic.

    PYTHONPATH=tests python native/dedup/generate_fold_table.py > native/dedup/fold_table.cpp
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from oracles.dedup import DIGIT, SEPARATORS, fold_character

POINTS = 0x110000
HANGUL = range(0xAC00, 0xAC00 + 11_172)
SURROGATES = range(0xD800, 0xE000)


def change_of(point: int) -> tuple[str, int] | None:
    """The kind of change and its number (what is added to the code point, or the place of a pair), if any."""
    character = chr(point)
    folded = fold_character(character)
    if character in SEPARATORS:
        return "separator", 0
    if folded == DIGIT:
        return "digit", 0
    if folded == " ":
        return "space", 0
    if folded == character:
        return None
    if folded == "":
        return "drop", 0
    if len(folded) == 1:
        return "shift", ord(folded) - point
    first, second = folded
    pairs.append((ord(first), ord(second)))
    return "pair", len(pairs) - 1


def runs() -> Iterator[str]:
    """Runs of code points with the same change, as C++ initialisers."""
    first, last, change = 0, -1, None
    for point in range(POINTS + 1):
        silent = point == POINTS or point in HANGUL or point in SURROGATES
        found = None if silent else change_of(point)
        if found != change or point != last + 1 or (found is not None and found[0] == "pair"):
            if change is not None:
                yield f"{{{first:#x}, {last:#x}, k{change[0].title()}, {change[1]}}},"
            first, change = point, found
        last = point


def rows(items: list[str], width: int = 110) -> Iterator[str]:
    line = "   "
    for item in items:
        if len(line) + 1 + len(item) > width:
            yield line
            line = "   "
        line += " " + item
    yield line


pairs: list[tuple[int, int]] = []


def source() -> str:
    changes = list(runs())
    lines = [
        f"// Made by generate_fold_table.py from Unicode {unicodedata.unidata_version}.",
        '#include "dedup/fold.hpp"',
        "",
        "namespace krill::dedup {",
        "",
        "using enum FoldKind;",
        "",
        f"const FoldRun kFoldRuns[{len(changes)}] = {{",
        *rows(changes),
        "};",
        f"const size_t kFoldRunCount = {len(changes)};",
        "",
        f"const uint32_t kFoldPairs[{len(pairs)}][2] = {{",
        *rows([f"{{{first:#x}, {second:#x}}}," for first, second in pairs]),
        "};",
        "",
        "}  // namespace krill::dedup",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(source(), end="")
