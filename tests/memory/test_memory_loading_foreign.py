"""Other people's datasets, and torch's workers, take the same few megabytes whatever the size of the data."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

MB = 10**6
BUDGET = 64 * MB
WIDTH = 1024

_READ = """
import json, sys
import krill.loading.foreign.opening, pyarrow.parquet
from krill.budget import peak_bytes
from krill.loading import load
path, cache = sys.argv[1:]
before = peak_bytes()
loader = load(path, memory="64MB", cache_dir=cache).loader(batch_size=32, shuffle=True, prefetch=1)
rows = sum(len(batch["labels"]) for batch in loader)
print(json.dumps({"rows": rows, "growth": peak_bytes() - before}))
"""

_WORKERS = """
import os, sys
import torch
from torch.utils.data import DataLoader, IterableDataset

class Nothing(IterableDataset):
    def __iter__(self):
        while True:
            yield torch.zeros(1)

def pss(process):
    with open(f"/proc/{process}/smaps_rollup") as file:
        return sum(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))

def with_workers(batches):
    iterator = iter(DataLoader(batches, batch_size=None, num_workers=4))
    for _ in range(12):
        next(iterator)
    children = open(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read().split()
    return sum(pss(process) for process in [os.getpid(), *children])

nothing = with_workers(Nothing())
from krill.loading import load
ours = with_workers(load(sys.argv[1], memory="64MB").torch(batch_size=32, shuffle=True))
print(ours - nothing, flush=True)
os._exit(0)
"""


@pytest.fixture(scope="module")
def table_of() -> Callable[[int], pa.Table]:
    """Rows that are drawn once for all tests here, and forgotten after them."""
    return cache(drawn)


def drawn(rows: int) -> pa.Table:
    ids = np.random.default_rng(0).integers(0, 32_000, size=rows * WIDTH, dtype=np.int32)
    offsets = np.arange(0, rows * WIDTH + 1, WIDTH, dtype=np.int32)
    return pa.table({"input_ids": pa.ListArray.from_arrays(pa.array(offsets), pa.array(ids))})


def output_of(program: str, *arguments: str | Path) -> Any:
    command = [sys.executable, "-W", "ignore", "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def save_arrow(folder: Path, table: pa.Table) -> Path:
    folder.mkdir()
    with pa.OSFile(str(folder / "data.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=1000)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data.arrow"}]}))
    return folder


@pytest.mark.parametrize("kind", ["parquet", "saved"])
def test_a_dataset_ten_times_as_large_is_read_in_the_same_budget(
    tmp_path: Path, kind: str, table_of: Callable[[int], pa.Table]
) -> None:
    growths = []
    for rows in (2_000, 20_000):  # 8 and 82 MB; in Parquet one row group
        path = tmp_path / f"{rows}.parquet"
        if kind == "parquet":
            pq.write_table(table_of(rows), path, row_group_size=rows)
        else:
            path = save_arrow(tmp_path / str(rows), table_of(rows))
        found = output_of(_READ, path, tmp_path / "cache")
        assert found["rows"] == rows // 32 * 32
        growths.append(found["growth"])
    assert max(growths) <= BUDGET
    assert growths[1] - growths[0] < 16 * MB


@pytest.mark.skipif(
    not Path("/proc/self/smaps_rollup").exists(), reason="memory of a tree is read from Linux"
)
@pytest.mark.skipif(find_spec("torch") is None, reason="no torch")  # which this process has no need to load
def test_four_torch_workers_take_little_more_than_those_of_a_dataset_that_does_nothing(
    tmp_path: Path, table_of: Callable[[int], pa.Table]
) -> None:
    folder = save_arrow(tmp_path / "data", table_of(20_000))
    assert output_of(_WORKERS, folder) <= 60 * MB
