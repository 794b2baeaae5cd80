"""The order of an epoch: computed for any range of it, never stored.

In: the number of rows and of those that are stored together, a window, a key (the seed, the epoch). Out: row
numbers. Held in memory: what is asked for.

`Shuffled` permutes the blocks of rows that are stored together, cuts the rows, in the blocks' new order, into
windows (the last takes what is left over), and permutes the rows inside each window. So a range of the epoch
reads from a few blocks only, which is what disks and caches want, and neighbours on disk still end up far
apart. The permutations are keyed functions; the slow, obvious version is `reference.reference_order`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from krill import _native

# 256 blocks of a mebibyte, for rows of 2,048 tokens of two bytes: wide enough that a block's rows are spread
# over thousands of batches, narrow enough that the indexes of its blocks stay in the reader's cache.
SHUFFLE_WINDOW = 65_536
_MASK = 2**64 - 1

Key = tuple[int, ...]


class Order(Protocol):
    """Which row is the n-th of an epoch."""

    @property
    def samples(self) -> int:
        """How many rows an epoch has."""

    def rows(self, key: Key, start: int, stop: int) -> npt.NDArray[np.int64]:
        """The `start`-th to `stop`-th row of the epoch that `key` stands for."""


@dataclass(frozen=True)
class InOrder:
    """Every row once, in the order on disk, whatever the key."""

    samples: int

    def rows(self, key: Key, start: int, stop: int) -> npt.NDArray[np.int64]:
        return np.arange(start, stop, dtype=np.int64)


@dataclass(frozen=True)
class Shuffled:
    """Every row once, shuffled by blocks and inside windows."""

    samples: int
    block_rows: int
    window: int

    def rows(self, key: Key, start: int, stop: int) -> npt.NDArray[np.int64]:
        parts = np.array([part & _MASK for part in key], np.uint64)
        return _native.shuffled_rows(self.samples, self.block_rows, self.window, parts, start, stop)
