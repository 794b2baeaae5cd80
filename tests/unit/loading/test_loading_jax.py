"""Batches for JAX: on one device, on a mesh, from several processes; states don't count what is ahead."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from saved_rows import cut_rows, random_rows, save_krill

from krill.errors import ConfigError
from krill.loading.dataset import LoadedDataset, load

pytestmark = pytest.mark.jax

jax = pytest.importorskip("jax")

ROWS = random_rows(103, shortest=1)
OPTIONS: dict[str, Any] = {"batch_size": 8, "shuffle": True, "seed": 5, "shuffle_window": 40}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_krill(tmp_path_factory.mktemp("jax") / "data", ROWS, cut_rows(ROWS), shards=3)


@pytest.fixture
def dataset(folder: Path) -> Iterator[LoadedDataset]:
    with load(folder, memory="100MB") as opened:
        yield opened


def ids(batches: Any) -> list[list[list[int]]]:
    return [np.asarray(batch["input_ids"]).tolist() for batch in batches]


def test_a_batch_is_int32_arrays_with_shifted_labels(dataset: LoadedDataset) -> None:
    batches = dataset.jax(**OPTIONS, segment_ids=True)
    expected = list(dataset.loader(**OPTIONS, segment_ids=True))
    assert len(batches) == len(expected) == 12
    for batch, numpy_batch in zip(batches, expected, strict=True):
        assert set(batch) == {"input_ids", "labels", "segment_ids"}
        for name, column in batch.items():
            assert isinstance(column, jax.Array)
            assert column.dtype == np.int32
            assert (np.asarray(column) == numpy_batch[name]).all()


def test_batches_keep_their_content_while_later_ones_are_made(dataset: LoadedDataset) -> None:
    assert ids(list(dataset.jax(**OPTIONS))) == ids(dataset.loader(**OPTIONS))


def test_the_state_counts_what_was_handed_out_at_every_step(dataset: LoadedDataset) -> None:
    expected = ids(dataset.loader(**OPTIONS))
    batches = dataset.jax(**OPTIONS)
    states = [batches.state_dict()]
    for step, batch in enumerate(batches):
        assert np.asarray(batch["input_ids"]).tolist() == expected[step]
        states.append(batches.state_dict())
        assert len(batches) == 11 - step
    assert [state["samples"] for state in states] == [8 * taken for taken in range(13)]
    assert batches.state_dict()["epoch"] == 1
    for taken, state in enumerate(states):
        resumed = dataset.jax(**OPTIONS)
        resumed.load_state_dict(state)
        assert ids(resumed) == expected[taken:]
    from_numpy = dataset.loader(**OPTIONS)
    from_numpy.load_state_dict(states[5])
    assert ids(from_numpy) == expected[5:]


def test_a_loop_that_is_left_early_goes_on_where_it_was_and_epochs_follow(dataset: LoadedDataset) -> None:
    expected = [ids(dataset.loader(**OPTIONS, epoch=epoch)) for epoch in range(3)]
    batches = dataset.jax(**OPTIONS)
    for step, _ in enumerate(batches):
        if step == 3:
            break
    assert ids(batches) == expected[0][4:]
    assert ids(batches) == expected[1]
    batches.set_epoch(2)
    batches.set_epoch(2)
    assert ids(batches) == expected[2]


def test_a_mesh_or_a_sharding_and_not_both(dataset: LoadedDataset) -> None:
    mesh = jax.make_mesh((1,), ("data",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    assert next(iter(dataset.jax(**OPTIONS, mesh=mesh)))["input_ids"].sharding == sharding
    with pytest.raises(ConfigError, match=r"`mesh` and `sharding` say the same"):
        dataset.jax(**OPTIONS, mesh=mesh, sharding=sharding)
    with pytest.raises(ConfigError, match=r"`drop_last` is `False`"):
        dataset.jax(**OPTIONS, mesh=mesh, drop_last=False)
    assert sum(len(batch["labels"]) for batch in dataset.jax(**OPTIONS, drop_last=False)) == 103


_FOUR_DEVICES = """
import sys
import jax, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from krill.errors import ConfigError
from krill.loading.dataset import load

dataset = load(sys.argv[1], memory="100MB")
options = {"batch_size": 8, "shuffle": True, "seed": 5, "shuffle_window": 40}
assert len(jax.devices()) == 4
expected = list(dataset.loader(**options))

mesh = jax.make_mesh((4,), ("data",), axis_types=(AxisType.Auto,))
double = jax.jit(lambda batch: batch["input_ids"] * 2)
for batch, numpy_batch in zip(dataset.jax(**options, mesh=mesh), expected, strict=True):
    ids = batch["input_ids"]
    assert [shard.data.shape for shard in ids.addressable_shards] == [(2, 64)] * 4
    assert len({shard.device for shard in ids.addressable_shards}) == 4
    assert (np.asarray(ids) == numpy_batch["input_ids"]).all()
    assert (np.asarray(double(batch)) == numpy_batch["input_ids"] * 2).all()

grid = jax.make_mesh((2, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
by_tokens = NamedSharding(grid, PartitionSpec("data", "model"))
batch = next(iter(dataset.jax(**options, sharding=by_tokens)))
assert {shard.data.shape for shard in batch["labels"].addressable_shards} == {(4, 32)}
assert (np.asarray(batch["labels"]) == expected[0]["labels"]).all()
batch = next(iter(dataset.jax(**options, mesh=grid)))
assert {shard.data.shape for shard in batch["labels"].addressable_shards} == {(4, 64)}

try:
    dataset.jax(**options | {"batch_size": 6}, mesh=mesh)
except ConfigError as error:
    print(error.message)
"""


def test_batches_are_split_over_four_devices(folder: Path) -> None:
    environment = os.environ | {
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4",
        "JAX_PLATFORMS": "cpu",
    }
    done = subprocess.run(
        [sys.executable, "-c", _FOUR_DEVICES, str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "6 rows can't be split" in done.stdout


_TWO_PROCESSES = """
import sys
import jax, numpy as np
from krill.loading.dataset import load

folder, port, process = sys.argv[1], sys.argv[2], int(sys.argv[3])
jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=process)
dataset = load(folder, memory="100MB")
options = {"shuffle": True, "seed": 5, "shuffle_window": 40}
expected = list(dataset.loader(batch_size=8, **options, rank=0, world=1))
mesh = jax.make_mesh((2,), ("data",))
batches = dataset.jax(batch_size=4, **options, mesh=mesh)
assert (batches.loader.rank, batches.loader.world) == (process, 2)
for batch, numpy_batch in zip(batches, expected, strict=True):
    ids = batch["input_ids"]
    assert ids.shape == (8, 64)
    (mine,) = ids.addressable_shards
    assert (np.asarray(mine.data) == numpy_batch["input_ids"][process * 4 : process * 4 + 4]).all()
"""


def test_each_process_gives_its_own_rows_of_the_global_batch(folder: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo"}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _TWO_PROCESSES, str(folder), str(port), str(process)],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for process in range(2)
    ]
    outcomes = [(process.communicate(timeout=120)[1], process.returncode) for process in running]
    assert [code for _, code in outcomes] == [0, 0], outcomes


def test_jax_is_needed_only_here_and_named_if_it_is_missing(folder: Path) -> None:
    program = (
        "import sys; sys.modules['jax'] = None\n"
        "import krill.loading.dataset as loading\n"
        "from krill.errors import MissingExtra\n"
        "dataset = loading.load(sys.argv[1])\n"
        "try:\n    dataset.jax(batch_size=2)\n"
        "except MissingExtra as error:\n    print(error.hint)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "pip install 'krill-lm[train]'\n"
