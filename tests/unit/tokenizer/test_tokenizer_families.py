"""Tokenizers with the sections of published families are native, with the library's ids, offsets and text."""

from __future__ import annotations

import json
from functools import cache
from itertools import islice
from pathlib import Path

import pytest

from properties import TIMES
from real_text import real_texts
from tokenizer_building import build
from tokenizer_families import FAMILIES
from tokenizer_texts import CODE, EDGES, LANGUAGES, LONG, assert_same, both, noise, with_added

SOME = 40 if TIMES == 1 else 600


@cache
def real() -> list[str]:
    """Of many languages, and some source."""
    return [text[:1500] for text in islice(real_texts(), 0, SOME * 3, 3)]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_gives_what_the_library_gives(name: str, tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    trained = [*LANGUAGES, CODE, *(text[:700] for text in real()[:40])]
    file.write_text(json.dumps(build(FAMILIES[name], trained)), encoding="utf-8")
    library, ours = both(file)
    assert_same(library, ours, [*LANGUAGES, CODE, *EDGES, *LONG, *with_added(library), *noise(SOME)])
    assert_same(library, ours, real())
