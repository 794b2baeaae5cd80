"""Sets of characters as native steps take them: one bit for each code point."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

POINTS = 0x110000


def point_set(points: Iterable[int]) -> bytes:
    """The set of these code points, 139 kB."""
    flags = np.zeros(POINTS, np.bool_)
    flags[np.fromiter(points, np.int64)] = True
    return np.packbits(flags, bitorder="little").tobytes()
