r"""The tables of `\p{...}` are what the regex engine of the library says; the generator writes them again."""

from __future__ import annotations

import re
import sys
from importlib import import_module, metadata
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

from krill import _native

ROOT = Path(__file__).parents[2]
TABLES = ROOT / "native" / "regex" / "unicode_tables.cpp"
MADE_WITH = "0.23."
NAMES = re.findall(r'^    \{"([a-z0-9]+)", \d+\},$', TABLES.read_text(encoding="utf-8"), re.MULTILINE)
POINTS = np.array([point for point in range(0x110000) if not 0xD800 <= point < 0xE000])
TEXT = "".join(map(chr, POINTS))
# Where each code point ends in the UTF-8.
ENDS = np.cumsum(1 + (POINTS >= 0x80) + (POINTS >= 0x800) + (POINTS >= 0x10000))
# The library takes a second to read all code points, whatever it is asked about them.
AT_ONCE = 150

pytestmark = pytest.mark.skipif(
    not metadata.version("tokenizers").startswith(MADE_WITH), reason="tables of another version of tokenizers"
)


def difference(name: str) -> str:
    """A class of the code points that have a property here and not there, or there and not here."""
    # In brackets, as there: `\p{word}` is another set outside of them.
    found = _native.Regex(rf"[\p{{{name}}}]+").split(TEXT.encode(), len(TEXT))
    last = np.searchsorted(ENDS, found & 0x7FFFFFFF)
    first = np.concatenate([[0], last[:-1] + 1])
    members = ["", ""]
    for begin, end, is_gap in zip(POINTS[first], POINTS[last], found >> 31, strict=True):
        members[is_gap] += rf"\x{{{begin:x}}}-\x{{{end:x}}}"
    sides = zip(members, (rf"\P{{{name}}}", rf"\p{{{name}}}"), strict=True)
    return "".join(f"[{side}&&{there}]" for side, there in sides if side)


def test_every_property_has_the_code_points_that_it_has_in_the_library() -> None:
    assert len(NAMES) > 800
    for begin in range(0, len(NAMES), AT_ONCE):
        names = NAMES[begin : begin + AT_ONCE]
        wrong = Split(Regex(f"[{''.join(map(difference, names))}]+"), "removed", invert=True)
        assert wrong.pre_tokenize_str(TEXT) == [], names


@pytest.mark.soak
def test_the_generator_writes_the_tables_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every code point for each property and for each class of text segments: minutes."""
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    source = import_module("native.regex.generate_unicode").source
    assert source() == TABLES.read_text(encoding="utf-8"), "run native/regex/generate_unicode.py again"
