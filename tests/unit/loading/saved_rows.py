"""Datasets of every kind for the tests: random rows, how they are saved, and what a source gives of them."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from krill.dataset import DatasetPart, Layout, RowBatch, ShardWriter, token_shard_name
from krill.dataset.rows import RowSource
from krill.loading.dataset import open_krill_rows
from krill.loading.foreign.opening import open_source
from made_dataset import save_manifest


def random_rows(count: int, *, longest: int = 40, shortest: int = 0, seed: int = 7) -> list[list[int]]:
    chance = random.Random(seed)
    lengths = [chance.randint(shortest, longest) for _ in range(count)]
    return [[chance.randrange(30_000) for _ in range(length)] for length in lengths]


def cut_rows(rows: Sequence[Sequence[int]], seed: int = 3) -> list[list[int]]:
    """Lengths of pieces for each row, which add up to the row's."""
    chance = random.Random(seed)
    found = []
    for row in rows:
        borders = sorted(chance.sample(range(1, len(row)), k=min(2, len(row) - 1))) if len(row) > 1 else []
        ends = [*borders, len(row)] if row else []
        found.append([end - start for start, end in pairwise([0, *ends])])
    return found


def write_stream(path: Path, table: pa.Table, batch_rows: int = 100, **options: Any) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema, **options) as writer:
        writer.write_table(table, max_chunksize=batch_rows)


def save_folder(folder: Path, tables: Sequence[pa.Table], **state: Any) -> Path:
    """A folder as `save_to_disk` leaves it."""
    folder.mkdir(parents=True)
    names = [f"data-{number:05d}-of-{len(tables):05d}.arrow" for number in range(len(tables))]
    for name, table in zip(names, tables, strict=True):
        write_stream(folder / name, table)
    files = [{"filename": name} for name in names]
    content = {"_data_files": files, "_fingerprint": "0123456789abcdef", **state}
    (folder / "state.json").write_text(json.dumps(content))
    return folder


def save_krill(
    folder: Path, rows: Sequence[Sequence[int]], pieces: Sequence[Sequence[int]], shards: int
) -> Path:
    """A dataset of Krill's, of rows that have 1 to 64 tokens."""
    folder.mkdir(parents=True)
    layout = Layout(64, "uint16", rows_per_batch=16, fixed=False)
    step = -(-len(rows) // shards)
    infos = []
    for number in range(shards):
        wanted = slice(number * step, (number + 1) * step)
        with ShardWriter(folder / token_shard_name(number), layout) as writer:
            writer.write(
                RowBatch(*_flat(rows[wanted], "uint16", "int64"), *_flat(pieces[wanted], "int32", "int32"))
            )
            infos.append(writer.close())
    part = DatasetPart(layout, tuple(infos))
    save_manifest(folder, part, vocab_size=30_000)
    return folder


def _flat(lists: Sequence[Sequence[int]], dtype: str, offset_dtype: str) -> tuple[Any, Any]:
    values = np.array([value for each in lists for value in each], dtype)
    return values, np.cumsum([0, *map(len, lists)], dtype=offset_dtype)


def opened(path: str | Path, cache: Path, **options: Any) -> RowSource:
    """What is behind a path or URL, as `load` opens it."""
    if (Path(path) / "krill-run.json").is_file():
        return open_krill_rows(path, cache_bytes=100_000)
    settings: dict[str, Any] = {"reading_bytes": 100_000, "cache_dir": cache, "cache_size": 10**9}
    return open_source(path, **(settings | options))


def read_rows(source: RowSource, rows: Sequence[int]) -> list[list[int]]:
    """The tokens of rows."""
    batch = source.read(np.array(rows, np.int64))
    assert batch.rows == len(rows)
    return [batch.tokens[start:end].tolist() for start, end in pairwise(batch.offsets)]


def read_pieces(source: RowSource, rows: Sequence[int]) -> list[list[int]]:
    """The lengths of the pieces of rows."""
    batch = source.read(np.array(rows, np.int64))
    ends = batch.seq_offsets
    return [batch.seq_lengths[start:end].tolist() for start, end in pairwise(ends)]
