"""Spaces that are left to the model, which reads them as U+2581: when, and that nothing else comes out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from krill.tokenizer.marks import MARK, pre_tokenizer_left, unmarked_steps
from tokenizer_building import Family, build, token
from tokenizer_texts import CODE, EDGES, LANGUAGES, LONG, assert_same, both, noise, with_added

REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": MARK}
PREPEND = {"type": "Prepend", "prepend": MARK}
NEVER_FIRES = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
BYTE_FALLBACK = {"byte_fallback": True, "fuse_unk": True, "unk_token": "<unk>"}


def sequence(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "normalizers": list(steps)}


def metaspace(scheme: str, split: bool = False, mark: str = MARK) -> dict[str, Any]:
    return {"type": "Metaspace", "replacement": mark, "prepend_scheme": scheme, "split": split}


def has_unmarked(normalizer: Any, pre_tokenizer: Any = None, **model: Any) -> bool:
    section = {"type": "BPE", **model}
    return (
        unmarked_steps({"normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "model": section})
        is not None
    )


@pytest.mark.parametrize(
    ("normalizer", "pre_tokenizer"),
    [
        (REPLACE, None),
        (sequence(PREPEND, REPLACE), None),
        (sequence({"type": "NFC"}, sequence(REPLACE)), None),
        (REPLACE, NEVER_FIRES),
        (None, metaspace("first")),
        ({"type": "NFKC"}, metaspace("always")),
        (None, metaspace("never")),
    ],
)
def test_the_last_step_that_writes_marks_is_left_out(normalizer: Any, pre_tokenizer: Any) -> None:
    assert has_unmarked(normalizer, pre_tokenizer)
    assert not has_unmarked(normalizer, pre_tokenizer, ignore_merges=True)
    assert not has_unmarked(normalizer, pre_tokenizer, end_of_word_suffix="</w>")
    assert not has_unmarked(normalizer, pre_tokenizer, type="WordPiece")


@pytest.mark.parametrize(
    ("normalizer", "pre_tokenizer"),
    [
        (None, None),
        (sequence(REPLACE, PREPEND), None),
        ({**REPLACE, "content": "_"}, None),
        ({**REPLACE, "pattern": {"String": "  "}}, None),
        ({**REPLACE, "pattern": {"Regex": " "}}, None),
        (REPLACE, {"type": "Digits", "individual_digits": True}),
        (REPLACE, {**NEVER_FIRES, "invert": True}),
        (None, metaspace("first", split=True)),
        (None, metaspace("first", mark="_")),
    ],
)
def test_spaces_are_not_left_where_another_step_sees_them(normalizer: Any, pre_tokenizer: Any) -> None:
    assert not has_unmarked(normalizer, pre_tokenizer)


def test_a_split_at_spaces_behind_marks_is_left_out() -> None:
    digits = {"type": "Digits", "individual_digits": True}
    steps = {"type": "Sequence", "pretokenizers": [NEVER_FIRES, digits]}
    assert pre_tokenizer_left(REPLACE, steps) == {"type": "Sequence", "pretokenizers": [digits]}
    assert pre_tokenizer_left(None, steps) is steps


@pytest.mark.parametrize("added", [(), (token("<x>"), token("\n", "rstrip")), (token("é f", "normalized"),)])
@pytest.mark.parametrize(
    ("normalizer", "pre_tokenizer"),
    [
        (REPLACE, NEVER_FIRES),
        (sequence(PREPEND, REPLACE), None),
        (sequence({"type": "NFKC"}, REPLACE), None),
        (None, metaspace("first")),
        ({"type": "NFKC"}, metaspace("always")),
        (None, metaspace("never")),
    ],
)
def test_ids_offsets_and_text_are_the_librarys(
    normalizer: Any, pre_tokenizer: Any, added: tuple[dict[str, Any], ...], tmp_path: Path
) -> None:
    flags = {**BYTE_FALLBACK, "with": [" ", " a", f"{MARK} b"]}
    family = Family("characters", pre_tokenizer, normalizer, added=added, flags=flags)
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(build(family, [*LANGUAGES, CODE])), encoding="utf-8")
    library, ours = both(file)
    spaced = ["  a   b ", f"{MARK} a {MARK}", " \n b", "x " * 50, " ", MARK, f"é f {MARK}漢 字  "]
    assert_same(library, ours, [*spaced, *LANGUAGES, CODE, *EDGES, *LONG, *with_added(library), *noise(40)])
