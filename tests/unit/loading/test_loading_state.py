"""States are a few integers, bound to the data and the order that they were made with."""

from __future__ import annotations

import json

import pytest
from loading_samples import SampleRows, write_rows

from krill.dataset import Layout
from krill.errors import ConfigError, InputError
from krill.loading import LoadedDataset, load

OPTIONS = {"batch_size": 4, "shuffle": True, "seed": 1, "shuffle_window": 16}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> LoadedDataset:
    return load(write_rows(tmp_path_factory.mktemp("state"), SampleRows(Layout(6, "uint16", 4), 40), 20))


def test_a_state_is_small_and_survives_json(dataset):
    loader = dataset.loader(**OPTIONS)
    loader.advance(3)
    state = json.loads(json.dumps(loader.state_dict()))
    assert state == {
        "version": 1,
        "epoch": 0,
        "samples": 12,
        "fingerprint": dataset.source.fingerprint,
        "seed": 1,
        "shuffle": True,
        "shuffle_window": 16,
        "mixture": None,
    }


def test_another_dataset_s_state_is_refused(dataset, tmp_path):
    other = load(write_rows(tmp_path, SampleRows(Layout(6, "uint16", 4), 40, seed=9), 20))
    state = other.loader(**OPTIONS).state_dict()
    with pytest.raises(InputError, match="belongs to another dataset") as caught:
        dataset.loader(**OPTIONS).load_state_dict(state)
    assert other.source.fingerprint in caught.value.message


@pytest.mark.parametrize("change", [{"seed": 2}, {"shuffle_window": 8}, {"shuffle": False}])
def test_the_state_of_another_order_is_refused_with_what_differs(dataset, change):
    loader = dataset.loader(**OPTIONS)
    with pytest.raises(ConfigError, match=f"another order: .*`{next(iter(change))}` is") as caught:
        loader.load_state_dict(dataset.loader(**OPTIONS | change).state_dict())
    assert "`fingerprint`" not in caught.value.message
    assert (loader.epoch, loader.samples) == (0, 0)


@pytest.mark.parametrize("change", [{"labels": "hf"}, {"batch_size": 8}, {"prefetch": 0}, {"epoch": 3}])
def test_what_does_not_shape_the_order_may_change(dataset, change):
    state = dataset.loader(**OPTIONS | change).state_dict()
    loader = dataset.loader(**OPTIONS)
    loader.load_state_dict(state)
    assert loader.epoch == change.get("epoch", 0)


@pytest.mark.parametrize(
    "harm, problem",
    [
        ({"version": 2}, "version `2`"),
        ({"samples": 41}, "`samples` is `41`"),
        ({"samples": "4"}, "`samples` is `4`"),
        ({"epoch": -1}, "`epoch` is `-1`"),
    ],
)
def test_a_damaged_state_is_refused(dataset, harm, problem):
    loader = dataset.loader(**OPTIONS)
    with pytest.raises(ConfigError, match=problem):
        loader.load_state_dict(loader.state_dict() | harm)


def test_what_is_no_state_at_all_is_refused(dataset):
    with pytest.raises(ConfigError, match="not a loader's state"):
        dataset.loader(**OPTIONS).load_state_dict({"step": 3})
