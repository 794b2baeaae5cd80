"""Cleaning: bytes that are not UTF-8 removed, whitespace stripped, nulls and short documents dropped.

In: documents whose `text` may be null or hold invalid UTF-8. Out: the surviving rows, in order, with valid
text. Held in memory: the batch and the cleaned text, which is never longer. The reference is
`tests/oracles/clean.py`.

Counted: `not_text` and `too_short` are rows dropped, `invalid_utf8` is rows repaired.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from krill import _native
from krill.corpus.arrays import null_flags, pick_rows
from krill.corpus.buffers import text_buffers, text_column
from krill.corpus.checks import without_invalid
from krill.corpus.documents import Documents
from krill.text.step import drop, rejected_rows

_MOST_BYTES: Final = 4  # of a character


@dataclass(frozen=True, slots=True)
class CleanText:
    """`strip` takes whitespace off both ends; what has fewer than `min_chars` characters then is dropped."""

    strip: bool
    min_chars: int

    @property
    def reasons(self) -> Sequence[str]:
        return ("not_text", "too_short") if self.min_chars else ("not_text",)

    def apply(self, documents: Documents) -> Documents:
        batch = documents.batch
        at = batch.schema.get_field_index("text")
        text = batch.column(at)
        if not pa.types.is_large_string(text.type):
            text = text.cast(pa.large_string())  # no copy, and no look at the bytes
        null_mask = null_flags(text)
        offsets, data, kept, _, counts = _native.clean(
            *text_buffers(text), null_mask, self.strip, self.min_chars
        )
        rejected = documents.rejected
        others = batch.remove_column(at)
        if len(kept) < batch.num_rows:
            keep = np.zeros(batch.num_rows, np.bool_)
            keep[kept] = True
            others = pick_rows(others, keep)
            if rejected is not None:
                rejected = (*rejected, _rejected(batch.set_column(at, "text", text), keep, null_mask))
        cleaned = others.add_column(at, pa.field("text", pa.large_string()), text_column(offsets, data))
        return Documents(cleaned, _merge(documents.counts, counts), rejected)


@dataclass(frozen=True, slots=True)
class LongEnough:
    """Drops documents that a later step has shortened below `min_chars` characters, as cleaning does."""

    min_chars: int

    @property
    def reasons(self) -> Sequence[str]:
        return ("too_short",)

    def apply(self, documents: Documents) -> Documents:
        offsets, data = text_buffers(documents.batch.column("text"))
        sizes = np.diff(offsets)
        too_short = sizes < self.min_chars
        unclear = ~too_short & (sizes < _MOST_BYTES * self.min_chars)
        if unclear.any():
            ends, picked = _native.pick_texts(offsets, data, unclear.view(np.uint8))
            begins_character = (picked & 0xC0) != 0x80
            too_short[unclear] = np.add.reduceat(begins_character, ends[:-1], dtype=np.int64) < self.min_chars
        return drop(documents, too_short.astype(np.uint8), self.reasons)


def valid_text(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, with what is not UTF-8 taken out of their texts."""
    at = batch.schema.get_field_index("text")
    return batch.set_column(at, "text", without_invalid(batch.column(at)))


def with_reasons(dropped: pa.RecordBatch) -> pa.RecordBatch:
    """Rows that cleaning dropped, each with its reason."""
    return _rejected(dropped, np.zeros(dropped.num_rows, np.bool_), null_flags(dropped.column("text")))


def _rejected(
    batch: pa.RecordBatch, keep: NDArray[np.bool_], null_mask: NDArray[np.uint8] | None
) -> pa.RecordBatch:
    """The rows that are not kept, as they came: null, or else too short."""
    codes = np.where(keep, 0, 2).astype(np.uint8)
    if null_mask is not None:
        codes[null_mask != 0] = 1
    return rejected_rows(batch, codes, ("not_text", "too_short"))


def _merge(before: Mapping[str, int], here: Mapping[str, int]) -> dict[str, int]:
    """Both counts added up, but for `not_text`: the nulls that a reader counted are those dropped here."""
    merged = Counter(before)
    merged.pop("not_text", None)
    merged.update(here)
    return dict(merged)
