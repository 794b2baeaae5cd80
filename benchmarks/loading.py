"""`krill.load` beside Hugging Face `datasets` and a raw memory map: one thread, rows of 2,048, batches of 32.

All read the same folder, from the page cache. Random batches are `dataset[32 random rows]`; the memory map,
a plain file of the same tokens, has them sorted, as suits it. A budget of 2 GB lets Krill map the dataset,
too. The shuffled epoch is a loader's, labels included, beside the shuffled iterable of `datasets` with its
default buffer, which makes no labels: its rows stacked, as a torch DataLoader does, and its own batches.
Memory and opening are those of a dataset of 50 GB, all of whose shards are one file, in a process of its
own. Resuming is the first batch after `load_state_dict`, at the beginning, in the middle and at the end of
that dataset's epoch.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from krill.dataset import DatasetPart, token_shard_name
from krill.loading import load
from made_dataset import LAYOUT, WIDTH, linked_dataset, save_manifest, write_shard
from measured import run_measured
from results import Results, again

BATCH = 32
ROWS = int(os.environ.get("BENCH_ROWS", "100000"))
ROUNDS = 5


def main() -> None:
    """Each job: ours, then the peers', then the ratio."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one core, and nobody's thread pool on another
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_dataset(folder / "dataset", ROWS)
        results = again("loading", "datasets")
        random_batches(folder, results)
        shuffled_epoch(folder, results)
        results.save()
        large = linked_dataset(folder / "50gb", shards=250, batches=200)
        memory(large)
        opening(large)
        resuming(large)


def random_batches(folder: Path, results: Results) -> None:
    import datasets

    rng = np.random.default_rng(0)
    picks = [rng.integers(0, ROWS, BATCH) for _ in range(500)]
    ours = load(folder / "dataset", memory="2GB")
    peer = datasets.load_from_disk(str(folder / "dataset")).with_format("numpy")
    plain = folder / "plain.bin"
    with plain.open("wb") as file:
        for first in range(0, ROWS, 4096):
            ours[first : first + 4096]["input_ids"].tofile(file)
    mapped = np.memmap(plain, np.uint16, mode="r").reshape(-1, WIDTH)
    ordered = [np.sort(pick) for pick in picks]
    speeds = side_by_side(
        {
            "Krill": lambda: count(ours[pick]["input_ids"] for pick in picks),
            "memory map": lambda: count(mapped[pick] for pick in ordered),
        },
        len(picks),
    )
    speeds |= side_by_side({"datasets": lambda: count(peer[pick]["input_ids"] for pick in picks[:50])}, 50)
    tell(results, f"random batches of {BATCH} rows", speeds)


def shuffled_epoch(folder: Path, results: Results) -> None:
    import datasets

    ours = load(folder / "dataset", memory="2GB").loader(batch_size=BATCH, shuffle=True, prefetch=0)
    peer = datasets.load_from_disk(str(folder / "dataset")).to_iterable_dataset().with_format("numpy")
    shuffled, steps = peer.shuffle(seed=0), min(100, ROWS // BATCH)

    def stacked() -> Iterator[object]:
        rows = iter(shuffled)
        for _ in range(steps):
            yield np.stack([row["input_ids"] for row in islice(rows, BATCH)])

    speeds = side_by_side({"Krill, with labels": lambda: count(ours)}, ours.steps)
    speeds |= side_by_side(
        {
            "datasets, rows stacked": lambda: count(stacked()),
            "datasets, its own batches": lambda: count(islice(iter(shuffled.batch(BATCH)), steps)),
        },
        steps,
    )
    tell(results, "a shuffled epoch", speeds)


_MEMORY = """
import json, sys
from krill.budget import peak_bytes
from krill.loading import load
loader = load(sys.argv[1], memory="64MB").loader(batch_size=32, shuffle=True)
peaks = []
for step, _ in enumerate(loader, start=1):
    if step in (1_000, 20_000):
        peaks.append(peak_bytes())
    if step == 20_000:
        break
print(json.dumps(peaks))
"""


def memory(dataset: Path) -> None:
    outcome = run_measured([sys.executable, "-c", _MEMORY, dataset])
    assert outcome.code == 0, outcome.err
    early, late = json.loads(outcome.out)
    print(f"memory, 50 GB    {early / 1e6:.0f} MB after 1,000 batches, {late / 1e6:.0f} MB after 20,000")


_OPENING = """
import time
begun = time.perf_counter()
import numpy
there = time.perf_counter()
import sys
from krill.loading import load
next(iter(load(sys.argv[1], memory="64MB").loader(batch_size=32, shuffle=True)))
print(there - begun, time.perf_counter() - there)
"""


def opening(dataset: Path) -> None:
    """Importing NumPy is told apart: whoever trains has it already."""
    found = [run_measured([sys.executable, "-c", _OPENING, dataset]).out.split() for _ in range(ROUNDS)]
    numpy, ours = (statistics.median(float(times[which]) for times in found) for which in (0, 1))
    print(
        f"open, 50 GB      import, open and first batch {1e3 * ours:.0f} ms, and NumPy {1e3 * numpy:.0f} ms"
    )


def resuming(dataset: Path) -> None:
    loader = load(dataset, memory="64MB").loader(batch_size=BATCH, shuffle=True, prefetch=0)
    times = []
    for step in (0, loader.steps // 2, loader.steps - 1):
        state = loader.state_dict() | {"samples": step * BATCH}
        rounds = []
        for _ in range(20):
            begun = time.perf_counter()
            loader.load_state_dict(state)
            next(iter(loader))
            rounds.append(time.perf_counter() - begun)
        times.append(f"{1e3 * statistics.median(rounds):.2f} ms at step {step}")
    print(f"resume           {', '.join(times)}")


def side_by_side(jobs: dict[str, Callable[[], object]], batches: int) -> dict[str, list[float]]:
    """Tokens a second of each job, round by round in turns, so that noise hits all."""
    speeds: dict[str, list[float]] = {name: [] for name in jobs}
    for job in jobs.values():
        job()
    for _ in range(ROUNDS):
        for name, job in jobs.items():
            begun = time.perf_counter()
            job()
            speeds[name].append(batches * BATCH * WIDTH / (time.perf_counter() - begun))
    return speeds


def tell(results: Results, job: str, speeds: dict[str, list[float]]) -> None:
    """The fastest round of each; ours is the first."""
    ours, *peers = ((name, max(found) / 1e6) for name, found in speeds.items())
    results.add(job=job, program=ours[0], rate=ours[1])
    for name, rate in peers:
        results.add(job=job, program=name, rate=rate, faster=ours[1] / rate)


def count(batches: Iterable[object]) -> int:
    """Each batch is made, and let go of before the next."""
    return sum(1 for _ in batches)


def write_dataset(folder: Path, rows: int) -> None:
    """Random tokens, three documents a row, in two shards."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    shards = [
        write_shard(folder / token_shard_name(number), -(-rows // 2 // LAYOUT.rows_per_batch), rng)
        for number in range(2)
    ]
    save_manifest(folder, DatasetPart(LAYOUT, tuple(shards)), vocab_size=32_000)


if __name__ == "__main__":
    main()
