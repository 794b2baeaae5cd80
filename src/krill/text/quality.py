"""Quality filters as one step: words are split once for all filters that see the same text.

In: cleaned documents. Out: those that no filter drops, with the text that C4 and the removal of repeated
lines leave of them, and what was measured as columns if asked. Held in memory: the texts that are left, and
scratch that grows with the longest document (`scratch_bytes`). The reference is
`tests/oracles/quality.py`; given our words, datatrove decides the same.

Counted: a document is dropped for the first rule that it breaks, by the name in `REASONS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from krill import _native
from krill.config.fields import Section
from krill.config.filters import (
    C4,
    FineWeb,
    GopherQuality,
    GopherRepetition,
    RepeatedLines,
    RepeatedParagraphs,
)
from krill.corpus.arrays import as_arrow
from krill.corpus.buffers import text_buffers, text_column
from krill.corpus.documents import Documents
from krill.errors import ConfigError
from krill.text.step import Step, drop, with_statistics

JUDGED = (GopherQuality, GopherRepetition, C4, FineWeb, RepeatedLines, RepeatedParagraphs)
"""The sections that `quality_step` takes."""

_LONGEST_N_GRAM = 100

# What a thread holds of scratch while no document is above 100 kB: ten bytes for each byte of prose.
_EXPECTED_SCRATCH_BYTES = 1_000_000

REASONS: Mapping[str, str] = {
    "too_long": "more than max_chars characters",
    "too_few_words": "fewer than min_words words",
    "too_many_words": "more than max_words words",
    "gopher_short_doc": "Gopher: too few words",
    "gopher_long_doc": "Gopher: too many words",
    "gopher_below_avg_threshold": "Gopher: words too short on average",
    "gopher_above_avg_threshold": "Gopher: words too long on average",
    "gopher_too_many_hashes": "Gopher: too many `#`",
    "gopher_too_many_ellipsis": "Gopher: too many ellipses",
    "gopher_too_many_bullets": "Gopher: too many lines begin with a bullet",
    "gopher_too_many_end_ellipsis": "Gopher: too many lines end with an ellipsis",
    "gopher_below_alpha_threshold": "Gopher: too few words with a letter",
    "gopher_enough_stop_words": "Gopher: too few stop words",
    "gopher_empty": "Gopher: empty",
    "gopher_dup_para_frac": "Gopher: too many repeated paragraphs",
    "gopher_dup_para_char_frac": "Gopher: too many characters in repeated paragraphs",
    "gopher_dup_line_frac": "Gopher: too many repeated lines",
    "gopher_dup_line_char_frac": "Gopher: too many characters in repeated lines",
    **{
        f"gopher_top_{n}_gram": f"Gopher: the most frequent {n} words in a row take too many characters"
        for n in range(1, _LONGEST_N_GRAM + 1)
    },
    **{
        f"gopher_duplicated_{n}_n_grams": f"Gopher: too many characters in repeated {n} words in a row"
        for n in range(1, _LONGEST_N_GRAM + 1)
    },
    "c4_lorem_ipsum": "C4: lorem ipsum",
    "c4_curly_bracket": "C4: a curly bracket",
    "c4_too_few_sentences": "C4: too few sentences left",
    "fineweb_empty": "FineWeb: empty",
    "fineweb_line_punct_ratio": "FineWeb: too few lines end with punctuation",
    "fineweb_short_line_ratio": "FineWeb: too many short lines",
    "fineweb_char_dup_ratio": "FineWeb: too many characters in repeated lines",
    "fineweb_list_ratio": "FineWeb: too many newlines for its words",
}
"""Why documents are dropped, for people."""

KEYS: Mapping[str, str] = {
    "too_long": "max_chars",
    "too_few_words": "min_words",
    "too_many_words": "max_words",
    "gopher_short_doc": "gopher_quality.min_doc_words",
    "gopher_long_doc": "gopher_quality.max_doc_words",
    "gopher_below_avg_threshold": "gopher_quality.min_avg_word_length",
    "gopher_above_avg_threshold": "gopher_quality.max_avg_word_length",
    "gopher_too_many_hashes": "gopher_quality.max_symbol_word_ratio",
    "gopher_too_many_ellipsis": "gopher_quality.max_symbol_word_ratio",
    "gopher_too_many_bullets": "gopher_quality.max_bullet_lines_ratio",
    "gopher_too_many_end_ellipsis": "gopher_quality.max_ellipsis_lines_ratio",
    "gopher_below_alpha_threshold": "gopher_quality.max_non_alpha_words_ratio",
    "gopher_enough_stop_words": "gopher_quality.min_stop_words",
    "gopher_dup_para_frac": "gopher_repetition.dup_para_frac",
    "gopher_dup_para_char_frac": "gopher_repetition.dup_para_char_frac",
    "gopher_dup_line_frac": "gopher_repetition.dup_line_frac",
    "gopher_dup_line_char_frac": "gopher_repetition.dup_line_char_frac",
    **{f"gopher_top_{n}_gram": "gopher_repetition.top_n_grams" for n in range(1, _LONGEST_N_GRAM + 1)},
    **{
        f"gopher_duplicated_{n}_n_grams": "gopher_repetition.dup_n_grams"
        for n in range(1, _LONGEST_N_GRAM + 1)
    },
    "c4_lorem_ipsum": "c4.filter_lorem_ipsum",
    "c4_curly_bracket": "c4.filter_curly_bracket",
    "c4_too_few_sentences": "c4.min_num_sentences",
    "fineweb_line_punct_ratio": "fineweb.line_punct_thr",
    "fineweb_short_line_ratio": "fineweb.short_line_thr",
    "fineweb_char_dup_ratio": "fineweb.char_duplicates_ratio",
    "fineweb_list_ratio": "fineweb.new_line_ratio",
}
"""The key of a filter, or of `preprocess`, that decides."""


@dataclass(frozen=True, slots=True)
class QualityFilter:
    """Drops and changes documents as the native filters say."""

    filters: _native.Quality
    statistics: bool

    @property
    def reasons(self) -> Sequence[str]:
        return self.filters.reasons

    def apply(self, documents: Documents) -> Documents:
        batch = documents.batch
        offsets, data = text_buffers(batch.column("text"))
        codes, values, text = self.filters.judge(offsets, data, self.statistics)
        judged = documents
        if text is not None:
            judged = Documents(_with_text(batch, text_column(*text)), documents.counts, documents.rejected)
        kept = drop(judged, codes, self.reasons)
        if not self.statistics:
            return kept
        return with_statistics(
            kept, self._columns([value[codes == 0] for value in values], batch.schema.names)
        )

    def _columns(self, values: list[Any], taken: Sequence[str]) -> list[tuple[str, pa.Array]]:
        """What was measured, under names that no column has yet."""
        columns: dict[str, pa.Array] = {}
        for (name, is_count), measured in zip(self.filters.statistics, values, strict=True):
            number = 1
            unique = name
            while unique in columns or unique in taken:
                number += 1
                unique = f"{name}_{number}"
            columns[unique] = as_arrow(measured.astype(np.uint32) if is_count else measured)
        return list(columns.items())


def quality_step(sections: Sequence[Section], *, statistics: bool) -> QualityFilter:
    """Consecutive `JUDGED` sections as one step, applied in their order."""
    return QualityFilter(_filters(sections), statistics)


def _filters(sections: Sequence[Section]) -> _native.Quality:
    judged = [
        (str(section.name), section.model_dump(exclude={"implementation"}))
        for section in sections
        if isinstance(section, JUDGED)
    ]
    assert len(judged) == len(sections), "a section that is not a quality filter"
    try:
        return _native.Quality(judged)
    except ValueError as error:
        raise ConfigError(
            f"`preprocess.filters`: {error}", hint="name fewer n-grams or filters in a row"
        ) from None


def length_step(min_words: int, max_words: int | None, max_chars: int | None) -> Step | None:
    """Limits on words and characters as a step, or None if there are none."""
    if min_words == 0 and max_words is None and max_chars is None:
        return None
    limits = {"min_words": min_words, "max_words": max_words, "max_chars": max_chars}
    return QualityFilter(_native.Quality([("lengths", limits)]), statistics=False)


def scratch_bytes(sections: Sequence[Section], max_document_bytes: int, threads: int = 1) -> int:
    """What all threads together hold, at most, while they judge documents up to that size.

    Besides texts and results. Documents above 256 KiB are judged one at a time, so that all threads together
    need memory for one large document, and each for one of 256 KiB.
    """
    return _filters(sections).scratch_bytes(max_document_bytes, threads)


def expected_scratch_bytes(sections: Sequence[Section], longest: int, threads: int) -> int:
    """What they are likely to hold, if the longest document has so many bytes."""
    return threads * _EXPECTED_SCRATCH_BYTES + _filters(sections).expected_bytes(longest)


def _with_text(batch: pa.RecordBatch, text: pa.Array) -> pa.RecordBatch:
    return batch.set_column(batch.schema.get_field_index("text"), pa.field("text", text.type), text)
