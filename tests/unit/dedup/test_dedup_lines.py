"""Documents in lines and paragraphs are held to plain Python."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill import _native
from krill.corpus.buffers import text_buffers
from krill.dedup import keep_lines, line_hashes
from oracles.dedup import reference_keep_pieces, reference_pieces
from properties import tried

Level = Literal["line", "paragraph"]
levels = st.sampled_from(["line", "paragraph"])
texts = st.lists(
    st.sampled_from(["a", "é b", "\n", "\n", " ", "\t", "\r", "\u3000", "\x0b", "x" * 70]), max_size=20
)


def column(texts: list[str]) -> pa.Array:
    return pa.array(texts, pa.large_string())


@given(st.lists(texts.map("".join), max_size=5), levels, st.randoms(use_true_random=False))
@tried(120)
def test_pieces_are_those_of_the_reference(texts: list[str], level: Level, random) -> None:
    pieces = [
        [part.strip() for part, is_piece in reference_pieces(text, level) if is_piece] for text in texts
    ]
    flat = [piece for document in pieces for piece in document]
    hashes, counts = line_hashes(column(texts), level)
    assert counts.tolist() == [len(document) for document in pieces]
    assert hashes.tolist() == _native.hash_documents(*text_buffers(column(flat))).tolist()

    keep = [[random.random() < 0.5 for _ in document] for document in pieces]
    flags = np.array([flag for document in keep for flag in document], np.uint8)
    expected = [reference_keep_pieces(text, level, row) for text, row in zip(texts, keep, strict=True)]
    assert keep_lines(column(texts), flags, level).to_pylist() == expected
    assert keep_lines(column(texts), np.ones_like(flags), level).to_pylist() == texts


def test_a_line_is_the_same_with_and_without_its_newline_or_indent() -> None:
    hashes, counts = line_hashes(column(["one\ntwo\n", "  two", "one\r\n\n"]), "line")
    assert counts.tolist() == [2, 1, 1]
    assert hashes[1].tolist() == hashes[2].tolist()
    assert hashes[0].tolist() == hashes[3].tolist()


def test_a_paragraph_goes_with_the_blank_lines_after_it() -> None:
    text = "\n\nfirst\nstill first\n\n \nsecond\n\nthird"
    _, counts = line_hashes(column([text]), "paragraph")
    assert counts.tolist() == [3]
    kept = keep_lines(column([text]), np.array([0, 1, 0], np.uint8), "paragraph")
    assert kept.to_pylist() == ["\n\nsecond\n\n"]


def test_whitespace_is_never_dropped() -> None:
    kept = keep_lines(column(["a\n\n  \nb"]), np.array([0, 0], np.uint8), "line")
    assert kept.to_pylist() == ["\n  \n"]


@pytest.mark.parametrize(("flags", "fact"), [(1, "more pieces than flags"), (3, "fewer pieces than flags")])
def test_flags_of_another_number_are_refused(flags: int, fact: str) -> None:
    with pytest.raises(ValueError, match=fact):
        keep_lines(column(["a\nb"]), np.ones(flags, np.uint8), "line")


def test_another_level_is_refused() -> None:
    with pytest.raises(ValueError, match="`line` or `paragraph`"):
        _native.piece_hashes(*text_buffers(column(["a"])), "word")
