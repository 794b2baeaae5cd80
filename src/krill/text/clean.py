"""Cleaning: bytes that are not UTF-8 removed, whitespace stripped, nulls and short documents dropped.

In: documents whose `text` may be null or hold invalid UTF-8. Out: the surviving rows, in order, with valid
text. Held in memory: the batch and the cleaned text, which is never longer. The reference is `reference.py`.

Counted: `not_text` and `too_short` are rows dropped, `invalid_utf8` is rows repaired.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from krill import _native
from krill.corpus.arrays import pick
from krill.corpus.buffers import text_buffers, text_column
from krill.corpus.documents import Documents


@dataclass(frozen=True, slots=True)
class Clean:
    """`strip` takes whitespace off both ends; what has fewer than `min_chars` characters then is dropped."""

    strip: bool
    min_chars: int

    def apply(self, documents: Documents) -> Documents:
        """The documents that survive, cleaned."""
        batch = documents.batch
        at = batch.schema.get_field_index("text")
        text = batch.column(at).cast(pa.large_string())  # no copy, and no look at the bytes
        null_mask = np.asarray(text.is_null().cast(pa.uint8())) if text.null_count else None
        offsets, data, kept, _, counts = _native.clean(
            *text_buffers(text), null_mask, self.strip, self.min_chars
        )
        columns = batch.columns
        columns[at] = text_column(offsets, data)
        if len(kept) < batch.num_rows:
            keep = np.zeros(batch.num_rows, np.bool_)
            keep[kept] = True
            columns = [column if i == at else pick(column, keep) for i, column in enumerate(columns)]
        schema = batch.schema.set(at, pa.field("text", pa.large_string()))
        return Documents(pa.RecordBatch.from_arrays(columns, schema=schema), _merge(documents.counts, counts))


def _merge(before: Mapping[str, int], here: Mapping[str, int]) -> dict[str, int]:
    """Both counts added up, but for `not_text`: the nulls that a reader counted are those dropped here."""
    merged = Counter(before)
    merged.pop("not_text", None)
    merged.update(here)
    return dict(merged)
