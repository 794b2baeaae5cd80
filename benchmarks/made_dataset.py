"""Datasets for measuring and testing that no run has made: real shards, and a manifest of placeholders.

Comes in: shards, or how many there shall be. Goes out: a folder that Krill and Hugging Face `datasets` open.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from krill.dataset import DatasetPart, Layout, Manifest, RowBatch, ShardInfo, ShardWriter, token_shard_name
from krill.dataset.dataset_files import write_dataset_parts

WIDTH = 2048
LAYOUT = Layout(WIDTH, "uint16")


def save_manifest(folder: Path, part: DatasetPart, vocab_size: int) -> None:
    """What makes a folder of shards a dataset."""
    write_dataset_parts(folder, [part])
    Manifest(
        krill="0.1.0",
        command="preprocess",
        identity="0123456789abcdef",
        config={},
        inputs=[],
        budget={"limit": 1, "predicted_peak": 1, "measured_peak": 1},
        seconds=1.0,
        stages=[],
        documents={"read": 1, "kept": 1, "dropped": {}, "notes": {}},
        tokens={"kept": part.tokens, "dropped_short": 0, "dropped_tail": 0},
        tokenizer={"name": "made", "vocab_size": vocab_size},
        dataset=part,
    ).save(folder)


def write_shard(path: Path, batches: int, rng: np.random.Generator | None) -> ShardInfo:
    """Record batches of rows with three documents each; zeros without a generator."""
    rows = LAYOUT.rows_per_batch
    tokens = np.zeros(rows * WIDTH, np.uint16)
    with ShardWriter(path, LAYOUT) as writer:
        for _ in range(batches):
            if rng is not None:
                tokens = rng.integers(0, 32_000, rows * WIDTH, dtype=np.uint16)
            lengths = np.tile(np.array([500, 800, 748], np.int32), rows)
            starts = np.arange(rows + 1)
            writer.write(RowBatch(tokens, starts * WIDTH, lengths, (starts * 3).astype(np.int32)))
        return writer.close()


def linked_dataset(folder: Path, shards: int, batches: int) -> Path:
    """A dataset whose shards are all the same file: its size on paper, one shard's on disk."""
    folder.mkdir(exist_ok=True)
    shard = write_shard(folder / token_shard_name(0), batches, None)
    for number in range(1, shards):
        (folder / token_shard_name(number)).hardlink_to(folder / shard.file)
    named = tuple(replace(shard, file=token_shard_name(number)) for number in range(shards))
    save_manifest(folder, DatasetPart(LAYOUT, named), vocab_size=32_000)
    return folder
