"""Rows on their way to disk or back: flat arrays with offsets, the same for fixed and for variable rows.

Comes in and goes out: some rows' tokens one after the other and where each row begins, the lengths of the
documents' pieces in them and where each row's begin. Held in memory: these four arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, eq=False)
class RowBatch:
    """Row `i` is `tokens[offsets[i]:offsets[i + 1]]`, and the pieces in it have the lengths
    `seq_lengths[seq_offsets[i]:seq_offsets[i + 1]]`, which add up to the row's."""

    tokens: npt.NDArray[Any]
    offsets: npt.NDArray[np.int64]
    seq_lengths: npt.NDArray[np.int32]
    seq_offsets: npt.NDArray[np.int32]

    @property
    def rows(self) -> int:
        return len(self.offsets) - 1

    def slice(self, first: int, end: int) -> RowBatch:
        """Some of the rows, without copying; their offsets don't begin at 0."""
        return RowBatch(
            self.tokens, self.offsets[first : end + 1], self.seq_lengths, self.seq_offsets[first : end + 1]
        )

    def compact(self) -> RowBatch:
        """The same rows with offsets that begin at 0, over exactly what belongs to them."""
        return RowBatch(
            self.tokens[self.offsets[0] : self.offsets[-1]],
            self.offsets - self.offsets[0],
            self.seq_lengths[self.seq_offsets[0] : self.seq_offsets[-1]],
            self.seq_offsets - self.seq_offsets[0],
        )
