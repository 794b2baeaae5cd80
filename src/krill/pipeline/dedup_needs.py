"""What deduplication asks of the plan, and of the disk.

In: the config and about how much text there is. Out: the share that resolving needs, and the bytes that it
keeps on disk meanwhile. The costs of each method are its own; here they meet the number of documents.
"""

from __future__ import annotations

from typing import Final

from krill.budget import Kind, Need
from krill.config import DedupConfig, KrillConfig
from krill.dedup import (
    MIN_SHARE,
    MinHash,
    bands_and_rows,
    bloom_bytes,
    minhash_min_share,
    minhash_spill_bytes,
    minhash_useful_share,
    spill_bytes,
    table_bytes,
    verify_share,
    verify_spill_bytes,
)
from krill.dedup.databases import import_duckdb
from krill.dedup.index import DATABASES, storage_of
from krill.dedup.index_database import DUCKDB_HELD, DUCKDB_WORK, SQLITE_BYTES
from krill.dedup.minhash import BANDS, ROWS

DEDUP_TABLE: Final = "dedup table"
# What is compared is taken to be this long on average until it has been counted, rather short than long.
ASSUMED_BYTES: Final = {"document": 1000, "paragraph": 200, "line": 50}
_HASH_BYTES: Final = 16
_BAND_BYTES: Final = 8
_POSITION_BYTES: Final = 8


def minhash_of(dedup: DedupConfig) -> MinHash | None:
    """The MinHash that a config asks for, if it does."""
    if dedup.method != "minhash":
        return None
    bands, rows = dedup.bands or BANDS, dedup.rows or ROWS
    if dedup.threshold is not None:
        bands, rows = bands_and_rows(dedup.threshold)
    return MinHash(bands, rows, dedup.ngram)


def compared(dedup: DedupConfig, text_bytes: int) -> int:
    """About how many documents, or pieces of them, so much text has."""
    return text_bytes // ASSUMED_BYTES[dedup.level]


def dedup_needs(config: KrillConfig, text_bytes: int | None) -> list[Need]:
    """The share of resolving; without `text_bytes`, the least that any input needs."""
    dedup = config.preprocess.dedup
    if dedup.method == "none":
        return []
    if dedup.method == "bloom":
        assert dedup.expected_documents is not None
        size = bloom_bytes(dedup.expected_documents, dedup.false_positive_rate)
        remedy = "set preprocess.dedup.expected_documents lower, or dedup: exact, which fits any budget"
        return [Need(DEDUP_TABLE, size, during="resolve", remedy=remedy)]
    known = compared(dedup, text_bytes or 0)
    minhash = minhash_of(dedup)
    if minhash is None:
        least, useful = MIN_SHARE, table_bytes(known)
    else:
        least, useful = minhash_min_share(known), minhash_useful_share(known, minhash.bands)
        if dedup.verify is not None:
            least += verify_share(config.preprocess.max_document_bytes)
    useful = 2**62 if text_bytes is None else max(least, useful)
    # No block is read meanwhile, which the plan counts as held always.
    expected = useful if minhash is None else useful * 3 // 5
    return [Need(DEDUP_TABLE, least, useful=useful, expected=expected, during="resolve")]


def databases_of(config: KrillConfig) -> set[str]:
    """The databases that a run opens: for its own index, and for those among `against`."""
    settings = config.preprocess
    found = {storage_of(path) for path in settings.dedup.against}
    if settings.dedup_cache_dir is not None:
        found.add(settings.dedup.index)
    return {storage for storage in found if storage in DATABASES}


def load_databases(config: KrillConfig) -> None:
    """Import them before the plan takes stock; raises where one is not installed."""
    if "duckdb" in databases_of(config):
        import_duckdb()


def index_needs(config: KrillConfig) -> list[Need]:
    """What databases hold while an index is read or written, which happens between the stages."""
    databases = databases_of(config)
    if "duckdb" in databases:
        remedy = "set preprocess.dedup.index to sqlite, in another dedup_cache_dir"
        return [
            Need("DuckDB", DUCKDB_HELD, Kind.WATCHED, remedy=remedy),
            Need("the index in DuckDB", DUCKDB_WORK, Kind.WATCHED, during="index"),
        ]
    return [Need("the index in SQLite", SQLITE_BYTES, Kind.WATCHED, during="index")] if databases else []


def dedup_disk(dedup: DedupConfig, documents: int, text_bytes: int) -> int:
    """Bytes that so many documents, or pieces, of so much text keep on disk until they are resolved."""
    minhash = minhash_of(dedup)
    if dedup.method == "none":
        return 0
    positions = 0 if dedup.index == "files" else documents * _POSITION_BYTES
    if minhash is not None:
        noted = documents * minhash.bands * _BAND_BYTES + positions
        verified = 0 if dedup.verify is None else verify_spill_bytes(documents, text_bytes)
        return noted + minhash_spill_bytes(documents, minhash.bands, 0) + verified
    return documents * _HASH_BYTES + positions + (spill_bytes(documents) if dedup.method == "exact" else 0)
