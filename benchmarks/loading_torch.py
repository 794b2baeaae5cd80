"""torch `DataLoader` with four workers: memory of all processes together, and tokens a second.

Beside a dataset that does nothing, in the same `DataLoader`: it yields one small tensor again and again, so
its memory is what torch and its workers cost by themselves. Beside Hugging Face `datasets` in torch format
too, shuffled by an index. Memory is the PSS of all processes after the last batch, workers still alive;
each case is a process of its own. Batches of 32 rows of 2,048 tokens.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from real_text import grow_jsonl
from results import again

SIZE = int(os.environ.get("BENCH_MB", "100")) * 10**6
WORKERS = 4

_CASE = """
import json, os, sys, time
import torch
from torch.utils.data import DataLoader, IterableDataset

which, context, workers, steps = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])


class Nothing(IterableDataset):
    def __iter__(self):
        while True:
            yield torch.zeros(1)


def loader():
    options = {"num_workers": workers, "multiprocessing_context": context}
    if which == "nothing":
        return DataLoader(Nothing(), batch_size=None, **options)
    if which == "krill":
        import krill
        batches = krill.load("dataset").torch(batch_size=32, shuffle=True)
        return DataLoader(batches, batch_size=None, **options)
    from datasets import load_from_disk
    rows = load_from_disk("dataset").select_columns("input_ids").with_format("torch").shuffle(seed=0)
    return DataLoader(rows, batch_size=32, **options)


def pss(process):
    with open(f"/proc/{process}/smaps_rollup") as file:
        return sum(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))


if __name__ == "__main__":
    batches = iter(loader())
    next(batches)
    begun = time.monotonic()
    for _ in range(steps):
        next(batches)
    seconds = time.monotonic() - begun
    children = open(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read().split()
    total = sum(pss(process) for process in [os.getpid(), *children])
    print(json.dumps({"pss": total, "seconds": seconds}))
    os._exit(0)
"""


def main() -> None:
    """Every case, forked and spawned."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _prepare(folder)
        (folder / "case.py").write_text(_CASE)
        results = again("loading_torch", "datasets", "torch")
        shown = {"nothing": "one that does nothing", "krill": "Krill", "datasets": "datasets"}
        for which, dataset in shown.items():
            found = {context: _measure(folder, which, context) for context in ("fork", "spawn")}
            rates = {
                f"{context}_rate": _STEPS[which] * 32 * 2048 / case["seconds"] / 1e6
                for context, case in found.items()
            }
            memory = {context: case["pss"] / 1e6 for context, case in found.items()}
            results.add(dataset=dataset, **memory, **(rates if which != "nothing" else {}))
        results.save()


_STEPS = {"nothing": 300, "krill": 300, "datasets": 100}


def _measure(folder: Path, which: str, context: str) -> dict[str, float]:
    command = [sys.executable, "case.py", which, context, str(WORKERS), str(_STEPS[which])]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout))


def _prepare(folder: Path) -> None:
    grow_jsonl(folder / "data.jsonl", SIZE)
    config = {
        "datasets": [{"path": "data.jsonl"}],
        "tokenizer": {"builtin": "bytes"},
        "preprocess": {"prepared_path": "dataset", "sequence_len": 2048, "dedup": "none"},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    krill = Path(sys.executable).with_name("krill")
    subprocess.run([krill, "preprocess", "config.yaml", "--quiet"], cwd=folder, check=True)


if __name__ == "__main__":
    main()
