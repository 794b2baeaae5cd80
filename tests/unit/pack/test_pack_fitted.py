"""Rows of best fit and rows of one document: the kernel, the windows, the files they are read from."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill import _native
from krill.errors import StorageError
from krill.pack import FittedRows, PackingWindows, TokenFiles, fitting_of
from oracles.pack import reference_best_fit, reference_own_rows
from properties import tried

REFERENCES = {"bfd": reference_best_fit, "none": reference_own_rows}

Document = list[int]


def pieces_of(window: _native.PackedWindow, first: int, count: int) -> list[list[tuple[int, int]]]:
    starts, lengths, offsets = window.pieces(first, count)
    pieces = list(zip(starts.tolist(), lengths.tolist(), strict=True))
    return [pieces[a:b] for a, b in pairwise(offsets)]


def test_a_document_goes_where_it_leaves_the_least_room() -> None:
    window = _native.PackedWindow(np.array([5, 4, 3, 6, 2, 25], np.uint32), 10, True)
    # Cut: 10 and 10 of the last document. Then 6, 5 and 5 (the rest of the last), 4, 3, 2.
    assert pieces_of(window, 0, window.rows) == [
        [(20, 10)],
        [(30, 10)],
        [(12, 6), (5, 4)],
        [(0, 5), (40, 5)],
        [(9, 3), (18, 2)],
    ]
    assert window.tokens == 45


def test_without_fitting_each_document_begins_a_row() -> None:
    window = _native.PackedWindow(np.array([5, 25, 10], np.uint32), 10, False)
    assert pieces_of(window, 0, 5) == [[(0, 5)], [(5, 10)], [(15, 10)], [(25, 5)], [(30, 10)]]


@tried(80)
@given(
    lengths=st.lists(st.integers(1, 40), max_size=150),
    sequence_len=st.integers(1, 70),
    packing=st.sampled_from(["bfd", "none"]),
    data=st.data(),
)
def test_the_kernel_equals_the_reference(
    lengths: list[int], sequence_len: int, packing: str, data: st.DataObject
) -> None:
    expected = REFERENCES[packing](lengths, sequence_len)
    window = _native.PackedWindow(np.array(lengths, np.uint32), sequence_len, packing == "bfd")
    assert (window.rows, window.tokens) == (len(expected), sum(lengths))
    first = data.draw(st.integers(0, len(expected)))
    count = data.draw(st.integers(0, len(expected) - first))
    assert pieces_of(window, first, count) == expected[first : first + count]


def test_rows_beyond_the_last_are_an_index_error() -> None:
    window = _native.PackedWindow(np.array([5], np.uint32), 10, True)
    for first, count in ((0, 2), (2, 0), (1, 1)):
        with pytest.raises(IndexError, match="the window has fewer rows"):
            window.pieces(first, count)


def write_runs(folder: Path, units: list[list[Document]]) -> TokenFiles:
    for number, documents in enumerate(units):
        ids = np.array([token for document in documents for token in document], np.uint16)
        ids.tofile(folder / f"{number}.tokens")
        np.array([len(document) for document in documents], np.uint32).tofile(folder / f"{number}.lengths")
    return TokenFiles(
        lambda unit, name: folder / f"{unit}.{name}",
        np.arange(len(units), dtype=np.uint64),
        np.array([sum(map(len, documents)) for documents in units], np.int64),
        np.array([len(documents) for documents in units], np.int64),
    )


def expected_rows(documents: list[Document], packing: str, sequence_len: int, window: int) -> list[Any]:
    """Rows as lists of pieces, each a list of tokens."""
    rows = []
    for first in range(0, len(documents), window):
        chosen = documents[first : first + window]
        tokens = [token for document in chosen for token in document]
        for row in REFERENCES[packing]([len(document) for document in chosen], sequence_len):
            rows.append([tokens[start : start + length] for start, length in row])
    return rows


@tried(60)
@given(
    units=st.lists(st.lists(st.lists(st.integers(0, 999), min_size=1, max_size=9), max_size=6), max_size=6),
    sequence_len=st.integers(1, 12),
    window=st.integers(1, 9),
    packing=st.sampled_from(["bfd", "none"]),
    most=st.integers(1, 5),
    data=st.data(),
)
def test_any_rows_of_any_windows_are_gathered_from_the_runs(
    tmp_path_factory: pytest.TempPathFactory,
    units: list[list[Document]],
    sequence_len: int,
    window: int,
    packing: str,
    most: int,
    data: st.DataObject,
) -> None:
    windows = PackingWindows(
        write_runs(tmp_path_factory.mktemp("runs"), units), fitting_of(packing, sequence_len, window)
    )
    window_rows = np.array([windows.rows(number) for number in range(windows.count)], np.int64)
    packed = FittedRows(windows, "uint16", window_rows)
    documents = [document for unit in units for document in unit]
    expected = expected_rows(documents, packing, sequence_len, window if packing == "bfd" else 1 << 16)
    assert (packed.rows, packed.tokens) == (len(expected), sum(map(len, documents)))
    first = data.draw(st.integers(0, len(expected)))
    count = data.draw(st.integers(0, len(expected) - first))
    found = []
    for tokens, offsets, lengths, seq_offsets in packed.read(first, count, most):
        assert 1 <= len(offsets) - 1 <= most
        for row in range(len(offsets) - 1):
            pieces = lengths[seq_offsets[row] : seq_offsets[row + 1]]
            row_tokens = tokens[offsets[row] : offsets[row + 1]]
            found.append([piece.tolist() for piece in np.split(row_tokens, np.cumsum(pieces)[:-1])])
    assert found == expected[first : first + count]


def test_pieces_of_more_files_than_may_be_open_are_read_in_any_order(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}" for number in range(200)]
    for number, path in enumerate(paths):
        path.write_bytes(bytes([number]) * 10)
    reader = _native.PieceReader([bytes(path) for path in paths])
    files = np.random.default_rng(0).integers(0, 200, 3000).astype(np.uint32)
    sizes = np.random.default_rng(1).integers(0, 5, 3000)
    out = np.empty(int(sizes.sum()), np.uint8)
    reader.read(files, np.full(3000, 4, np.int64), sizes, out)
    assert out.tolist() == np.repeat(files, sizes).tolist()


def test_a_run_that_ends_too_early_is_named(tmp_path: Path) -> None:
    runs = write_runs(tmp_path, [[[1, 2, 3]], [[4, 5], [6]]])
    (tmp_path / "1.tokens").write_bytes(b"\4\0\5\0")
    packed = FittedRows(PackingWindows(runs, fitting_of("none", 8, 4)), "uint16", np.array([3], np.int64))
    with pytest.raises(StorageError, match=r"1\.tokens`, kept by an earlier stage, can't be read: it ends"):
        list(packed.read(0, 3, 8))


@pytest.mark.parametrize(
    ("files", "offsets", "sizes", "message"),
    [
        ([1], [0], [4], "names a file that is not there"),
        ([0], [-1], [4], "lies outside of any file"),
        ([0], [0], [-4], "lies outside of any file"),
        ([0], [2**63 - 2], [4], "lies outside of any file"),
        ([0, 0], [0, 4], [4, 4], "don't fit the memory"),
        ([0], [0], [3], "don't fill the memory"),
        ([0, 0], [0], [4], "one file, offset and size"),
    ],
)
def test_pieces_that_make_no_sense_are_refused(
    tmp_path: Path, files: list[int], offsets: list[int], sizes: list[int], message: str
) -> None:
    (tmp_path / "file").write_bytes(b"12345678")
    reader = _native.PieceReader([bytes(tmp_path / "file")])
    with pytest.raises(ValueError, match=message):
        reader.read(
            np.array(files, np.uint32),
            np.array(offsets, np.int64),
            np.array(sizes, np.int64),
            np.empty(4, np.uint8),
        )
