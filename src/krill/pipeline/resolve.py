"""Resolve: which of the scanned documents survive dedup.

In: what the scan noted of each unit, and files of what counts as seen before. Out: for each unit a file of
keep bits and, if wanted, one of clusters, all in one commit. Held in memory: the method's share of the plan,
whatever the number of documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from krill.config import DedupConfig
from krill.dedup import (
    Verify,
    dedup_bloom,
    dedup_exact,
    dedup_minhash,
    hash_kind,
    minhash_kind,
)
from krill.dedup.datatrove_minhash import dedup_with_datatrove
from krill.pipeline.context import Context
from krill.pipeline.dedup_needs import DEDUP_TABLE, minhash_of
from krill.pipeline.kept import CLUSTERS, KEEP, KeptUnits
from krill.pipeline.scan import BANDS, HASHES
from krill.storage import CommitLog

if TYPE_CHECKING:
    import pyarrow as pa


def kind_of(dedup: DedupConfig) -> str:
    """What is compared with what: numbers of different kinds don't belong together."""
    minhash = minhash_of(dedup)
    return hash_kind(dedup.level) if minhash is None else minhash_kind(minhash)


def noted_files(dedup: DedupConfig, scanned: CommitLog) -> list[Path]:
    """Where that is which the scan noted of each unit for this method."""
    name = BANDS if dedup.method == "minhash" else HASHES
    return [scanned.place(unit, name) for unit in scanned.units()]


def resolve(
    context: Context, scanned: CommitLog, log: CommitLog, prior: Sequence[Path], units: KeptUnits
) -> dict[str, Any]:
    """Write the keep bits of every unit, unless that was done before; the record of what was found."""
    if 0 not in log:
        keep_files = [log.place(unit, KEEP) for unit in scanned.units()]
        cluster_files = None
        dedup = context.config.preprocess.dedup
        if dedup.method == "minhash" and dedup.clusters:
            cluster_files = [log.place(unit, CLUSTERS) for unit in scanned.units()]
        found = _resolved(context, scanned, prior, units, keep_files, cluster_files)
        log.commit(0, found, [*keep_files, *(cluster_files or ())])
    return log.record(0)


def _resolved(
    context: Context,
    scanned: CommitLog,
    prior: Sequence[Path],
    units: KeptUnits,
    keep_files: Sequence[Path],
    cluster_files: Sequence[Path] | None,
) -> dict[str, Any]:
    dedup = context.config.preprocess.dedup
    files = noted_files(dedup, scanned)
    context.folder.files.bring([*files, *prior])
    spill = context.folder.stages / "resolve-spill"
    share = context.plan.share(DEDUP_TABLE)
    if dedup.method == "exact":
        return {
            "duplicates": dedup_exact(
                files, keep_files, share=share, spill=spill, threads=context.threads, prior=prior
            )
        }
    if dedup.method == "bloom":
        assert dedup.expected_documents is not None
        return {
            "duplicates": dedup_bloom(
                files,
                keep_files,
                expected_documents=dedup.expected_documents,
                false_positive_rate=dedup.false_positive_rate,
                prior=prior,
            )
        }
    minhash = minhash_of(dedup)
    assert minhash is not None
    if dedup.implementation == "datatrove":
        counts = [record["documents"] for _, record in scanned]
        return asdict(dedup_with_datatrove(minhash, counts, keep_files, read_unit=_texts(units), spill=spill))
    found = dedup_minhash(
        files,
        keep_files,
        bands=minhash.bands,
        share=share,
        spill=spill,
        threads=context.threads,
        prior=prior,
        verify=None if dedup.verify is None else Verify(dedup.verify, _texts(units), dedup.ngram),
        cluster_files=cluster_files,
    )
    return asdict(found)


def _texts(units: KeptUnits) -> Callable[[int], Iterator[pa.Array]]:
    """The text columns of the k-th scanned unit."""
    positions = units.positions()

    def texts(unit: int) -> Iterator[pa.Array]:
        for block in units.blocks(positions[unit]):
            yield block.read()[0].column("text")

    return texts
