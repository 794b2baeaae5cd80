"""The JSON files that make a folder of shards a Hugging Face dataset, or a folder of splits one of several.

In: the layout and the finished shards. Out: `state.json` and `dataset_info.json`, and `dataset_dict.json`
above splits; the same bytes for the same shards. Held in memory: the files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from krill.dataset.layout import Layout
from krill.dataset.manifest import DatasetPart
from krill.dataset.shard import ShardInfo
from krill.storage.atomic import encode_json, write_bytes
from krill.storage.outputs import OutputKind, stated_checksums

_OF_A_SPLIT: Final = ("state.json", "dataset_info.json")
_OF_SPLITS: Final = "dataset_dict.json"
# What an unfinished run may have left in an output that is written in place.
_NAMES: Final = re.compile(
    r"(?:(?:train|validation)/)?(?:(?:data|text|rejected)-\d+\.(?:arrow|parquet)|state\.json|dataset_info\.json)"
    r"|dataset_dict\.json|examples\.jsonl"
)


def output_kind(command: str) -> OutputKind:
    return OutputKind(command, _written_files, _NAMES)


def _written_files(manifest: Mapping[str, Any]) -> set[str]:
    shards = set(stated_checksums(manifest))
    parts = [part for name in ("dataset", "validation") if isinstance(part := manifest.get(name), dict)]
    splits = [part["split"] for part in parts if isinstance(part.get("split"), str)]
    folders = [f"{split}/" for split in splits] or [""]
    return {*shards, _OF_SPLITS, *(f"{folder}{name}" for folder in folders for name in _OF_A_SPLIT)}


def write_dataset_parts(root: Path, parts: Sequence[DatasetPart]) -> None:
    """Make `root`, which holds the shards of all parts, what `datasets.load_from_disk` opens."""
    for name, content in all_dataset_files(parts).items():
        write_bytes(root / name, content)


def all_dataset_files(parts: Sequence[DatasetPart]) -> dict[str, bytes]:
    """The files' contents by their path in the output folder."""
    files: dict[str, bytes] = {}
    for part in parts:
        for name, content in dataset_files(part.layout, part.shards, part.split).items():
            files[name if part.split is None else f"{part.split}/{name}"] = content
    splits = [part.split for part in parts if part.split is not None]
    if splits:
        files[_OF_SPLITS] = encode_json({"splits": splits})
    return files


def dataset_files(layout: Layout, shards: Sequence[ShardInfo], split: str | None = None) -> dict[str, bytes]:
    if not shards:
        raise ValueError("a dataset has at least one shard, which may have no rows")
    state: dict[str, Any] = {
        "_data_files": [{"filename": shard.file} for shard in shards],
        "_fingerprint": fingerprint(layout, shards),
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": split,
    }
    info = {"citation": "", "description": "", "features": layout.features, "homepage": "", "license": ""}
    return {"state.json": encode_json(state), "dataset_info.json": encode_json(info)}


def fingerprint(layout: Layout, shards: Sequence[ShardInfo]) -> str:
    """What Hugging Face keys its caches with: here a hash of the content, so equal datasets share them."""
    content = [layout.to_json(), [shard.sha256 for shard in shards]]
    return hashlib.sha256(orjson.dumps(content)).hexdigest()[:16]
