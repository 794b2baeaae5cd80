"""Lists of Python as Arrow columns. `pa.array` would load pandas: 45 MB that no budget has planned.

Comes in: texts, lists of texts and of numbers. Goes out: columns. Held in memory: the bytes of the texts,
twice while they are joined.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from krill.corpus.arrays import as_arrow
from krill.corpus.buffers import text_column_of


def text_list_column(lists: Sequence[Sequence[str]]) -> pa.Array:
    """A column of lists of texts."""
    starts = starts_of([len(texts) for texts in lists])
    return pa.LargeListArray.from_arrays(
        as_arrow(starts), text_column_of(text for texts in lists for text in texts)
    )


def number_list_column(lists: Sequence[Sequence[int]]) -> pa.Array:
    """A column of lists of numbers."""
    starts = starts_of([len(numbers) for numbers in lists])
    values = np.array([number for numbers in lists for number in numbers], np.int32)
    return pa.LargeListArray.from_arrays(as_arrow(starts), as_arrow(values))


def starts_of(lengths: Sequence[int] | npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Where each of some stretches begins, and where the last ends."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts
