from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill.errors import StorageError
from krill.pack import TokenFiles, TokenStream, piece_lengths
from oracles.pack import reference_piece_lengths


def rows_of(lengths, sequence_len):
    total = sum(lengths) // sequence_len * sequence_len
    ends = np.cumsum(lengths, dtype=np.int64) if lengths else np.empty(0, np.int64)
    offsets, values = piece_lengths(ends[ends <= total], total // sequence_len, sequence_len)
    return [values[a:b].tolist() for a, b in pairwise(offsets)]


def test_documents_are_cut_where_rows_end():
    assert rows_of([3, 5, 8, 1], 4) == [[3, 1], [4], [4], [4]]
    assert rows_of([4, 4], 4) == [[4], [4]]
    assert rows_of([1, 1, 1, 1, 9], 4) == [[1, 1, 1, 1], [4], [4]]
    assert rows_of([3], 4) == []


@given(st.lists(st.integers(1, 20), max_size=40), st.integers(1, 12))
def test_pieces_equal_the_reference(lengths, sequence_len):
    assert rows_of(lengths, sequence_len) == reference_piece_lengths(lengths, sequence_len)


def write_runs(folder, units):
    """Units of documents, each a list of ids."""
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


@given(
    units=st.lists(st.lists(st.lists(st.integers(0, 999), min_size=1, max_size=5), max_size=6), max_size=5),
    data=st.data(),
)
def test_a_stream_reads_the_same_from_any_place_in_any_steps(tmp_path_factory, units, data):
    runs = write_runs(tmp_path_factory.mktemp("runs"), units)
    ids = [token for documents in units for document in documents for token in document]
    ends = np.cumsum([len(document) for documents in units for document in documents]).tolist()
    start = data.draw(st.integers(0, len(ids)))
    stream = TokenStream(runs, "uint16", start)
    at = start
    while at < len(ids):
        step = data.draw(st.integers(1, len(ids) - at))
        got, got_ends = stream.read(step)
        assert got.tolist() == ids[at : at + step]
        assert sorted(set(got_ends.tolist())) == sorted({end - at for end in ends if at < end <= at + step})
        at += step


def test_many_documents_are_read_in_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr("krill.pack.token_files._CHUNK", 3)
    runs = write_runs(tmp_path, [[[1]] * 10, [], [[2, 2]] * 7])
    stream = TokenStream(runs, "uint16", 5)
    ids, ends = stream.read(19)
    assert ids.tolist() == [1] * 5 + [2] * 14
    assert ends.tolist() == [1, 2, 3, 4, 5, 7, 9, 11, 13, 15, 17, 19]


def test_a_run_that_is_shorter_than_recorded_is_an_error_that_names_it(tmp_path):
    runs = write_runs(tmp_path, [[[1, 2, 3]]])
    (tmp_path / "0.tokens").write_bytes(b"\0\0")
    with pytest.raises(StorageError, match=r"0\.tokens"):
        TokenStream(runs, "uint16").read(3)
