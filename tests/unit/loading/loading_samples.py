"""Small datasets for the tests of this folder."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from krill.dataset import (
    DatasetPart,
    Layout,
    Manifest,
    RowBatch,
    ShardWriter,
    SourceRows,
    token_shard_name,
    write_dataset_parts,
)

VOCAB_SIZE = 200


class SampleRows:
    """Random rows of documents, full ones or of any length that the layout allows."""

    def __init__(self, layout: Layout, count: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.layout = layout
        self.documents: list[list[list[int]]] = []
        for _ in range(count):
            length = layout.sequence_len if layout.fixed else int(rng.integers(1, layout.sequence_len + 1))
            tokens = rng.integers(0, VOCAB_SIZE, length)
            cuts = np.unique(rng.integers(1, length, rng.integers(0, 4))) if length > 1 else []
            self.documents.append([part.tolist() for part in np.split(tokens, cuts)])

    def __len__(self) -> int:
        return len(self.documents)

    def tokens(self, row: int) -> list[int]:
        return [token for document in self.documents[row] for token in document]

    def batch(self, rows: range | list[int]) -> RowBatch:
        """Some of the rows, in the form that sources and writers have."""
        tokens = [self.tokens(row) for row in rows]
        lengths = [[len(document) for document in self.documents[row]] for row in rows]
        return RowBatch(
            np.array(list(chain(*tokens)), self.layout.dtype),
            np.cumsum([0, *map(len, tokens)], dtype=np.int64),
            np.array(list(chain(*lengths)), np.int32),
            np.cumsum([0, *map(len, lengths)], dtype=np.int32),
        )


def write_rows(
    folder: Path, rows: SampleRows, rows_per_shard: int, sources: tuple[SourceRows, ...] = ()
) -> Path:
    """A whole output folder, whose manifest says of its sources what is given."""
    folder.mkdir(parents=True, exist_ok=True)
    shards = []
    for number, first in enumerate(range(0, max(1, len(rows)), rows_per_shard)):
        with ShardWriter(folder / token_shard_name(number), rows.layout) as writer:
            writer.write(rows.batch(range(first, min(len(rows), first + rows_per_shard))))
            shards.append(writer.close())
    part = DatasetPart(rows.layout, tuple(shards), None, sources)
    write_dataset_parts(folder, [part])
    save_manifest(folder, part)
    return folder


def save_manifest(folder: Path, part: DatasetPart) -> None:
    facts: dict[str, Any] = {
        "krill": "0.1.0",
        "command": "preprocess",
        "identity": "0123456789abcdef",
        "config": {},
        "inputs": [],
        "budget": {"limit": 1, "predicted_peak": 1, "measured_peak": 1},
        "seconds": 1.0,
        "stages": [],
        "documents": {"read": 1, "kept": 1, "dropped": {}, "notes": {}},
        "tokens": {"kept": 1, "dropped_short": 0, "dropped_tail": 0},
        "tokenizer": {"name": "bytes", "vocab_size": VOCAB_SIZE},
    }
    Manifest(**facts, dataset=part).save(folder)
