"""Datasets of known documents, for the tests of exporting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from dataset_samples import save_manifest

from krill.dataset import (
    DatasetPart,
    Layout,
    Manifest,
    RowBatch,
    ShardInfo,
    ShardWriter,
    token_shard_name,
    write_dataset_parts,
)

EOS = 0
VOCAB_SIZE = 1000

Rows = list[list[list[int]]]
"""Rows of pieces of tokens."""


def some_documents(count: int, longest: int = 40, seed: int = 0) -> list[list[int]]:
    """Documents that end with EOS and have it nowhere else."""
    rng = np.random.default_rng(seed)
    return [[*rng.integers(1, VOCAB_SIZE, rng.integers(0, longest)).tolist(), EOS] for _ in range(count)]


def wrapped(documents: list[list[int]], sequence_len: int) -> Rows:
    """What `wrapped` packing makes of documents; the last short row is dropped."""
    rows: Rows = [[]]
    for document in documents:
        left = document
        while left:
            room = sequence_len - sum(map(len, rows[-1]))
            rows[-1].append(left[:room])
            left = left[room:]
            if sum(map(len, rows[-1])) == sequence_len:
                rows.append([])
    return rows[:-1]


def row_batch(rows: Rows, dtype: str = "uint16", labels: bool = False) -> RowBatch:
    """Rows as the reader gives them; of those with labels, even tokens are learned."""
    widths = [sum(map(len, row)) for row in rows]
    lengths = [len(piece) for row in rows for piece in row]
    tokens = np.array([token for row in rows for piece in row for token in piece], dtype)
    return RowBatch(
        tokens,
        np.cumsum([0, *widths], dtype=np.int64),
        np.array(lengths, np.int32),
        np.cumsum([0, *map(len, rows)], dtype=np.int32),
        np.where(tokens % 2 == 0, tokens, -100).astype(np.int32) if labels else None,
    )


def samples_of(rows: Rows, layout: Layout) -> list[dict[str, np.ndarray]]:
    """What a format that keeps all columns of rows gives back."""
    found = []
    for row in rows:
        batch = row_batch([row], layout.token_dtype, layout.labels)
        sample: dict[str, np.ndarray] = {"input_ids": batch.tokens, "seq_lengths": batch.seq_lengths}
        if batch.labels is not None:
            sample["labels"] = batch.labels
        if layout.attention_mask:
            sample["attention_mask"] = np.ones(len(batch.tokens), np.int8)
        found.append(sample)
    return found


def same_samples(found: Iterable[Mapping[str, Any]], expected: list[dict[str, np.ndarray]]) -> bool:
    """Whether names, types and values are the same."""
    read = list(found)
    return len(read) == len(expected) and all(
        set(one) == set(other)
        and all(
            one[name].dtype == other[name].dtype and one[name].tolist() == other[name].tolist()
            for name in one
        )
        for one, other in zip(read, expected, strict=True)
    )


def write_rows(
    folder: Path,
    rows: Rows,
    layout: Layout,
    *,
    validation: Rows | None = None,
    rows_per_shard: int = 1000,
    vocab_size: int = VOCAB_SIZE,
    eos_id: int | None = EOS,
    part: dict[str, Any] | None = None,
    **preprocess: Any,
) -> Manifest:
    """An output folder with these rows; `preprocess` are keys of the config that it seems made with."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"train": rows} if validation is None else {"train": rows, "validation": validation}
    made = []
    for split, its_rows in parts.items():
        name = None if validation is None else split
        empty = DatasetPart(layout, (), name)
        shards = _write_shards(empty.folder(folder), its_rows, layout, rows_per_shard)
        made.append(replace(empty, shards=shards, **(part or {})))
    write_dataset_parts(folder, made)
    return save_manifest(
        folder,
        config={"preprocess": {"packing": "wrapped" if layout.fixed else "bfd", **preprocess}},
        dataset=made[0],
        validation=made[1] if validation is not None else None,
        tokenizer={"name": "some", "vocab_size": vocab_size, "eos_id": eos_id, "fingerprint": "some-1"},
    )


def _write_shards(folder: Path, rows: Rows, layout: Layout, rows_per_shard: int) -> tuple[ShardInfo, ...]:
    folder.mkdir(exist_ok=True)
    shards = []
    for number, first in enumerate(range(0, max(1, len(rows)), rows_per_shard)):
        with ShardWriter(folder / token_shard_name(number), layout) as writer:
            writer.write(row_batch(rows[first : first + rows_per_shard], layout.token_dtype, layout.labels))
            shards.append(writer.close())
    return tuple(shards)
