"""The native quality filters take whatever comes: hostile offsets, no text, no thresholds."""

from __future__ import annotations

import importlib.util
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill import _native
from krill.config.filters import (
    C4,
    FineWeb,
    GopherQuality,
    GopherRepetition,
    RepeatedLines,
    RepeatedParagraphs,
)

FOLDER = Path(__file__).parents[3] / "native" / "quality"
SECTIONS: list[Any] = [
    GopherRepetition(),
    RepeatedLines(),
    RepeatedParagraphs(),
    C4(),
    GopherQuality(),
    FineWeb(),
]
LOOSE: list[Any] = [
    GopherQuality(min_doc_words=None, min_stop_words=0, max_non_alpha_words_ratio=0, max_symbol_word_ratio=0),
    GopherRepetition(dup_line_frac=0, dup_para_frac=0, dup_line_char_frac=0, dup_para_char_frac=0),
    C4(min_num_sentences=0, filter_no_terminal_punct=False, min_words_per_line=0),
    FineWeb(line_punct_thr=0, short_line_thr=1, char_duplicates_ratio=1, new_line_ratio=100),
]


def filters(sections: list[Any]) -> _native.Quality:
    return _native.Quality([(section.name, section.model_dump()) for section in sections])


def column(texts: list[bytes]) -> tuple[Any, bytes]:
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(text) for text in texts], out=offsets[1:])
    return offsets, b"".join(texts)


@pytest.mark.skipif(unicodedata.unidata_version != "14.0.0", reason="the tables are made with Unicode 14")
def test_the_tables_are_what_their_definition_says() -> None:
    spec = importlib.util.spec_from_file_location("generate_traits", FOLDER / "generate_traits.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (FOLDER / "traits_tables.cpp").read_text(encoding="utf-8") == module.source()


@given(texts=st.lists(st.binary(max_size=80), max_size=5))
def test_bytes_that_are_no_text_do_no_harm(texts: list[bytes]) -> None:
    for sections in (SECTIONS, LOOSE):
        codes, values, text = filters(sections).judge(*column(texts), True)
        assert len(codes) == len(texts)
        assert all(len(measured) == len(texts) for measured in values)
        if text is not None:
            offsets, data = text
            assert offsets[0] == 0 and offsets[-1] == len(data) and (np.diff(offsets) >= 0).all()
    for data in texts:
        for spans in (_native.word_spans(data), _native.sentence_spans(data)):
            begins, sizes = spans[::2].astype(int), spans[1::2].astype(int)
            assert (begins[1:] >= (begins + sizes)[:-1]).all()
            assert (begins + sizes <= len(data)).all()


def test_a_column_may_be_a_slice_and_may_be_empty() -> None:
    texts = [b"first one.", b"second.\nsecond.\nthird.", b"", b"last"]
    offsets, data = column(texts)
    judge = filters([RepeatedLines()]).judge
    codes, _, text = judge(offsets[1:], data, False)
    assert codes.tolist() == [0, 0, 0]
    assert text is not None
    assert text[0].tolist() == [0, 14, 14, 18]
    assert bytes(text[1]) == b"second.\nthird.last"
    assert judge(np.zeros(1, np.int64), b"", True)[0].tolist() == []


@pytest.mark.parametrize("offsets", [[], [0, 5], [3, 1], [-1, 1]])
def test_offsets_that_lead_outside_are_refused(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="offsets"):
        filters(SECTIONS).judge(np.array(offsets, np.int64), b"abc", False)


def test_unknown_filters_and_missing_or_impossible_thresholds_are_refused() -> None:
    with pytest.raises(ValueError, match="there is no filter x"):
        _native.Quality([("x", {})])
    with pytest.raises(KeyError, match="min_chars"):
        _native.Quality([("repeated_lines", {})])
    options = {**GopherRepetition().model_dump(), "top_n_grams": [(0, 0.5)]}
    with pytest.raises(ValueError, match="at least one word"):
        _native.Quality([("gopher_repetition", options)])


def test_threads_share_one_object_also_for_large_documents() -> None:
    large = b"".join(b"Line %d of a large document, unlike the others.\n" % n for n in range(9000))
    offsets, data = column([large, large + large, b"small.\n" * 3, large])
    quality = filters(LOOSE)
    alone = [
        array.tolist() for array in (lambda found: [found[0], *found[1]])(quality.judge(offsets, data, True))
    ]
    with ThreadPoolExecutor(2) as pool:
        for codes, values, _ in pool.map(lambda _: quality.judge(offsets, data, True), range(4)):
            assert [codes.tolist(), *(measured.tolist() for measured in values)] == alone
