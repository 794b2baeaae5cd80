"""What stands between storage and batches: rows by number.

Comes in: row numbers. Goes out: a `RowBatch` that the caller owns. Held in memory: what the source says in
`held_bytes`, whatever the size of the dataset.

A source is safe to use from several threads, works on after a fork, and can be pickled: a spawned worker
opens the files again instead of inheriting what was read.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from krill.dataset.row_batch import RowBatch


class RowSource(Protocol):
    """Rows of tokens somewhere, in a fixed order."""

    @property
    def name(self) -> str:
        """The path or URL, for messages."""

    @property
    def fingerprint(self) -> str:
        """A hash of everything that decides the rows; states are bound to it."""

    @property
    def rows(self) -> int:
        """How many rows there are."""

    @property
    def tokens(self) -> int:
        """How many tokens all rows have together; an estimate where counting would read them all."""

    @property
    def width(self) -> int:
        """The most tokens that a row can have."""

    @property
    def fixed(self) -> bool:
        """Whether every row has exactly `width` tokens."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the tokens."""

    @property
    def block_rows(self) -> int:
        """Rows that lie together on disk, such as a record batch or a row group: what shuffling keeps
        near."""

    @property
    def held_bytes(self) -> int:
        """The most that reading holds in memory besides what it returns, for the plan."""

    def read(self, rows: npt.NDArray[np.int64]) -> RowBatch:
        """Rows in the order asked for, each below `rows` and perhaps asked for twice; the caller owns
        them."""

    def close(self) -> None:
        """Let go of files and caches; the source can still be used and opens them again."""
