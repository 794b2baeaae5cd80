"""Columns are what the reference says, for every type of token and both conventions of labels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loading_samples import SampleRows

from krill import _native
from krill.dataset import Layout, RowBatch
from krill.dataset.layout import TOKEN_DTYPES
from krill.errors import ConfigError
from krill.loading.columns import ColumnMaker, Columns
from oracles.loading import as_lists, reference_columns

WIDTH = 12


@given(
    st.integers(0, 2**16),
    st.integers(0, 6),
    st.booleans(),
    st.sampled_from(TOKEN_DTYPES),
    st.sampled_from([None, "shifted", "hf"]),
    st.sampled_from(["int32", "int64"]),
    st.integers(0, 5),
)
def test_the_kernel_gives_what_the_reference_gives(seed, count, fixed, dtype, labels, ids_dtype, wider):
    rows = SampleRows(Layout(WIDTH, dtype, fixed=fixed), count, seed)
    columns = Columns(labels, True, True, True, pad_id=77, ids_dtype=ids_dtype)
    made = ColumnMaker(columns, WIDTH + wider, 10**6).make(rows.batch(range(count)))
    expected = [reference_columns(documents, WIDTH + wider, labels, 77) for documents in rows.documents]
    assert set(made) == set(columns.names)
    for name, values in as_lists(made).items():
        assert values == [row[name] for row in expected], name
    label_type = {"shifted": np.int32, "hf": np.int64}
    for name, values in made.items():
        assert values.shape == (count, WIDTH + wider)
        assert values.dtype == (label_type[labels] if name == "labels" else ids_dtype)


@given(st.integers(0, 2**16), st.integers(0, 6), st.sampled_from(["shifted", "hf"]), st.data())
def test_labels_that_rows_have_take_the_place_of_their_tokens(seed, count, labels, data):
    rows = SampleRows(Layout(WIDTH, "uint16", fixed=False), count, seed)
    batch = rows.batch(range(count))
    masks = [[data.draw(st.booleans()) for _ in document] for row in rows.documents for document in row]
    flags = np.array([flag for mask in masks for flag in mask], bool)
    given_labels = np.where(flags, batch.tokens.astype(np.int32), np.int32(-100))
    own = RowBatch(batch.tokens, batch.offsets, batch.seq_lengths, batch.seq_offsets, given_labels)
    made = as_lists(ColumnMaker(Columns(labels), WIDTH, 10**6).make(own))
    place = 0
    for at, documents in enumerate(rows.documents):
        marked = []
        for document in documents:
            mask = masks[place]
            place += 1
            marked.append([token if flag else -100 for token, flag in zip(document, mask, strict=True)])
        expected = reference_columns(marked, WIDTH, labels, 0)["labels"]
        assert made["labels"][at] == expected
        assert made["input_ids"][at] == reference_columns(documents, WIDTH, labels, 0)["input_ids"]


def test_only_what_is_asked_for_is_made():
    rows = SampleRows(Layout(WIDTH, "uint16"), 2).batch(range(2))
    assert list(ColumnMaker(Columns(), WIDTH, 0).make(rows)) == ["input_ids", "labels"]
    assert list(ColumnMaker(Columns(None, attention_mask=True), WIDTH, 0).make(rows)) == [
        "input_ids",
        "attention_mask",
    ]


def test_a_batch_that_is_kept_never_changes():
    maker = ColumnMaker(Columns(), WIDTH, 10**6)
    rows = SampleRows(Layout(WIDTH, "uint16"), 40)
    kept, views = [], []
    for row in range(40):
        batch = maker.make(rows.batch([row]))
        kept.append(batch)
        views.append(batch["labels"][0, :3])
    for row in range(40):
        assert kept[row]["input_ids"][0].tolist() == rows.tokens(row)
        assert (
            views[row].tolist() == reference_columns(rows.documents[row], WIDTH, "shifted", 0)["labels"][:3]
        )


def test_the_memory_of_a_batch_that_ended_is_used_again():
    maker = ColumnMaker(Columns(), WIDTH, 10**6)
    rows = SampleRows(Layout(WIDTH, "uint16"), 1).batch([0])
    addresses = set()
    for _ in range(50):
        batch = maker.make(rows)
        addresses.update(values.ctypes.data for values in batch.values())
        del batch
    assert len(addresses) <= 4


def rows_of(tokens, offsets, seq_lengths, seq_offsets) -> RowBatch:
    return RowBatch(
        np.array(tokens, np.uint16),
        np.array(offsets, np.int64),
        np.array(seq_lengths, np.int32),
        np.array(seq_offsets, np.int32),
    )


@pytest.mark.parametrize(
    "rows, place, reason",
    [
        (rows_of([1, 2, 3], [0, 2, 3], [2, 2], [0, 1, 2]), 1, "don't add up"),
        (rows_of([1, 2, 3], [0, 3], [1, 1], [0, 2]), 0, "don't add up"),
        (rows_of([1, 2, 3], [0, 3], [3, 0], [0, 2]), 0, "don't add up"),
        (rows_of([1, 2, 3], [0, 3], [5, -2], [0, 2]), 0, "don't add up"),
        (rows_of([1, 2, 3], [0, 4], [4], [0, 1]), 0, "outside of the tokens"),
        (rows_of([1, 2, 3], [3, 0], [3], [0, 1]), 0, "outside of the tokens"),
        (rows_of([1, 2, 3], [-1, 2], [3], [0, 1]), 0, "outside of the tokens"),
        (rows_of([1, 2, 3], [0, 3], [3], [0, 2]), 0, "documents that are not there"),
        (rows_of([1] * 20, [0, 20], [20], [0, 1]), 0, "wider than 12 tokens"),
    ],
)
def test_rows_that_contradict_themselves_are_refused(rows, place, reason):
    with pytest.raises(_native.BadRow, match=reason) as caught:
        ColumnMaker(Columns("hf"), WIDTH, 0).make(rows)
    assert caught.value.args[0] == place


@pytest.mark.parametrize("wrong", [{"labels": "hugging"}, {"ids_dtype": "int16"}, {"pad_id": -1}])
def test_what_is_not_a_column_is_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Columns(**wrong)
