"""Every quality filter is held to its reference, alone and in a row, whatever the thresholds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill.config.filters import (
    C4,
    FineWeb,
    GopherQuality,
    GopherRepetition,
    RepeatedLines,
    RepeatedParagraphs,
)
from krill.corpus.documents import Documents
from krill.errors import ConfigError
from krill.text.quality import JUDGED, REASONS, length_step, quality_step, scratch_bytes
from oracles.quality import reference_filter
from oracles.words import reference_words
from properties import tried

LINES = [
    *(
        "",
        " ",
        "\t",
        "-",
        "- a list item",
        "• another one",
        "...",
        "…",
        "It goes on...",
        "and on…  ",
        "# Heading #",
    ),
    *(
        "The krill swims with the whales.",
        "the the the the",
        "A B",
        'I said: "no"',
        "What? Why! That.",
        "x" * 12,
    ),
    *("[1] See [edit] this [citation needed] and [٣٤] that [x].", "Please enable JavaScript.", "{ code }"),
    *(
        "Lorem IPSUM dolor.",
        "We use coo\u212aies here, of course.",
        "Read the Terms of Use, please.",
        "多くの言葉。",
    ),
    *(
        "to be and to have",
        "ab c d e f g h i j k l m",
        "a bc d e f g h i j k l m",
        "é è ê ë",
        "end",
        "one two.",
    ),
]
line = st.one_of(st.sampled_from(LINES), st.text("ab .\n#-…é", max_size=12))
breaks = st.sampled_from(["\n", "\n", "\n", "\n\n", "\n\n\n", "\r\n", "\x0b", "\x85", "\u2028", " ", ""])
texts = st.lists(st.tuples(line, breaks), max_size=25).map(lambda parts: "".join(a + b for a, b in parts))
ratio = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1))
ratio_or_off = st.one_of(st.none(), ratio)
n_grams = st.lists(st.tuples(st.integers(1, 8), ratio), max_size=4)
SECTIONS = st.one_of(
    st.builds(
        GopherQuality,
        min_doc_words=st.sampled_from([None, 0, 3, 10]),
        max_doc_words=st.sampled_from([None, 0, 20, 100]),
        min_avg_word_length=st.sampled_from([None, 0, 0.1, 2.0, 3.0]),
        max_avg_word_length=st.sampled_from([None, 0, 3.0, 4.0, 20.0]),
        max_symbol_word_ratio=ratio_or_off,
        max_bullet_lines_ratio=ratio_or_off,
        max_ellipsis_lines_ratio=ratio_or_off,
        max_non_alpha_words_ratio=st.sampled_from([None, 0.0, 0.5, 0.8]),
        min_stop_words=st.sampled_from([None, 0, 1, 2, 3]),
        stop_words=st.sampled_from([("the", "with"), ("a", "é", "A", "goes"), ()]),
    ),
    st.builds(
        GopherRepetition,
        dup_line_frac=ratio_or_off,
        dup_para_frac=ratio_or_off,
        dup_line_char_frac=ratio_or_off,
        dup_para_char_frac=ratio_or_off,
        top_n_grams=n_grams,
        dup_n_grams=n_grams,
    ),
    st.builds(
        C4,
        split_paragraph=st.booleans(),
        remove_citations=st.booleans(),
        filter_no_terminal_punct=st.booleans(),
        min_num_sentences=st.integers(-1, 4),
        min_words_per_line=st.integers(-1, 4),
        max_word_length=st.sampled_from([-1, 0, 5, 11, 1000]),
        filter_lorem_ipsum=st.booleans(),
        filter_javascript=st.booleans(),
        filter_curly_bracket=st.booleans(),
        filter_policy=st.booleans(),
    ),
    st.builds(
        FineWeb,
        line_punct_thr=ratio,
        line_punct_exclude_zero=st.booleans(),
        stop_chars=st.sampled_from([None, (), ("end", "é"), ("m",)]),
        short_line_thr=ratio,
        short_line_length=st.sampled_from([0, 3, 12, 30]),
        char_duplicates_ratio=ratio,
        new_line_ratio=st.floats(0.1, 2),
    ),
    st.builds(RepeatedLines, min_chars=st.integers(0, 4)),
    st.builds(RepeatedParagraphs, min_chars=st.integers(0, 4)),
)


def documents_of(texts: Sequence[str], rejected: bool = False) -> Documents:
    columns = [pa.array(texts, pa.large_string()), pa.array(range(len(texts)), pa.uint64())]
    batch = pa.RecordBatch.from_arrays(columns, ["text", "position"])
    return Documents(batch, {"too_short": 3}, () if rejected else None)


def reference_row(text: str, sections: Sequence[Any]) -> tuple[str | None, str, list[float]]:
    """Reason, text that is left, and all values of a text, through filters in a row."""
    left = text
    values: list[float] = []
    for section in sections:
        verdict = reference_filter(left, section)
        if verdict.reason is not None:
            return verdict.reason, text, []
        found = verdict.values
        if isinstance(section, GopherQuality):
            # The number and the mean are judged twice each, against both limits.
            found = [found[1], found[2], *found[4:]]
        values += found
        left = verdict.text
    return None, left, values


@given(rows=st.lists(texts, min_size=1, max_size=6), sections=st.lists(SECTIONS, min_size=1, max_size=3))
@tried(80)
def test_filters_in_a_row_decide_change_and_measure_as_their_references(
    rows: list[str], sections: list[Any]
) -> None:
    result = quality_step(sections, statistics=True).apply(documents_of(rows, rejected=True))
    expected = [reference_row(text, sections) for text in rows]
    kept = [(row, text, values) for row, (reason, text, values) in enumerate(expected) if reason is None]
    result.batch.validate(full=True)
    assert result.batch["position"].to_pylist() == [row for row, _, _ in kept]
    assert result.batch["text"].to_pylist() == [text for _, text, _ in kept]
    measured = [[column[i].as_py() for column in result.batch.columns[2:]] for i in range(len(kept))]
    for found, (_, _, values) in zip(measured, kept, strict=True):
        assert len(found) == len(values)
        assert all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(found, values, strict=True))
    reasons = [reason for reason, _, _ in expected if reason is not None]
    assert result.counts == {"too_short": 3, **{reason: reasons.count(reason) for reason in reasons}}
    assert result.rejected is not None
    dropped = [row for batch in result.rejected for row in batch.to_pylist()]
    assert [(row["text"], row["reason"]) for row in dropped] == [
        (text, reason) for text, (reason, _, _) in zip(rows, expected, strict=True) if reason is not None
    ]


@tried(50)
@given(rows=st.lists(texts, min_size=1, max_size=6), section=SECTIONS, cut=st.integers(0, 6))
def test_what_is_not_measured_and_how_batches_are_cut_make_no_difference(
    rows: list[str], section: Any, cut: int
) -> None:
    whole = (
        quality_step([section], statistics=True).apply(documents_of(rows)).batch.select(["text", "position"])
    )
    step = quality_step([section], statistics=False)
    batch = documents_of(rows).batch
    pieces = [step.apply(Documents(piece)).batch for piece in (batch.slice(0, cut), batch.slice(cut))]
    assert pa.concat_batches(pieces) == whole


def test_what_nothing_drops_or_changes_is_the_same_batch() -> None:
    documents = documents_of(["some text", "other text"])
    assert quality_step([RepeatedLines()], statistics=False).apply(documents) is documents


def test_statistics_are_columns_of_their_kind_with_names_of_their_own() -> None:
    text = "The krill swims with the whales, and all of them have a good time in the sea.\n" * 1
    documents = documents_of([text])
    loose = GopherQuality(min_doc_words=1)
    batch = quality_step([loose, loose, FineWeb()], statistics=True).apply(documents).batch
    assert batch.schema.names[2:6] == [
        "gopher_words",
        "gopher_mean_word_length",
        "gopher_hash_ratio",
        "gopher_ellipsis_ratio",
    ]
    assert {"gopher_words_2", "gopher_stop_words_2", "fineweb_list_ratio"} <= set(batch.schema.names)
    assert batch.schema.field("gopher_words").type == pa.uint32()
    assert batch.schema.field("gopher_mean_word_length").type == pa.float64()
    assert batch["gopher_words"].to_pylist() == [17]
    assert batch["gopher_stop_words"].to_pylist() == [5]
    again = quality_step([loose], statistics=True).apply(Documents(batch)).batch
    assert again.schema.names[-1] == "gopher_stop_words_3"


@tried(50)
@given(
    rows=st.lists(texts, max_size=5),
    min_words=st.integers(0, 10),
    max_words=st.one_of(st.none(), st.integers(1, 30)),
    max_chars=st.one_of(st.none(), st.integers(1, 200)),
)
def test_lengths_are_limited_in_words_and_characters(
    rows: list[str], min_words: int, max_words: int | None, max_chars: int | None
) -> None:
    step = length_step(min_words, max_words, max_chars)
    if min_words == 0 and max_words is max_chars is None:
        assert step is None
        return
    assert step is not None

    def reason(text: str) -> str | None:
        if max_chars is not None and len(text) > max_chars:
            return "too_long"
        words = len(reference_words(text))
        if words < min_words:
            return "too_few_words"
        return "too_many_words" if max_words is not None and words > max_words else None

    result = step.apply(documents_of(rows))
    reasons = [reason(text) for text in rows]
    assert result.batch["text"].to_pylist() == [
        text for text, why in zip(rows, reasons, strict=True) if why is None
    ]
    assert result.counts == {"too_short": 3, **{why: reasons.count(why) for why in reasons if why}}


def test_every_reason_has_words() -> None:
    grams = [(n, 0.5) for n in range(1, 101)]
    sections = [GopherRepetition(top_n_grams=grams, dup_n_grams=grams), GopherQuality(), C4(), FineWeb()]
    step: Any = quality_step(sections, statistics=False)
    lengths: Any = length_step(1, 2, 3)
    assert set(step.filters.reasons) | set(lengths.filters.reasons) == set(REASONS)


def test_reasons_of_a_filter_that_stands_twice_count_once_and_too_many_statistics_are_refused() -> None:
    grams = [(n, 0.5) for n in range(1, 101)]
    repetition = GopherRepetition(top_n_grams=grams, dup_n_grams=grams)
    sections = [repetition, C4(), FineWeb(), GopherQuality(), repetition]
    quality_step(sections, statistics=False)
    with pytest.raises(ConfigError, match="more than 512 things"):
        quality_step([repetition] * 3, statistics=False)


def test_scratch_grows_with_the_document_and_threads_share_the_large_one() -> None:
    sections = [model() for model in JUDGED]
    small = 256 * 1024
    one = scratch_bytes(sections, small)
    assert one == small * (1 + 6 + 6 + 12 + 6) + small * 9 // 2
    assert scratch_bytes(sections, small, threads=3) == 3 * one
    large = scratch_bytes(sections, 4_000_000, threads=3) - 3 * one
    words = 2**20
    assert large == 4_000_000 * (1 + 6 + 3) + words * (6 + 12) + 4_000_000 * 9 // 2
    assert scratch_bytes([C4()], 1000) == 4500


def test_a_large_document_is_judged_as_a_small_one_is() -> None:
    line = "The krill swims with the whales, and all of them have a good time in the sea.\n"
    other = "Nothing here stands twice: {} is a number of its own, and {} that of its square.\n"
    varied = "".join(other.format(number, number**2) for number in range(4000))
    sections = [GopherRepetition(), GopherQuality(max_doc_words=None), FineWeb()]
    result = quality_step(sections, statistics=True).apply(documents_of([line * 4000, line * 3]))
    assert result.counts == {"too_short": 3, "gopher_dup_line_frac": 2}
    reason, _, values = reference_row(varied, [GopherQuality(max_doc_words=None), FineWeb()])
    measured = quality_step([GopherQuality(max_doc_words=None), FineWeb()], statistics=True)
    batch = measured.apply(documents_of([varied])).batch
    if reason is None:
        assert [column[0].as_py() for column in batch.columns[2:]] == values
    else:
        assert batch.num_rows == 0


def test_only_the_first_million_words_are_searched_for_repetitions() -> None:
    words = np.char.mod("%x", np.arange(2**20)).tolist()
    text = " ".join([*words, *["again and again"] * 50_000])
    section = GopherRepetition(top_n_grams=[(3, 1.0)], dup_n_grams=[(5, 1.0)])
    batch = quality_step([section], statistics=True).apply(documents_of([text])).batch
    assert batch["gopher_dup_5_grams"].to_pylist() == [0.0]
    assert batch["gopher_top_3_gram"].to_pylist() == [len("0 1 2") / len(text)]
