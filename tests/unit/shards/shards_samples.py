"""Small datasets for the tests of this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from krill.shards import (
    DatasetPart,
    Layout,
    Manifest,
    ShardInfo,
    ShardWriter,
    TextPart,
    TextShardWriter,
    text_shard_name,
    token_shard_name,
    write_dataset_files,
)

VOCAB_SIZE = 200
TEXT_SCHEMA = pa.schema([("text", pa.large_string()), ("url", pa.string())])


class Rows:
    """Random rows whose documents' lengths fill each row exactly."""

    def __init__(self, layout: Layout, count: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        length = layout.sequence_len
        self.layout = layout
        self.input_ids = rng.integers(0, VOCAB_SIZE, (count, length)).astype(layout.dtype)
        self.documents: list[np.ndarray] = []
        for _ in range(count):
            cuts = rng.choice(length, size=rng.integers(0, min(length, 4)), replace=False)
            borders = np.unique(np.concatenate(([0], cuts, [length])))
            self.documents.append(np.diff(borders).astype(np.int32))

    def __len__(self) -> int:
        return len(self.input_ids)

    def arguments(self, start: int, end: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What `ShardWriter.write` takes for some of the rows."""
        documents = self.documents[start:end]
        offsets = np.cumsum([0, *map(len, documents)], dtype=np.int32)
        lengths = np.concatenate([np.empty(0, np.int32), *documents]).astype(np.int32)
        return self.input_ids[start:end], offsets, lengths


def write_shard(path: Path, rows: Rows, start: int = 0, end: int | None = None, step: int = 7) -> ShardInfo:
    """Write rows `start` to `end`, `step` rows a call."""
    end = len(rows) if end is None else end
    with ShardWriter(path, rows.layout) as writer:
        for first in range(start, end, step):
            writer.write(*rows.arguments(first, min(end, first + step)))
        return writer.close()


def write_dataset(folder: Path, rows: Rows, rows_per_shard: int, **changes: Any) -> Manifest:
    """A whole output folder with token rows."""
    starts = range(0, max(1, len(rows)), rows_per_shard)
    shards = tuple(
        write_shard(folder / token_shard_name(number), rows, start, min(len(rows), start + rows_per_shard))
        for number, start in enumerate(starts)
    )
    write_dataset_files(folder, rows.layout, shards)
    return save_manifest(folder, dataset=DatasetPart(rows.layout, shards), **changes)


def text_batch(texts: list[str], urls: list[str | None] | None = None) -> pa.RecordBatch:
    urls = urls if urls is not None else [None] * len(texts)
    return pa.RecordBatch.from_arrays(
        [pa.array(texts, pa.large_string()), pa.array(urls, pa.string())], schema=TEXT_SCHEMA
    )


def write_text(folder: Path, shards: list[list[str]]) -> Manifest:
    """A whole output folder with kept documents."""
    infos = []
    for number, texts in enumerate(shards):
        with TextShardWriter(folder / text_shard_name(number), TEXT_SCHEMA) as writer:
            writer.write(text_batch(texts))
            infos.append(writer.close())
    return save_manifest(folder, text=TextPart(tuple(infos)))


def save_manifest(folder: Path, **changes: Any) -> Manifest:
    fields: dict[str, Any] = {
        "krill": "0.1.0",
        "command": "preprocess",
        "identity": "0123456789abcdef",
        "config": {"seed": 42},
        "inputs": [{"path": "corpus.jsonl", "bytes": 10}],
        "budget": {"limit": 256_000_000, "predicted_peak": 200_000_000, "measured_peak": 190_000_000},
        "seconds": 1.5,
        "stages": [
            {"name": "scan", "seconds": 1.0, "bytes": 9, "documents": 5, "tokens": 0, "peak": 100_000_000}
        ],
        "documents": {"read": 5, "kept": 3, "dropped": {"too_short": 1, "duplicate": 1}, "notes": {}},
        "tokens": {"kept": 900, "dropped_short": 10, "dropped_tail": 4},
        "tokenizer": {"name": "bytes", "vocab_size": VOCAB_SIZE},
    }
    manifest = Manifest(**(fields | changes))
    manifest.save(folder)
    return manifest
