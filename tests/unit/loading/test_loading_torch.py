"""Datasets for torch: rows for its samplers, batches that workers share, states that outlive their number."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from saved_rows import cut_rows, random_rows, save_krill

from krill.errors import ConfigError, MissingExtra
from krill.loading.dataset import LoadedDataset, load
from peers import peer

torch = peer("torch")
data = peer("torch.utils.data")

ROWS = random_rows(103, shortest=1)
OPTIONS: dict[str, Any] = {"batch_size": 4, "shuffle": True, "seed": 5, "shuffle_window": 40}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_krill(tmp_path_factory.mktemp("torch") / "data", ROWS, cut_rows(ROWS), shards=3)


@pytest.fixture
def dataset(folder: Path) -> Iterator[LoadedDataset]:
    with load(folder, memory="100MB") as opened:
        yield opened


def ids(batches: Any) -> list[list[list[int]]]:
    return [batch["input_ids"].tolist() for batch in batches]


def test_a_batch_is_int64_tensors_with_labels_as_hugging_face_models_take_them(
    dataset: LoadedDataset,
) -> None:
    batch = next(iter(data.DataLoader(dataset.torch(batch_size=4, attention_mask=True), batch_size=None)))
    assert {name: (column.dtype, tuple(column.shape)) for name, column in batch.items()} == dict.fromkeys(
        ("input_ids", "labels", "attention_mask"), (torch.int64, (4, 64))
    )
    row, length = ROWS[0], len(ROWS[0])
    first_piece = cut_rows(ROWS)[0][0]
    assert batch["input_ids"][0].tolist() == [*row, *[0] * (64 - length)]
    assert batch["labels"][0, 1:first_piece].tolist() == row[1:first_piece]
    assert set(batch["labels"][0, length:].tolist()) == {-100} == {batch["labels"][0, 0].item()}


# Each worker is a fork of pytest, which has grown large by now: `make test` has as few as show the claim.
SOAK = pytest.mark.soak


@pytest.mark.parametrize(
    ("drop_last", "workers"),
    [
        *[(False, workers) for workers in (0, 1, 2, 3)],
        *[(True, workers) for workers in (0, 2)],
        *[pytest.param(True, workers, marks=SOAK) for workers in (1, 3)],
    ],
)
def test_the_order_is_the_loaders_whatever_the_number_of_workers(
    dataset: LoadedDataset, workers: int, drop_last: bool
) -> None:
    options = OPTIONS | {"drop_last": drop_last}
    expected = ids(dataset.loader(**options))
    batches = dataset.torch(**options)
    assert len(batches) == len(expected) == (25 if drop_last else 26)
    assert ids(data.DataLoader(batches, batch_size=None, num_workers=workers)) == expected


def test_a_spawned_worker_opens_the_dataset_again(dataset: LoadedDataset) -> None:
    loader = dataset.torch(**OPTIONS).dataloader(1, multiprocessing_context="spawn")
    assert ids(loader) == ids(dataset.loader(**OPTIONS))


def test_ranks_share_the_global_batch(dataset: LoadedDataset) -> None:
    parts = [
        ids(dataset.torch(**OPTIONS | {"batch_size": 2}, rank=rank, world=2).dataloader(1)) for rank in (0, 1)
    ]
    joined = [first + second for first, second in zip(*parts, strict=True)]
    assert joined == ids(dataset.loader(**OPTIONS))


@pytest.mark.parametrize(
    ("taken", "workers"),
    [
        (0, [(2, 1)]),
        (7, [(0, 2), (2, 3), (3, 0)]),
        (25, [(2, 3)]),
        *[pytest.param(taken, [(0, 2), (2, 3), (3, 0)], marks=SOAK) for taken in (0, 25)],
    ],
)
def test_a_state_holds_for_another_number_of_workers(
    dataset: LoadedDataset, taken: int, workers: list[tuple[int, int]]
) -> None:
    expected = ids(dataset.loader(**OPTIONS)) + ids(dataset.loader(**OPTIONS, epoch=1))
    for before, after in workers:
        loader = dataset.torch(**OPTIONS).dataloader(before)
        iterator = iter(loader)
        assert ids(next(iterator) for _ in range(taken)) == expected[:taken]
        state = json.loads(json.dumps(loader.state_dict()))
        assert state["samples"] == 4 * taken
        del iterator
        resumed = dataset.torch(**OPTIONS).dataloader(after)
        resumed.load_state_dict(state)
        assert len(resumed) == 25 - taken
        assert ids(resumed) == expected[taken:25]
        assert resumed.state_dict()["epoch"] == 1
        if (before, after) == (2, 3):
            assert ids(resumed) == expected[25:]


def test_a_loop_that_is_left_early_goes_on_where_it_was(dataset: LoadedDataset) -> None:
    expected = ids(dataset.loader(**OPTIONS))
    loader = dataset.torch(**OPTIONS).dataloader(2)
    for step, batch in enumerate(loader):
        assert batch["input_ids"].tolist() == expected[step]
        if step == 9:
            break
    assert ids(loader) == expected[10:]


def test_a_plain_data_loader_begins_the_epoch_that_it_is_told(dataset: LoadedDataset) -> None:
    batches = dataset.torch(**OPTIONS)
    loader = data.DataLoader(batches, batch_size=None, num_workers=2)
    epochs = [ids(dataset.loader(**OPTIONS, epoch=epoch)) for epoch in range(2)]
    assert epochs[0] != epochs[1]
    for epoch in range(2):
        batches.set_epoch(epoch)
        assert ids(loader) == epochs[epoch]
    lasting = data.DataLoader(
        dataset.torch(**OPTIONS), batch_size=None, num_workers=2, persistent_workers=True
    )
    assert [ids(lasting), ids(lasting)] == epochs


@pytest.mark.parametrize("workers", [0, 2])
def test_torchdatas_stateful_data_loader_resumes_at_every_step(dataset: LoadedDataset, workers: int) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    expected = ids(dataset.loader(**OPTIONS))
    loader = stateful(dataset.torch(**OPTIONS), batch_size=None, num_workers=workers)
    states = [loader.state_dict()]
    for step, batch in enumerate(loader):
        assert batch["input_ids"].tolist() == expected[step]
        states.append(loader.state_dict())
    for taken in (0, 1, 2, 11, 23, 24) if workers == 0 else (1, 12, 24):
        resumed = stateful(dataset.torch(**OPTIONS), batch_size=None, num_workers=workers)
        resumed.load_state_dict(states[taken])
        assert ids(resumed) == expected[taken:]
    assert len(states) == 26


def test_rows_are_for_torchs_own_samplers(dataset: LoadedDataset) -> None:
    rows = dataset.torch(labels=None, position_ids=True)
    assert len(rows) == 103
    assert rows[-1]["input_ids"].tolist() == [*ROWS[-1], *[0] * (64 - len(ROWS[-1]))]
    assert set(rows[0]) == {"input_ids", "position_ids"}
    sampled = data.DataLoader(rows, batch_size=8, sampler=list(range(102, -1, -1)), num_workers=1)
    stacked = torch.cat([batch["input_ids"] for batch in sampled])
    assert stacked.tolist() == [[*row, *[0] * (64 - len(row))] for row in ROWS[::-1]]
    with pytest.raises(IndexError, match=r"out of range: there are 103 rows"):
        rows[103]


def test_tensors_keep_their_memory_while_later_batches_are_made(dataset: LoadedDataset) -> None:
    kept = list(dataset.torch(**OPTIONS))
    assert ids(kept) == ids(dataset.loader(**OPTIONS))
    array = np.ones(3)
    assert torch.from_numpy(array).data_ptr() == array.ctypes.data


@pytest.mark.parametrize("option", [{"persistent_workers": True}, {"in_order": False}, {"batch_size": 2}])
def test_options_that_would_break_the_count_are_refused(
    dataset: LoadedDataset, option: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match=f"`{next(iter(option))}` is"):
        dataset.torch(**OPTIONS).dataloader(1, **option)


def test_torch_is_needed_only_here_and_named_if_it_is_missing(folder: Path) -> None:
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "import krill.loading.dataset as loading\n"
        "from krill.errors import MissingExtra\n"
        "dataset = loading.load(sys.argv[1])\n"
        "try:\n    dataset.torch(batch_size=2)\n"
        "except MissingExtra as error:\n    print(error.hint)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "pip install 'krill-lm[torch]'\n"
    assert MissingExtra("x", "torch").exit_code == 2
