"""Near-duplicates as datatrove finds them: its own stages on our documents.

In: a way to read the texts of each unit. Out: a keep bit for each document. Held in memory: what datatrove
holds; its third stage has every document of a cluster in a dictionary, so that the number of duplicates, and
no share, bounds it. For users who want exactly its decisions; `dedup_minhash` is bounded, and keeps the first
document of each cluster.

Each unit is a rank of datatrove's first stage, and all stages run in the order of their ranks in this
process, so that the result does not depend on threads or engine.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from krill.dedup.minhash import MinHash, MinhashResult
from krill.dedup.streams import write_keep_files
from krill.errors import MissingExtra
from krill.storage.atomic import storage_errors

_RECORD = np.dtype("<u4")


def dedup_with_datatrove(
    minhash: MinHash,
    counts: Sequence[int],
    keep_files: Sequence[Path],
    *,
    read_unit: Callable[[int], Iterator[pa.Array]],
    spill: Path,
) -> MinhashResult:
    """Write the keep bits of each unit, which has so many documents; its texts come from `read_unit`."""
    stages = _import_stages()
    settings = stages.MinhashConfig(
        n_grams=minhash.ngram, num_buckets=minhash.bands, hashes_per_bucket=minhash.rows
    )
    signatures, matches, removed = (str(spill / name) for name in ("signatures", "matches", "removed"))
    with storage_errors(spill):
        shutil.rmtree(spill, ignore_errors=True)
        spill.mkdir(parents=True)
        first = stages.MinhashDedupSignature(signatures, settings)
        for unit in range(len(counts)):
            first.run(_documents(read_unit(unit)), unit, len(counts))
        second = stages.MinhashDedupBuckets(signatures, matches, config=settings)
        for bucket in range(minhash.bands):
            second.run(None, bucket, minhash.bands)
        stages.MinhashDedupCluster(matches, removed, settings, save_cluster_id=True).run(None, 0, 1)
        clusters = _cluster_sizes(Path(removed), len(counts))
    flags = (_flags(Path(removed), unit, count) for unit, count in enumerate(counts))
    duplicates = write_keep_files(flags, counts, keep_files)
    with storage_errors(spill):
        shutil.rmtree(spill)
    return MinhashResult(duplicates, len(clusters), int(clusters.max(initial=0)))


def _documents(columns: Iterator[pa.Array]) -> Iterator[Any]:
    from datatrove.data import Document

    for column in columns:
        for text in column.to_pylist():
            yield Document(text, "")


def _flags(folder: Path, unit: int, count: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    flags = np.ones(count, np.uint8)
    flags[_numbers(folder / f"{unit:06d}.remove")] = 0
    return flags


def _cluster_sizes(folder: Path, units: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    members = [_numbers(folder / f"{unit:06d}.clusters")[1::2] for unit in range(units)]
    return np.unique(np.concatenate([np.empty(0, _RECORD), *members]), return_counts=True)[1]


def _numbers(path: Path) -> np.ndarray[Any, np.dtype[np.uint32]]:
    return np.fromfile(path, _RECORD) if path.exists() else np.empty(0, _RECORD)


def _import_stages() -> Any:
    try:
        from datatrove.pipeline.dedup import minhash
        from datatrove.utils.logging import logger
    except ImportError:
        raise MissingExtra("`dedup.implementation: datatrove`", "datatrove") from None
    logger.remove()  # it would write to the terminal; what is wrong is raised
    return minhash
