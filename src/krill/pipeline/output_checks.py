"""Inspect an output, and validate it, inside a budget."""

from __future__ import annotations

from pathlib import Path

from krill.budget import RESERVE, Meter, Need, resolve_limit, resolve_threads
from krill.budget.process import metered_process
from krill.config import load_config
from krill.dataset import Inspection, Manifest, Report, inspect, validate
from krill.dataset.duplicates import Cluster, find_clusters
from krill.dataset.inspection import Decode
from krill.errors import KrillError
from krill.tokenizer.open import encoder_needs, open_encoder

# A row group of text with what Arrow makes of it, and the code pages that the first one touches: checking
# 132 MB of Parquet held 58 MB above the base on one thread and 85 MB on two.
_ROW_GROUP = 62_000_000
# A record batch of rows as read and as decoded: 8 MB above its base on 866 MB of shards.
_ROW_BATCH = 10_000_000


def inspect_output(folder: Path, *, samples: int, seed: int, memory: str | int = "auto") -> Inspection:
    """Facts and samples of an output; rows are shown as text if their tokenizer can be opened and fits."""
    limit = resolve_limit(memory)
    manifest = Manifest.load(folder, limit=limit)
    need = Need("samples", _cost(manifest))
    with Meter(limit) as meter:
        decode = _decoder(manifest, meter, need)
        if decode is None:
            meter.plan([need])
        return inspect(folder, samples, seed, decode, room=limit - RESERVE - meter.used)


def inspect_duplicates(folder: Path, *, count: int, memory: str | int = "auto") -> list[Cluster]:
    limit = resolve_limit(memory)
    Manifest.load(folder, limit=limit)  # refused before anything is planned
    with Meter(limit) as meter:
        meter.plan([Need("a row group", _ROW_GROUP)])
        return find_clusters(folder, count, room=limit - RESERVE - meter.used)


def validate_output(folder: str | Path, *, memory: str | int = "auto", threads: int | str = "auto") -> Report:
    """Check every row and every checksum of an output, on all threads that the budget allows."""
    limit, count = resolve_limit(memory), resolve_threads(threads)
    manifest = Manifest.load(folder, limit=limit)
    cost = _cost(manifest)
    need = Need("shards being checked", cost, useful=cost * count)
    parquet = _cost(manifest) == _ROW_GROUP
    with metered_process(limit, count, parquet=parquet) as meter:
        plan = meter.plan([need])
        return validate(folder, threads=max(1, plan.share(need.name) // cost))


def _cost(manifest: Manifest) -> int:
    return _ROW_BATCH if manifest.text is None and manifest.rejected is None else _ROW_GROUP


def _decoder(manifest: Manifest, meter: Meter, beside: Need) -> Decode | None:
    """Makes text of rows; planned for with what is needed beside it. None where ids are shown instead."""
    if manifest.dataset is None:
        return None
    try:
        tokenizer = load_config(dict(manifest.extra["settings"]), environ={}).tokenizer
        plan = meter.plan([beside, *encoder_needs(tokenizer, 0)])
        encoder = open_encoder(tokenizer, plan)
    except (KrillError, KeyError, TypeError, ValueError):
        return None  # moved, gone, or too large for the budget
    described = manifest.tokenizer or {}
    return encoder.decode if encoder.describe()["fingerprint"] == described.get("fingerprint") else None
