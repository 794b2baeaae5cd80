"""Long enough still: documents that earlier steps have shortened too much are dropped.

In: documents whose text a step has changed. Out: those with at least as many characters as cleaning demanded.
Held in memory: the texts of which their bytes alone don't tell.

Counted: `too_short` is rows dropped, as in cleaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from krill import _native
from krill.corpus.buffers import text_buffers
from krill.corpus.documents import Documents
from krill.text.drop import drop

_MOST_BYTES: Final = 4  # of a character


@dataclass(frozen=True, slots=True)
class LongEnough:
    """Keeps documents of at least `min_chars` characters."""

    min_chars: int

    def apply(self, documents: Documents) -> Documents:
        """The documents that survive."""
        offsets, data = text_buffers(documents.batch.column("text"))
        sizes = np.diff(offsets)
        too_short = sizes < self.min_chars
        unclear = ~too_short & (sizes < _MOST_BYTES * self.min_chars)
        if unclear.any():
            ends, picked = _native.pick_texts(offsets, data, unclear.view(np.uint8))
            begins_character = (picked & 0xC0) != 0x80
            too_short[unclear] = np.add.reduceat(begins_character, ends[:-1], dtype=np.int64) < self.min_chars
        return drop(documents, too_short.astype(np.uint8), ("too_short",))
