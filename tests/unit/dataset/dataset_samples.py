"""Small datasets for the tests of this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from krill.dataset import (
    DatasetPart,
    Layout,
    Manifest,
    RowBatch,
    ShardInfo,
    ShardWriter,
    TextPart,
    TextShardWriter,
    text_shard_name,
    token_shard_name,
    write_dataset_parts,
)

VOCAB_SIZE = 200
TEXT_SCHEMA = pa.schema([("text", pa.large_string()), ("url", pa.string())])


class Rows:
    """Random rows, full ones or of any length that the layout allows, and the lengths of their documents."""

    def __init__(self, layout: Layout, count: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.layout = layout
        self.input_ids: list[np.ndarray] = []
        self.documents: list[np.ndarray] = []
        for _ in range(count):
            length = layout.sequence_len if layout.fixed else int(rng.integers(1, layout.sequence_len + 1))
            self.input_ids.append(rng.integers(0, VOCAB_SIZE, length).astype(layout.dtype))
            cuts = rng.choice(length, size=rng.integers(0, min(length, 4)), replace=False)
            borders = np.unique(np.concatenate(([0], cuts, [length])))
            self.documents.append(np.diff(borders).astype(np.int32))

    def __len__(self) -> int:
        return len(self.input_ids)

    def batch(self, start: int, end: int) -> RowBatch:
        """Some of the rows, as `ShardWriter.write` takes them."""
        return RowBatch(
            *_flat(self.input_ids[start:end], self.layout.dtype, np.int64),
            *_flat(self.documents[start:end], np.dtype(np.int32), np.int32),
        )


def _flat(parts: list[np.ndarray], dtype: np.dtype, offset_type: type) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.cumsum([0, *map(len, parts)], dtype=offset_type)
    return np.concatenate([np.empty(0, dtype), *parts]).astype(dtype), offsets


def write_shard(path: Path, rows: Rows, start: int = 0, end: int | None = None, step: int = 7) -> ShardInfo:
    """Write rows `start` to `end`, `step` rows a call."""
    end = len(rows) if end is None else end
    with ShardWriter(path, rows.layout) as writer:
        for first in range(start, end, step):
            writer.write(rows.batch(first, min(end, first + step)))
        return writer.close()


def write_dataset(folder: Path, rows: Rows, rows_per_shard: int, **changes: Any) -> Manifest:
    """A whole output folder with token rows."""
    part = DatasetPart(rows.layout, _write_shards(folder, rows, rows_per_shard))
    write_dataset_parts(folder, [part])
    return save_manifest(folder, dataset=part, **changes)


def write_splits(folder: Path, train: Rows, validation: Rows, rows_per_shard: int) -> Manifest:
    """A whole output folder with a validation split."""
    parts = []
    for split, rows in (("train", train), ("validation", validation)):
        (folder / split).mkdir()
        parts.append(DatasetPart(rows.layout, _write_shards(folder / split, rows, rows_per_shard), split))
    write_dataset_parts(folder, parts)
    return save_manifest(folder, dataset=parts[0], validation=parts[1])


def _write_shards(folder: Path, rows: Rows, rows_per_shard: int) -> tuple[ShardInfo, ...]:
    starts = range(0, max(1, len(rows)), rows_per_shard)
    return tuple(
        write_shard(folder / token_shard_name(number), rows, start, min(len(rows), start + rows_per_shard))
        for number, start in enumerate(starts)
    )


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
