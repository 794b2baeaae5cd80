"""Rows kept in plain files and read in another order."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill.errors import StorageError
from krill.pack import Permutation, StoredRows, stored_row_files
from properties import tried

Row = list[list[int]]
"""Its pieces."""


def flat(rows: list[Row]) -> Any:
    """Rows as packing gives them."""
    pieces = [piece for row in rows for piece in row]
    tokens = np.array([token for piece in pieces for token in piece], np.uint16)
    widths = [sum(map(len, row)) for row in rows]
    return (
        tokens,
        np.cumsum([0, *widths], dtype=np.int64),
        np.array([len(piece) for piece in pieces], np.int32),
        np.cumsum([0, *map(len, rows)], dtype=np.int32),
    )


def store(folder: Path, shards: list[list[Row]], step: int, *key: int) -> StoredRows:
    for number, rows in enumerate(shards):
        batches = (flat(rows[first : first + step]) for first in range(0, len(rows), step))
        for name, values in stored_row_files(batches):
            with (folder / f"{number}.{name}").open("ab") as file:
                file.write(values.tobytes())
    paths = [
        partial(lambda number, name: folder / f"{number}.{name}", number) for number in range(len(shards))
    ]
    counts = [len(rows) for rows in shards]
    return StoredRows(paths, counts, 0, "uint16", Permutation(sum(counts), *key))


def listed(stored: StoredRows, first: int, count: int, most: int) -> list[Row]:
    found = []
    for tokens, offsets, lengths, seq_offsets in stored.read(first, count, most):
        assert (offsets.dtype, seq_offsets.dtype) == (np.int64, np.int32)
        for row, (start, end) in enumerate(pairwise(offsets)):
            pieces = np.cumsum(lengths[seq_offsets[row] : seq_offsets[row + 1]])
            found.append([piece.tolist() for piece in np.split(tokens[start:end], pieces[:-1])])
    return found


PIECES = st.lists(st.lists(st.integers(0, 999), min_size=1, max_size=4), min_size=1, max_size=3)


@tried(50)
@given(
    shards=st.lists(st.lists(PIECES, min_size=1, max_size=6), min_size=1, max_size=4),
    step=st.integers(1, 4),
    most=st.integers(1, 5),
    data=st.data(),
)
def test_rows_come_in_the_order_of_the_permutation(
    tmp_path_factory: pytest.TempPathFactory,
    shards: list[list[Row]],
    step: int,
    most: int,
    data: st.DataObject,
) -> None:
    rows = [row for shard in shards for row in shard]
    stored = store(tmp_path_factory.mktemp("stored"), shards, step, 42)
    assert stored.rows == len(rows)
    order = Permutation(len(rows), 42)(np.arange(len(rows), dtype=np.int64))
    first = data.draw(st.integers(0, len(rows)))
    count = data.draw(st.integers(0, len(rows) - first))
    assert listed(stored, first, count, most) == [rows[at] for at in order[first : first + count]]


@pytest.mark.parametrize("name", ["tokens", "pieces", "beginnings"])
def test_a_file_that_ends_too_early_is_named(tmp_path: Path, name: str) -> None:
    stored = store(tmp_path, [[[[1, 2], [3]]], [[[4]]]], 2)
    path = tmp_path / f"1.{name}"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StorageError, match=rf"1\.{name}`, kept by an earlier stage, can't be read: it ends"):
        listed(stored, 0, 2, 2)
