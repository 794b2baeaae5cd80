"""`krill export` beside what people write by hand with Hugging Face `datasets`, one thread each.

Both read the same prepared folder. The peers: `to_parquet` and `to_json`, the loop of nanoGPT's `prepare.py`,
which fills a memory map, and for Megatron-LM its own builder, if `megatron-core` is installed, fed a document
at a time. Seconds are of the whole process, imports included.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import yaml

from measured import Outcome, run_measured
from real_text import grow_jsonl
from results import PEAK, RATE, SECONDS, Column, Results, again, figures

SIZE = int(os.environ.get("BENCH_MB", "100")) * 10**6

_PEERS = {
    "parquet": "dataset.to_parquet('peer.parquet')",
    "jsonl": "dataset.to_json('peer.jsonl')",
    "bin": """
import numpy as np
total = len(dataset) * len(dataset[0]['input_ids'])
tokens = np.memmap('peer.bin', dtype=np.uint16, mode='w+', shape=(total,))
at = 0
for shard in range(1024):
    rows = dataset.shard(1024, shard, contiguous=True).with_format('numpy')['input_ids']
    batch = np.concatenate(rows)
    tokens[at : at + len(batch)] = batch
    at += len(batch)
tokens.flush()
""",
    "megatron": """
import torch
from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder
import numpy as np
builder = IndexedDatasetBuilder('peer.megatron', dtype=np.uint16)
begun = []
for row in dataset.with_format('numpy'):
    pieces = np.split(row['input_ids'], np.cumsum(row['seq_lengths'])[:-1])
    for piece in pieces:
        begun.append(piece)
        if piece[-1] == 256:
            document = np.concatenate(begun)
            builder.add_document(torch.from_numpy(document.astype(np.int64)), [len(document)])
            begun = []
builder.finalize('peer.idx')
""",
}


def main() -> None:
    """Every format: ours, then the peer's."""
    krill = Path(sys.executable).with_name("krill")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = {
            "datasets": [{"path": str(grow_jsonl(folder / "corpus.jsonl", SIZE))}],
            "tokenizer": {"builtin": "bytes"},
            "preprocess": {"prepared_path": "dataset", "dedup": "none"},
        }
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        prepared = run_measured([krill, "preprocess", "config.yaml", "--quiet"], cwd=folder)
        assert prepared.code == 0, prepared.err
        size = sum(file.stat().st_size for file in (folder / "dataset").glob("*.arrow"))
        results = again("export", "datasets", columns=_COLUMNS, keys=("format", "program"))
        for to, code in _PEERS.items():
            command = ["export", "dataset", "--to", to, "--memory", "200MB", "--threads", "1", "--quiet"]
            _tell(results, to, "Krill", size, run_measured([krill, *command], cwd=folder))
            shutil.rmtree(folder / f"dataset-{to}")
            if to != "megatron" or find_spec("megatron"):
                _tell(results, to, "by hand", size, run_measured(_peer(folder, code), cwd=folder))
                for file in folder.glob("peer.*"):
                    file.unlink()
        results.save()


def _peer(folder: Path, code: str) -> list[str | Path]:
    opened = f"import datasets; dataset = datasets.load_from_disk({str(folder / 'dataset')!r})"
    return [Path(sys.executable), "-c", f"{opened}\n{code}"]


_COLUMNS = (Column("format", "format"), Column("program", "program"), SECONDS, RATE, PEAK)


def _tell(results: Results, to: str, program: str, size: int, outcome: Outcome) -> None:
    """A row; MB/s are of tokens."""
    assert outcome.code == 0, outcome.err
    rate, cpu = size / outcome.seconds / 1e6, outcome.cpu_seconds
    results.add(format=to, program=program, rate=rate, cpu_seconds=cpu, **figures(outcome))


if __name__ == "__main__":
    main()
