"""Repair is ftfy's: with every option, documents come out as from `ftfy.fix_text`, also those that a native
scan found to need no look; and control characters are removed as its own function removes them."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill import _native
from krill.config import filters
from krill.corpus.buffers import text_buffers
from krill.corpus.documents import Documents
from krill.text.control_chars import CONTROL_CHARS, WithoutControlChars
from krill.text.ftfy_repair import FtfyRepair, changing_points
from krill.text.point_sets import point_set
from peers import peer
from properties import tried

ftfy = peer("ftfy")
badness = peer("ftfy.badness")

OPTIONS: list[dict[str, Any]] = [
    {},
    {"unescape_html": False, "remove_control_chars": False, "remove_terminal_escapes": False},
    {
        "fix_latin_ligatures": True,
        "fix_character_width": True,
        "uncurl_quotes": True,
        "fix_line_breaks": True,
    },
    {"fix_encoding": False, "fix_c1_controls": False, "unescape_html": True},
    {"normalization": "NFC"},
    {"normalization": "NFKD"},
]
WORDS = [
    "größe",
    "naïve",
    "日本語",
    "текст",
    "“quoted”",
    "ﬁne",
    "&amp;",
    "&lt;",
    "\x1b[31m",
    "…",
    "\x85",
    "é",
    "a<b",
]
WORDS.append("\uff46\uff55\uff4c\uff4c")


def documents_of(texts: list[str]) -> Documents:
    columns = [pa.array(texts, pa.large_string()), pa.array(range(len(texts)), pa.uint64())]
    return Documents(pa.RecordBatch.from_arrays(columns, ["text", "position"]), {})


def fixed(text: str, options: dict[str, Any]) -> str:
    section = filters.Ftfy(**options).model_dump(exclude={"name"})
    result: str = ftfy.fix_text(text, ftfy.TextFixerConfig(explain=False, **section))
    return result


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_documents_come_out_as_from_ftfy(options: dict[str, Any]) -> None:
    chance = random.Random(5)
    texts = []
    for _ in range(400):
        text = " ".join(chance.choices([*WORDS, "plain", "words", "of", "ASCII\n"], k=chance.randint(1, 6)))
        if chance.random() < 0.4:
            for encoding in chance.choices(["latin-1", "windows-1252", "windows-1251", "macroman"], k=1):
                text = text.encode().decode(encoding, "replace")
        texts.append(text)
    result = FtfyRepair(filters.Ftfy(**options)).apply(documents_of(texts))
    assert result.batch["text"].to_pylist() == [fixed(text, options) for text in texts]
    assert result.counts["text_repaired"] > 20


@cache
def looked_for(kind: int) -> bytes:
    return point_set(changing_points(filters.Ftfy(**OPTIONS[kind])))


@tried(300)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), min_size=1, max_size=10),
    st.sampled_from(range(len(OPTIONS))),
)
def test_what_the_scan_passes_ftfy_leaves_alone(texts: list[str], kind: int) -> None:
    found = _native.has_points(*text_buffers(pa.array(texts, pa.large_string())), looked_for(kind))
    for text, looked_at in zip(texts, found, strict=True):
        assert looked_at or fixed(text, OPTIONS[kind]) == text


def test_every_character_that_the_scan_passes_is_left_alone_by_itself_and_beside_others() -> None:
    for kind in (0, 4):
        points = changing_points(filters.Ftfy(**OPTIONS[kind]))
        passed = "".join(chr(p) for p in range(0x110000) if p not in points and not 0xD800 <= p < 0xE000)
        assert not badness.is_bad(passed)
        assert fixed(passed, OPTIONS[kind]) == passed


def test_control_characters_are_those_of_ftfy() -> None:
    fixes = __import__("ftfy.fixes", fromlist=["fixes"])
    assert set(CONTROL_CHARS) == set(fixes.CONTROL_CHARS)
    texts = ["".join(map(chr, range(0x300))), "a\ufeffb\u206ac\ufffbd", ""]
    result = WithoutControlChars().apply(documents_of(texts))
    assert result.batch["text"].to_pylist() == [fixes.remove_control_chars(text) for text in texts]
