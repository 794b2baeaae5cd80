"""The two JSON files that make a folder of shards a Hugging Face dataset.

Comes in: the layout and the finished shards. Goes out: `state.json` and `dataset_info.json`, the same bytes
for the same shards. Held in memory: the two files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from krill.flow.atomic import encode_json, write_bytes
from krill.shards.layout import Layout
from krill.shards.shard import ShardInfo


def write_dataset_files(folder: str | Path, layout: Layout, shards: Sequence[ShardInfo]) -> None:
    """Make `folder`, which holds `shards`, one that `datasets.load_from_disk` opens."""
    for name, content in dataset_files(layout, shards).items():
        write_bytes(Path(folder) / name, content)


def dataset_files(layout: Layout, shards: Sequence[ShardInfo]) -> dict[str, bytes]:
    """The files' contents by name."""
    if not shards:
        raise ValueError("a dataset has at least one shard, which may have no rows")
    state: dict[str, Any] = {
        "_data_files": [{"filename": shard.file} for shard in shards],
        "_fingerprint": fingerprint(layout, shards),
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
    info = {"citation": "", "description": "", "features": layout.features, "homepage": "", "license": ""}
    return {"state.json": encode_json(state), "dataset_info.json": encode_json(info)}


def fingerprint(layout: Layout, shards: Sequence[ShardInfo]) -> str:
    """What Hugging Face keys its caches with: here a hash of the content, so equal datasets share them."""
    content = [layout.to_json(), [shard.sha256 for shard in shards]]
    return hashlib.sha256(orjson.dumps(content)).hexdigest()[:16]
