"""`krill.load`: a prepared dataset as a sequence of rows, and as batches for training.

In: a path or URL, a budget. Out: rows by number, and loaders. Opening a folder of Krill's reads the manifest
and looks at the size of each shard, so that a missing or truncated one is reported before training begins and
not hours into it. Held in memory: what the source says it holds (the manifest's table and a cache), and for
each loader the batches that it makes ahead; the plan adds them up, and what doesn't fit is refused before
anything is read. The budget counts what comes on top of what the process held before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from krill.budget.plan import Need, make_plan, resolve_limit
from krill.budget.size import format_size, parse_size
from krill.dataset.manifest import MANIFEST_NAME, DatasetPart, Manifest, SourceRows
from krill.dataset.reader import ShardReader, part_of
from krill.dataset.rows import RowKey, RowSource, select_rows
from krill.dataset.shard import ShardInfo
from krill.errors import ConfigError, InputError
from krill.faults import system_errors
from krill.loading.columns import ColumnMaker, Columns, LabelKind
from krill.loading.loader import Loader, LoaderOptions, find_world
from krill.loading.mixture import JoinedRows, Mixed, OnExhausted, WeightedRows
from krill.loading.order import SHUFFLE_WINDOW, InOrder, Order, Shuffled
from krill.notebook import facts_html
from krill.storage.input_file import ClosedOnExit
from krill.storage.outputs import DAMAGED_HINT

# Indexes of record batches: a few kilobytes for each mebibyte of tokens that is read from again and again.
_LEAST_CACHE = 1_000_000
_USEFUL_CACHE = 32_000_000
# Of the budget, at most: what is left is for the table of shards and for batches.
_CACHE_SHARE = 8
_MAPPED_SHARE = 2
_SKIP_HINT = f'{DAMAGED_HINT}; `on_missing="skip"` leaves its rows out'

OnMissing = Literal["fail", "skip"]


@system_errors()
def load(
    path: str | Path,
    *,
    memory: str | int = "auto",
    split: str = "train",
    verify: bool = False,
    on_missing: OnMissing = "fail",
    cache_dir: str | Path | None = None,
    cache_size: str | int = "10GB",
) -> LoadedDataset:
    """Open a dataset: a folder that Krill or Hugging Face `save_to_disk` wrote, Parquet, or a URL.

    `verify` reads each shard once to its end and holds it against its checksum, when the first of its rows is
    asked for; each worker of a `DataLoader` does so. A missing or truncated shard is an error, or with
    `on_missing="skip"` its rows are left out, and `skipped_rows` counts them. What is fetched from a URL is
    kept in `cache_dir`, at most `cache_size` of it. A Krill dataset that takes no more than half of `memory`
    is mapped: random rows come faster, and the pages that were read count as memory until the system needs
    it.
    """
    if on_missing not in ("fail", "skip"):
        raise ConfigError(f"`on_missing` is `{on_missing}`", hint='give "fail" or "skip"')
    limit = resolve_limit(memory)
    cache = Need("cache", _LEAST_CACHE, useful=min(_USEFUL_CACHE, limit // _CACHE_SHARE))
    plan = make_plan(limit, 0, [cache, Need("mapped", 0, useful=limit // _MAPPED_SHARE)])
    kept = parse_size(cache_size, name="cache_size")
    source: RowSource
    folder = Path(path).expanduser()
    manifest = Manifest.load(folder) if (folder / MANIFEST_NAME).is_file() else None
    if manifest is not None and manifest.command != "export":
        source = open_krill_rows(
            folder,
            manifest=manifest,
            split=split,
            cache_bytes=plan.share("cache"),
            mapped_bytes=plan.share("mapped"),
            verify=verify,
            on_missing=on_missing,
        )
    else:
        # Not at the top: what reads other formats takes longer to import than our first batch takes to come.
        from krill.loading.foreign.opening import open_source

        source = open_source(
            path,
            split=split,
            reading_bytes=plan.share("cache"),
            verify=verify,
            on_missing=on_missing,
            cache_dir=cache_dir,
            cache_size=kept,
        )
    return LoadedDataset(source, limit)


def mix(datasets: Sequence[LoadedDataset], weights: Sequence[float]) -> LoadedDataset:
    """Several datasets as one, whose loaders mix them by `weights`, which are shares of tokens.

    The budget is the sum of theirs. Rows by number are those of the first dataset, then the second, and so
    on.
    """
    joined = JoinedRows([dataset.source for dataset in datasets], weights)
    return LoadedDataset(joined, sum(dataset.limit for dataset in datasets))


class LoadedDataset(ClosedOnExit):
    """`len(dataset)`, `dataset[-1]`, `dataset[10:20]`, `dataset[[5, 1, 5]]`, and loaders over all rows.

    One row is `{"input_ids": array, "seq_lengths": array}`, as stored: unpadded, in the dataset's own type.
    Several rows are `{"input_ids": array[rows, width], "seq_lengths": [array, ...]}`, where `input_ids` is a
    sequence of arrays too if rows vary in length. Safe to use from several threads and after a fork; can be
    pickled.
    """

    def __init__(self, source: RowSource, limit: int) -> None:
        self.source = source
        self.limit = limit
        make_plan(limit, 0, [_reading(source)])  # refuses what doesn't fit

    @property
    def skipped_rows(self) -> int:
        """Rows of missing or truncated shards that were left out."""
        return int(getattr(self.source, "skipped_rows", 0))

    def __len__(self) -> int:
        return self.source.rows

    def _repr_html_(self) -> str:
        """For notebooks: what is in it, without reading a row."""
        source = self.source
        rows: list[tuple[str, object]] = [
            ("rows", f"{source.rows:,}"),
            ("tokens in a row", f"{'' if source.fixed else 'up to '}{source.width:,}"),
            ("tokens", f"{source.tokens:,}"),
            ("type of ids", source.dtype),
            ("budget", format_size(self.limit)),
        ]
        rows += [("rows left out", f"{self.skipped_rows:,}")] if self.skipped_rows else []
        for number, part in enumerate(getattr(source, "sources", ())):
            rows.append((f"source {number}", f"weight {part.weight:g}, {part.rows:,} rows"))
        return facts_html(f"dataset {source.name}", rows)

    def __getitem__(self, key: RowKey) -> dict[str, Any]:
        return select_rows(self.source, key)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[row] for row in range(len(self)))

    def loader(
        self,
        *,
        batch_size: int,
        shuffle: bool = False,
        seed: int = 0,
        epoch: int = 0,
        rank: int | None = None,
        world: int | None = None,
        drop_last: bool = True,
        prefetch: int = 2,
        labels: LabelKind | None = "shifted",
        segment_ids: bool = False,
        position_ids: bool = False,
        attention_mask: bool = False,
        pad_id: int = 0,
        ids_dtype: Literal["int32", "int64"] = "int32",
        shuffle_window: int = SHUFFLE_WINDOW,
        on_exhausted: OnExhausted = "stop",
    ) -> Loader:
        """Batches of all rows, `batch_size` rows a rank.

        `rank` and `world` come from torch.distributed or JAX if these run several processes. `prefetch`
        batches are made ahead on as many threads; 0 makes each when it is asked for. A dataset of weighted
        sources is mixed, and `on_exhausted` says what happens when one of them runs out.
        """
        columns = Columns(labels, segment_ids, position_ids, attention_mask, pad_id, ids_dtype)
        _check_least(1, batch_size=batch_size, shuffle_window=shuffle_window)
        _check_least(0, prefetch=prefetch, epoch=epoch)
        rank, world = find_world(rank, world)
        order = self._order(shuffle, shuffle_window, on_exhausted)
        self._check_enough(order.samples, batch_size, world, drop_last)
        stored = getattr(self.source, "token_bytes", self.source.dtype.itemsize)
        batch_bytes = batch_size * self.source.width * (columns.token_bytes + stored)
        plan = make_plan(self.limit, 0, [_reading(self.source), _batches(prefetch, batch_bytes)])
        ahead = plan.share("batches")
        options = LoaderOptions(batch_size, rank, world, drop_last, prefetch, batch_bytes, ahead)
        identity = {
            "fingerprint": self.source.fingerprint,
            "seed": seed,
            "shuffle": shuffle,
            "shuffle_window": shuffle_window if shuffle else None,
            "mixture": order.identity if isinstance(order, Mixed) else None,
        }
        maker = ColumnMaker(columns, self.source.width, 2 * batch_bytes)
        return Loader(self.source, order, maker, options, identity, epoch)

    def torch(self, **options: Any) -> Any:
        """For `torch.utils.data.DataLoader(..., batch_size=None)`; `docs/loading-torch.md` says more."""
        from krill.loading.torch_data import torch_dataset

        return torch_dataset(self, **options)

    def jax(self, **options: Any) -> Any:
        """Batches of `jax.Array`s, placed on devices; `docs/loading-jax.md` says more."""
        from krill.loading.jax_data import jax_loader

        return jax_loader(self, **options)

    def close(self) -> None:
        """Close files and drop caches; the dataset can still be used and opens them again."""
        self.source.close()

    def _order(self, shuffle: bool, window: int, on_exhausted: OnExhausted) -> Order:
        def order_of(rows: int) -> Order:
            return Shuffled(rows, self.source.block_rows, window) if shuffle else InOrder(rows)

        sources = [source for source in getattr(self.source, "sources", ()) if source.weight > 0]
        if not sources or not self.source.rows:
            return order_of(self.source.rows)
        parts = [WeightedRows(s.first, s.rows, s.tokens, s.weight, order_of(s.rows)) for s in sources]
        return Mixed(parts, on_exhausted)

    def _check_enough(self, samples: int, batch_size: int, world: int, drop_last: bool) -> None:
        if samples < (batch_size * world if drop_last else 1):
            raise InputError(
                f"`{self.source.name}` gives {samples} rows, too few for one batch of {batch_size}"
                f" for each of {world}",
                hint="take a smaller batch_size, or drop_last=False" if samples else None,
            )


def _reading(source: RowSource) -> Need:
    return Need("reading", source.held_bytes)


def _batches(prefetch: int, batch_bytes: int) -> Need:
    """Those made ahead, the one in use, and the memory of two that ended."""
    remedy = "take a smaller batch_size or prefetch"
    return Need("batches", (prefetch + 3) * batch_bytes, remedy=remedy)


def _check_least(least: int, **numbers: int) -> None:
    for name, number in numbers.items():
        if number < least:
            raise ConfigError(f"`{name}` is `{number}`", hint=f"give a number from {least} on")


def open_krill_rows(
    path: str | Path,
    *,
    manifest: Manifest | None = None,
    split: str = "train",
    cache_bytes: int = 8_000_000,
    mapped_bytes: int = 0,
    verify: bool = False,
    on_missing: OnMissing = "fail",
) -> ShardReader:
    """The rows of a split; `skipped_rows` counts those that `on_missing="skip"` left out."""
    folder = Path(path)
    whole = part_of(folder, manifest or Manifest.load(folder), split)
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
