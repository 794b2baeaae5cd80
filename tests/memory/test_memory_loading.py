"""Loading holds the same few megabytes whatever the size of the dataset and however long it runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from made_dataset import linked_dataset
from measured import run_measured

MB = 10**6
BUDGET = 64 * MB

READ = """
import json, sys
from krill.budget import peak_bytes
from krill.loading import load
path, *marks = sys.argv[1:]
dataset = load(path, memory="64MB")
loader = dataset.loader(batch_size=32, shuffle=True, rank=0, world=1)
marks, peaks, steps = list(map(int, marks)), [], 0
while marks:
    for batch in loader:
        steps += 1
        if steps == marks[0]:
            peaks.append(peak_bytes())
            marks.pop(0)
            if not marks:
                break
print(json.dumps({"rows": len(dataset), "peaks": peaks}))
"""


@pytest.fixture(scope="module")
def gigabytes_50(tmp_path_factory) -> Path:
    return linked_dataset(tmp_path_factory.mktemp("50gb"), shards=500, batches=100)


def read(dataset: Path, *marks: int) -> tuple[int, list[int], int]:
    """The dataset's bytes, the peaks after so many batches, and the peak of all."""
    outcome = run_measured([sys.executable, "-c", READ, dataset, *map(str, marks)], timeout=600)
    assert outcome.code == 0, outcome.err
    result = json.loads(outcome.out)
    return result["rows"] * 4096, result["peaks"], outcome.peak


@pytest.fixture(scope="module")
def reading(gigabytes_50) -> tuple[int, list[int], int]:
    """Over four windows. One is 2,048 batches long; its 256 blocks' indexes come as it is walked through."""
    return read(gigabytes_50, 1000, 3000, 8200)


def test_a_shuffled_dataset_of_50_gb_takes_less_than_200_mb_and_stays_flat(reading):
    size, (early, _, late), peak = reading
    assert size > 50 * 10**9
    assert peak < 200 * MB
    assert late < early + 8 * MB


def test_a_tenth_of_the_dataset_takes_as_much(reading, tmp_path):
    _, (_, large, _), _ = reading
    _, _, small = read(linked_dataset(tmp_path, shards=50, batches=100), 3000)
    assert large < small + 10 * MB


@pytest.mark.soak
def test_it_is_flat_over_100_000_batches(gigabytes_50):
    _, (early, late), peak = read(gigabytes_50, 20_000, 100_000)
    assert peak < 200 * MB
    assert late < early + 4 * MB
