"""The loader: the same global order whatever the ranks, and exact from every step."""

from __future__ import annotations

import gc
import json
import pickle
import threading
import time

import numpy as np
import pytest
from loading_samples import SampleRows, write_rows

from krill.dataset import Layout
from krill.errors import BudgetError, ConfigError, InputError
from krill.loading import LoadedDataset, Loader, load
from oracles.loading import reference_columns, reference_order

ROWS = 53
WIDTH = 6


@pytest.fixture(scope="module")
def rows() -> SampleRows:
    return SampleRows(Layout(WIDTH, "uint16", 4, fixed=False), ROWS)


@pytest.fixture(scope="module")
def dataset(rows, tmp_path_factory) -> LoadedDataset:
    return load(write_rows(tmp_path_factory.mktemp("loader"), rows, 20), memory="64MB")


def ids(batches) -> list[list[int]]:
    return [row for batch in batches for row in batch["input_ids"].tolist()]


def padded(rows: SampleRows, numbers) -> list[list[int]]:
    return [reference_columns(rows.documents[row], WIDTH, None, 0)["input_ids"] for row in numbers]


def test_batches_come_in_order_with_labels(dataset, rows):
    batches = list(dataset.loader(batch_size=10))
    assert [batch["input_ids"].shape for batch in batches] == [(10, WIDTH)] * 5
    assert ids(batches) == padded(rows, range(50))
    expected = [reference_columns(rows.documents[row], WIDTH, "shifted", 0)["labels"] for row in range(50)]
    assert [row for batch in batches for row in batch["labels"].tolist()] == expected


def test_a_shuffled_epoch_is_the_computed_order(dataset, rows):
    loader = dataset.loader(batch_size=10, shuffle=True, seed=5, epoch=2, shuffle_window=16)
    assert ids(loader) == padded(rows, reference_order(ROWS, 4, 16, (5, 2))[:50])


@pytest.mark.parametrize("prefetch", [0, 1, 2, 5])
def test_the_order_does_not_depend_on_what_is_made_ahead(dataset, prefetch):
    batches = list(dataset.loader(batch_size=4, shuffle=True, prefetch=prefetch))
    assert ids(batches) == ids(dataset.loader(batch_size=4, shuffle=True, prefetch=0))


@pytest.mark.parametrize("world, batch_size", [(1, 12), (2, 6), (3, 4), (4, 3), (12, 1)])
@pytest.mark.parametrize("drop_last", [True, False])
def test_ranks_together_see_the_same_global_batches(dataset, world, batch_size, drop_last):
    """Of the last global batch, 5 rows, each rank takes an equal part, give or take a row, perhaps none."""
    options = {"shuffle": True, "seed": 3, "drop_last": drop_last}
    whole = dataset.loader(batch_size=12, rank=0, world=1, **options)
    loaders = [dataset.loader(batch_size=batch_size, rank=r, world=world, **options) for r in range(world)]
    assert {len(loader) for loader in loaders} == {len(whole)} == {4 if drop_last else 5}
    for expected, *parts in zip(whole, *loaders, strict=True):
        assert ids(parts) == ids([expected])
        sizes = [len(part["input_ids"]) for part in parts]
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("world", [1, 2, 3, 6])
@pytest.mark.parametrize("prefetch", [0, 3])
def test_a_state_of_every_step_goes_on_exactly_with_any_world(dataset, world, prefetch):
    options = {"shuffle": True, "seed": 1, "shuffle_window": 20, "prefetch": prefetch, "drop_last": False}
    saved = dataset.loader(batch_size=6, rank=0, world=1, **options)
    whole = ids(dataset.loader(batch_size=6, rank=0, world=1, **options))
    states = [saved.state_dict()]
    states += [saved.state_dict() for _ in saved]
    assert [state["samples"] for state in states] == [0, 6, 12, 18, 24, 30, 36, 42, 48, 53]
    for state in states:
        resumed = [
            dataset.loader(batch_size=6 // world, rank=rank, world=world, **options) for rank in range(world)
        ]
        for loader in resumed:
            loader.load_state_dict(json.loads(json.dumps(state)))
        found = [row for parts in zip(*resumed, strict=True) for row in ids(parts)]
        assert found == whole[state["samples"] :]
        assert {(loader.epoch, loader.samples) for loader in resumed} == {(1, 0)}


@pytest.mark.parametrize("batch_size", [1, 4, 7, 50])
def test_a_state_goes_on_with_another_global_batch_too(dataset, batch_size):
    loader = dataset.loader(batch_size=6, shuffle=True, rank=0, world=1, drop_last=False)
    whole = ids(loader)
    loader = dataset.loader(batch_size=6, shuffle=True, rank=0, world=1, drop_last=False)
    batches = iter(loader)
    taken = [next(batches) for _ in range(3)]
    other = dataset.loader(batch_size=batch_size, shuffle=True, rank=0, world=1, drop_last=False)
    other.load_state_dict(loader.state_dict())
    assert len(other) == -(-(ROWS - 18) // batch_size)
    assert ids(taken) + ids(other) == whole


def test_each_epoch_follows_the_one_before_in_another_order(dataset):
    loader = dataset.loader(batch_size=5, shuffle=True)
    first, second = ids(loader), ids(loader)
    assert loader.epoch == 2
    assert first != second
    later = dataset.loader(batch_size=5, shuffle=True, epoch=1)
    assert ids(later) == second
    later.set_epoch(0)
    assert ids(later) == first


def test_set_epoch_of_the_current_epoch_keeps_its_place(dataset):
    loader = dataset.loader(batch_size=5)
    next(iter(loader))
    loader.set_epoch(0)
    assert loader.samples == 5
    loader.set_epoch(3)
    assert (loader.epoch, loader.samples) == (3, 0)


def test_an_iterator_left_early_leaves_the_loader_where_it_is(dataset):
    whole = ids(dataset.loader(batch_size=5))
    loader = dataset.loader(batch_size=5)
    assert len(loader) == 10
    for batch in loader:
        seen = ids([batch])
        break
    assert len(loader) == 9
    assert seen + ids(loader) == whole


def test_any_step_is_there_without_the_ones_before(dataset):
    loader = dataset.loader(batch_size=7, shuffle=True, drop_last=False)
    batches = list(dataset.loader(batch_size=7, shuffle=True, drop_last=False))
    for step in (7, 0, 4):
        assert ids([loader.batch(step)]) == ids([batches[step]])
    assert loader.samples == 0
    for step in (-1, 8):
        with pytest.raises(IndexError, match=rf"step {step} is out of range: an epoch has 8 steps"):
            loader.batch(step)


def test_steps_may_be_counted_by_hand(dataset):
    loader = dataset.loader(batch_size=7)
    loader.advance(3)
    assert (loader.samples, len(loader)) == (21, 4)
    with pytest.raises(IndexError, match="5 steps are more than epoch 0 has left, 4"):
        loader.advance(5)


def test_a_dropped_iterator_takes_its_threads_along(dataset):
    loader = dataset.loader(batch_size=5, prefetch=3)
    batches = iter(loader)
    next(batches)
    assert any(thread.name.startswith("krill") for thread in threading.enumerate())
    del batches
    gc.collect()
    deadline = time.monotonic() + 5
    while any(thread.name.startswith("krill") for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_new_iterator_ends_the_one_before(dataset):
    loader = dataset.loader(batch_size=5)
    first = iter(loader)
    next(first)
    second = iter(loader)
    assert list(first) == []
    assert len(list(second)) == 9


def test_a_pickled_loader_goes_on_from_its_place(dataset):
    loader = dataset.loader(batch_size=5, shuffle=True)
    batches = iter(loader)
    next(batches)
    copy: Loader = pickle.loads(pickle.dumps(loader))
    assert ids(copy) == ids(batches)


def test_batches_that_are_kept_in_a_list_stay_what_they_are(dataset, rows):
    batches = list(dataset.loader(batch_size=1, drop_last=False))
    assert ids(batches) == padded(rows, range(ROWS))


def test_the_plan_refuses_batches_that_don_t_fit(dataset):
    with pytest.raises(BudgetError, match="batches") as caught:
        load(dataset.source.name, memory="20MB").loader(batch_size=50, prefetch=10_000)
    assert "batch_size or prefetch" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_size": 0},
        {"prefetch": -1},
        {"shuffle_window": 0},
        {"rank": 0},
        {"rank": 2, "world": 2},
        {"labels": "none"},
    ],
)
def test_arguments_that_make_no_sense_are_refused(dataset, wrong):
    with pytest.raises(ConfigError, match=f"`{next(iter(wrong))}`"):
        dataset.loader(**{"batch_size": 2} | wrong)


def test_a_dataset_smaller_than_a_global_batch_is_refused_with_the_numbers(dataset):
    with pytest.raises(InputError, match="gives 53 rows, too few for one batch of 30 for each of 2"):
        dataset.loader(batch_size=30, rank=0, world=2)
    assert len(list(dataset.loader(batch_size=30, rank=0, world=2, drop_last=False))) == 1


def test_a_row_that_contradicts_itself_is_named(tmp_path, rows):
    layout = Layout(WIDTH, "uint16", 4)
    folder = write_rows(tmp_path, SampleRows(layout, 8), 8)
    content = bytearray((folder / "data-00000.arrow").read_bytes())
    lengths = SampleRows(layout, 8).batch(range(4, 8)).seq_lengths
    place = content.rindex(lengths.tobytes())
    content[place : place + 4] = np.int32(lengths[0] + 1).tobytes()
    (folder / "data-00000.arrow").write_bytes(content)
    with pytest.raises(InputError, match="row 4 has `seq_lengths` that don't add up"):
        list(load(folder).loader(batch_size=8))
