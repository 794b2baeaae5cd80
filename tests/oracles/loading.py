"""Slow, obvious versions of the loader's kernels, one row and one token at a time: the oracles of the
tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from krill.pack.permutation import Permutation

IGNORED = -100
_BLOCKS, _WINDOWS = 0, 1


def reference_order(rows: int, block_rows: int, window: int, key: Sequence[int]) -> list[int]:
    """The order of a whole epoch, as `order.Shuffled` gives it in stretches."""
    blocks = [list(range(first, min(rows, first + block_rows))) for first in range(0, rows, block_rows)]
    by_block = [row for place in _permuted(len(blocks), *key, _BLOCKS) for row in blocks[place]]
    order: list[int] = []
    windows = max(1, rows // window)
    for number in range(windows):
        end = rows if number == windows - 1 else (number + 1) * window
        inside = by_block[number * window : end]
        order += [inside[place] for place in _permuted(len(inside), *key, _WINDOWS, number)]
    return order


def _permuted(count: int, *key: int) -> list[int]:
    return [int(place) for place in Permutation(count, *key)(np.arange(count, dtype=np.int64))]


def reference_columns(
    documents: Sequence[Sequence[int]], width: int, labels: str | None, pad_id: int
) -> dict[str, list[int]]:
    """All columns of one row that consists of `documents`."""
    columns: dict[str, list[int]] = {"input_ids": [], "segment_ids": [], "position_ids": []}
    shifted: list[int] = []
    unshifted: list[int] = []
    for number, document in enumerate(documents, start=1):
        columns["input_ids"] += document
        columns["segment_ids"] += [number] * len(document)
        columns["position_ids"] += range(len(document))
        shifted += [*document[1:], IGNORED]
        unshifted += [IGNORED, *document[1:]]
    padding = width - len(columns["input_ids"])
    columns["attention_mask"] = [1] * len(columns["input_ids"])
    for name, values in columns.items():
        values += [pad_id if name == "input_ids" else 0] * padding
    if labels is not None:
        columns["labels"] = (shifted if labels == "shifted" else unshifted) + [IGNORED] * padding
    return columns


def reference_schedule(shares: Sequence[int], whole: int, samples: int) -> list[int]:
    """Which source gives each of the first `samples` rows, when source `i` has `shares[i]` of `whole`.

    A source takes a row whenever its due, its share of the rows that it could have had, passes a whole
    number; what it leaves goes to the sources after it, in the same way.
    """
    offered = [0] * len(shares)
    schedule = []
    for _ in range(samples):
        left = whole
        for source, share in enumerate(shares):
            due = [(offered[source] + more) * share // left if left else 0 for more in (0, 1)]
            offered[source] += 1
            left -= share
            if due[1] > due[0]:
                schedule.append(source)
                break
    return schedule


def as_lists(columns: dict[str, Any]) -> dict[str, list[list[int]]]:
    """A batch in the form that the references have."""
    return {name: values.tolist() for name, values in columns.items()}
