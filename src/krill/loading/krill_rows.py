"""Krill datasets on this machine, opened for training.

In: a folder. Out: a `ShardReader`. Opening reads the manifest and looks at the size of each shard, so that a
missing or truncated one is reported before training begins and not hours into it. Held in memory: what the
reader says.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

from krill.dataset.manifest import DatasetPart, Manifest, SourceRows
from krill.dataset.reader import ShardReader, part_of
from krill.dataset.shard import ShardInfo
from krill.errors import InputError
from krill.storage.outputs import DAMAGED_HINT

OnMissing = Literal["fail", "skip"]

_SKIP_HINT = f'{DAMAGED_HINT}; `on_missing="skip"` leaves its rows out'


def open_krill_rows(
    path: str | Path,
    *,
    split: str = "train",
    cache_bytes: int = 8_000_000,
    mapped_bytes: int = 0,
    verify: bool = False,
    on_missing: OnMissing = "fail",
) -> ShardReader:
    """The rows of a split; `skipped_rows` counts those that `on_missing="skip"` left out."""
    folder = Path(path)
    whole = part_of(folder, Manifest.load(folder), split)
    present = _present_shards(whole.folder(folder), whole.shards, on_missing)
    part = replace(whole, shards=tuple(present), sources=_sources_of_present(whole, present))
    return ShardReader(
        str(path),
        part,
        part.paths(folder),
        cache_bytes=cache_bytes,
        mapped_bytes=mapped_bytes,
        verify=verify,
        skipped_rows=whole.rows - part.rows,
    )


def _present_shards(folder: Path, shards: tuple[ShardInfo, ...], on_missing: OnMissing) -> list[ShardInfo]:
    """The shards that are there, whole by their size; without `skip`, a missing one is an error."""
    sizes = _sizes_in(folder)
    present = [shard for shard in shards if sizes.get(shard.file) == shard.bytes]
    if on_missing == "fail" and len(present) < len(shards):
        shard = next(shard for shard in shards if sizes.get(shard.file) != shard.bytes)
        size = sizes.get(shard.file)
        if size is None:
            problem = "is missing, but the manifest names it"
        else:
            state = "truncated" if size < shard.bytes else "too long"
            problem = f"is {state}: it has {size} bytes, and the manifest says {shard.bytes}"
        raise InputError(f"`{folder / shard.file}` {problem}", hint=_SKIP_HINT)
    return present


def _sizes_in(folder: Path) -> dict[str, int]:
    """The bytes of each file, from one scan of the folder."""
    sizes = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # a link to nothing
                    sizes[entry.name] = entry.stat().st_size
    except FileNotFoundError:  # the folder of a split
        return {}
    except OSError as error:
        raise InputError(
            f"cannot read `{folder}`: {error.strerror}", hint="check the folder's permissions"
        ) from error
    return sizes


def _sources_of_present(part: DatasetPart, present: list[ShardInfo]) -> tuple[SourceRows, ...]:
    """The rows of weighted sources after shards were left out. No shard has rows of two sources."""
    if len(present) == len(part.shards):
        return part.sources
    here = {shard.file for shard in present}
    sources, first = [], 0
    for source in part.sources:
        end = source.first + source.rows
        row, rows = 0, 0
        for shard in part.shards:
            if source.first <= row < end and shard.file in here:
                rows += shard.rows
            row += shard.rows
        tokens = source.tokens * rows // max(1, source.rows)
        sources.append(replace(source, first=first, rows=rows, tokens=tokens))
        first += rows
    return tuple(sources)
