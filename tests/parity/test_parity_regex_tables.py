r"""The tables of `\p{...}` are what the regex engine of the library says; the generator writes them again."""

from __future__ import annotations

import re
import sys
from importlib import import_module, metadata
from pathlib import Path

import pytest
from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

from krill import _native

ROOT = Path(__file__).parents[2]
TABLES = ROOT / "native" / "regex" / "unicode_tables.cpp"
MADE_WITH = "0.23."
NAMES = re.findall(r'^    \{"([a-z0-9]+)", \d+\},$', TABLES.read_text(encoding="utf-8"), re.MULTILINE)
# All of Latin, Greek and Cyrillic, and every 509th code point beyond.
SOME = "".join(
    chr(point) for point in [*range(0x500), *range(0x500, 0x110000, 509)] if not 0xD800 <= point < 0xE000
)

pytestmark = pytest.mark.skipif(
    not metadata.version("tokenizers").startswith(MADE_WITH), reason="tables of another version of tokenizers"
)


def test_every_property_has_the_code_points_that_it_has_in_the_library() -> None:
    assert len(NAMES) > 800
    text = SOME.encode()
    begins = [0]
    for character in SOME:
        begins.append(begins[-1] + len(character.encode()))
    for name in NAMES:
        pattern = rf"\p{{{name}}}+"
        pieces = Split(Regex(pattern), "isolated").pre_tokenize_str(SOME)
        ends = _native.Regex(pattern).split(text, len(SOME)).tolist()
        assert [end & 0x7FFFFFFF for end in ends] == [begins[end] for _, (_, end) in pieces], name
        assert bool(ends[0] >> 31) == (Split(Regex(pattern), "removed").pre_tokenize_str(SOME[0]) != []), name


@pytest.mark.soak
def test_the_generator_writes_the_tables_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every code point for each property: minutes."""
    pytest.importorskip("regex")
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    source = import_module("native.regex.generate_unicode").source
    assert source() == TABLES.read_text(encoding="utf-8"), "run native/regex/generate_unicode.py again"
