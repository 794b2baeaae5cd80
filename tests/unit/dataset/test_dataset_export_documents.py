"""Documents are put together again from rows, as the slow reference says."""

from __future__ import annotations

import numpy as np
import pytest
from export_samples import EOS, Rows, row_batch, some_documents, wrapped
from hypothesis import given
from hypothesis import strategies as st

from krill.dataset.export.documents import Joining, documents, ended_tokens
from krill.errors import BudgetError, InputError
from oracles.export import reference_documents

LONGEST = 10**6


def in_batches(rows: Rows, sizes: list[int]) -> list:
    """Rows cut into batches of these sizes, over and over."""
    batches, row, turn = [], 0, 0
    while row < len(rows):
        size = sizes[turn % len(sizes)]
        batches.append(row_batch(rows[row : row + size]))
        row, turn = row + size, turn + 1
    return batches


def found(rows: Rows, joining: Joining, sizes: list[int]) -> list[list[int]]:
    """The documents of all batches."""
    return [
        batch.tokens[begin:end].tolist()
        for batch in documents(in_batches(rows, sizes), joining, LONGEST)
        for begin, end in zip(batch.offsets[:-1], batch.offsets[1:], strict=True)
    ]


@st.composite
def some_rows(draw: st.DrawFn) -> tuple[Rows, Joining]:
    """Rows of any pieces, some of them full, and any rule."""
    width = draw(st.integers(1, 6))
    pieces = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=width), min_size=1, max_size=width)
    rows = draw(st.lists(pieces.filter(lambda row: sum(map(len, row)) <= width), max_size=12))
    first_rows = draw(st.sets(st.integers(0, 12)))
    eos = draw(st.sampled_from([None, EOS]))
    return rows, Joining(width, eos, (0, *sorted(first_rows - {0})))


@given(some_rows(), st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_documents_are_those_of_the_reference_however_rows_are_cut_into_batches(
    given_rows: tuple[Rows, Joining], sizes: list[int]
) -> None:
    rows, joining = given_rows
    assert found(rows, joining, sizes) == reference_documents(rows, joining)


@given(some_rows(), st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_ends_say_the_same_without_holding_a_document(
    given_rows: tuple[Rows, Joining], sizes: list[int]
) -> None:
    rows, joining = given_rows
    lengths, begun = [], 0
    for batch in ended_tokens(in_batches(rows, sizes), joining):
        lengths += np.diff(batch.ends, prepend=-begun).tolist() if len(batch.ends) else []
        begun = len(batch.tokens) - int(batch.ends[-1]) if len(batch.ends) else begun + len(batch.tokens)
    assert [*lengths, *([begun] if begun else [])] == [
        len(document) for document in reference_documents(rows, joining)
    ]


@pytest.mark.parametrize("sequence_len", [1, 7, 64, 1000])
def test_wrapped_rows_give_back_the_documents_and_the_last_one_as_far_as_it_goes(sequence_len: int) -> None:
    given_documents = some_documents(200)
    rows = wrapped(given_documents, sequence_len)
    result = found(rows, Joining(sequence_len, EOS), [3])
    kept = len(rows) * sequence_len
    assert [token for document in result for token in document] == [
        token for document in given_documents for token in document
    ][:kept]
    assert result[:-1] == given_documents[: len(result) - 1]
    assert result[-1] == given_documents[len(result) - 1][: len(result[-1])]


def test_without_eos_every_piece_is_a_document() -> None:
    rows = [[[1, 2], [3]], [[4, 5, 6]], [[7], [8, EOS]]]
    assert found(rows, Joining(3, None), [2]) == [[1, 2], [3], [4, 5, 6], [7], [8, EOS]]
    assert found(rows, Joining(3, EOS), [2]) == [[1, 2], [3, 4, 5, 6, 7], [8, EOS]]


def test_a_row_that_is_not_full_ends_its_document() -> None:
    assert found([[[1, 2, 3]], [[4]], [[5, EOS]]], Joining(3, EOS), [1]) == [[1, 2, 3, 4], [5, EOS]]


def test_a_source_that_was_packed_on_its_own_begins_with_a_document() -> None:
    rows = [[[1, 2]], [[3, 4]], [[5, EOS]]]
    assert found(rows, Joining(2, EOS, (0, 1)), [2]) == [[1, 2], [3, 4, 5, EOS]]
    assert found(rows, Joining(2, EOS, (0, 2)), [1]) == [[1, 2, 3, 4], [5, EOS]]


def test_lengths_that_do_not_add_up_are_refused_with_the_row() -> None:
    good, bad = row_batch([[[1, 2]], [[3, 4]]]), row_batch([[[1, 2]], [[3], [4]]])
    bad.seq_lengths[1] = 2
    with pytest.raises(InputError, match="row 3: its `seq_lengths` don't add up"):
        list(ended_tokens([good, bad], Joining(2, EOS)))
    none = row_batch([[[1, 2]], [[3, 4]]])
    none.seq_offsets[1] = 0
    with pytest.raises(InputError, match="row 0"):
        list(ended_tokens([none], Joining(2, EOS)))


def test_a_document_beyond_its_share_of_memory_is_refused() -> None:
    rows = [[[1, 2, 3, 4]], [[5, 6, 7, 8]], [[9, 9, 9, EOS]]]
    with pytest.raises(BudgetError, match="more than 6 tokens") as error:
        list(documents(in_batches(rows, [1]), Joining(4, EOS), longest=6))
    assert "--lines rows" in str(error.value.hint)
    assert len(list(documents(in_batches(rows, [1]), Joining(4, EOS), longest=8))) == 1
