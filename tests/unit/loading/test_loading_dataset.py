"""`krill.load`: rows as a sequence, opened lightly, inside a budget."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from loading_samples import SampleRows, write_rows

from krill.dataset import Layout
from krill.errors import BudgetError, ConfigError, InputError
from krill.loading import LoadedDataset, load


@pytest.fixture(scope="module", params=[True, False])
def rows(request) -> SampleRows:
    return SampleRows(Layout(8, "uint16", 4, fixed=request.param), 31)


@pytest.fixture(scope="module")
def dataset(rows, tmp_path_factory) -> LoadedDataset:
    return load(write_rows(tmp_path_factory.mktemp("dataset"), rows, 10), memory="64MB")


@pytest.mark.parametrize("row", [0, 30, -1, -31, np.int64(7)])
def test_a_row_is_what_was_written(dataset, rows, row):
    found = dataset[row]
    assert found["input_ids"].tolist() == rows.tokens(row)
    assert found["seq_lengths"].tolist() == [len(document) for document in rows.documents[row]]
    assert found["input_ids"].dtype == np.uint16


@pytest.mark.parametrize(
    "key", [[5, 1, 5, -1], slice(3, 20, 4), slice(None), np.array([30, 0]), [], slice(9, 3)]
)
def test_several_rows_are_what_was_written(dataset, rows, key):
    numbers = np.arange(31)[key].tolist() if len(np.arange(31)[key]) else []
    found = dataset[key]
    assert [row.tolist() for row in found["input_ids"]] == [rows.tokens(row) for row in numbers]
    lengths = [[len(document) for document in rows.documents[row]] for row in numbers]
    assert [row.tolist() for row in found["seq_lengths"]] == lengths
    if rows.layout.fixed:
        assert found["input_ids"].shape == (len(numbers), 8)


def test_the_arrays_of_several_rows_are_a_sequence(dataset, rows):
    found = dataset[[4, 9]]["seq_lengths"]
    assert len(found) == 2
    assert found[-1].tolist() == found[1].tolist() == [len(document) for document in rows.documents[9]]
    assert [array.tolist() for array in found[::-1]] == [found[1].tolist(), found[0].tolist()]
    assert repr(found) == repr([found[0], found[1]])
    for place in (2, -3):
        with pytest.raises(IndexError, match="there are 2 arrays"):
            found[place]


def test_iterating_gives_every_row(dataset, rows):
    assert len(dataset) == 31
    assert [row["input_ids"].tolist() for row in dataset] == [rows.tokens(row) for row in range(31)]


@pytest.mark.parametrize("row", [31, -32, [0, 31], [-32]])
def test_rows_outside_are_index_errors(dataset, row):
    with pytest.raises(IndexError, match=r"row -?3[12] is out of range: .* has 31 rows"):
        dataset[row]


@pytest.mark.parametrize("key", ["input_ids", [0.5], None])
def test_other_keys_are_type_errors(dataset, key):
    with pytest.raises(TypeError):
        dataset[key]


def test_it_can_be_closed_and_used_again(dataset, rows):
    with dataset as opened:
        opened[3]
    assert dataset[3]["input_ids"].tolist() == rows.tokens(3)


@pytest.mark.parametrize("memory", ["2MB", "5MB", "33MB", "64MB", "1GB"])
def test_what_is_held_leaves_room_for_batches_at_any_budget(dataset, memory):
    opened = load(dataset.source.name, memory=memory)
    assert opened.source.held_bytes <= 0.75 * opened.limit
    assert len(list(opened.loader(batch_size=4))) == 7


def test_a_budget_that_holds_nothing_is_refused(dataset):
    with pytest.raises(BudgetError, match="too small"):
        load(dataset.source.name, memory="0.9MB")


def test_what_is_not_there_is_an_input_error(tmp_path):
    with pytest.raises(InputError):
        load(tmp_path / "nowhere")


def test_another_answer_to_missing_shards_is_refused(dataset):
    with pytest.raises(ConfigError, match="on_missing"):
        load(dataset.source.name, on_missing="ignore")


def test_rows_of_missing_shards_are_counted(tmp_path):
    write_rows(tmp_path, SampleRows(Layout(8, "uint16", 4), 31), 10)
    (tmp_path / "data-00001.arrow").unlink()
    dataset = load(tmp_path, on_missing="skip")
    assert (len(dataset), dataset.skipped_rows) == (21, 10)


def test_opening_and_the_first_batch_import_nothing_heavy(dataset):
    """Importing pyarrow alone takes longer than a first batch may."""
    code = f"""
import sys
from krill.loading import load
next(iter(load({dataset.source.name!r}).loader(batch_size=4, shuffle=True)))
print([name for name in ("pyarrow", "pandas", "torch", "jax", "fsspec", "pydantic") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
