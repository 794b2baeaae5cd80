"""Dedup: which documents are copies of earlier ones, or nearly so.

In: one file of 128-bit hashes, or of MinHash bands, per unit, in input order; perhaps such files of documents
seen before. Out: one file of keep bits per unit; of documents that are equal, or connected as
near-duplicates, the first one is kept, across all datasets. Held in memory: no more than the share that was
given, whatever the number of documents; beyond it, they go through files in the spill folder. Bloom dedup
holds a filter of a size known before.

`dedup_exact` and `dedup_minhash` do it in one process. The same work as tasks that share nothing but files,
on any machines, with the same keep bits: `split_hashes`, `answer_hashes`, `join_hashes`; and `split_bands`,
`answer_bands`, `cluster_edges`.
"""

from krill.dedup.bloom import bloom_bytes, dedup_bloom
from krill.dedup.exact import (
    MIN_SHARE,
    answer_hashes,
    dedup_exact,
    join_hashes,
    keep_lines,
    line_hashes,
    plan_hashes,
    spill_bytes,
    split_hashes,
    table_bytes,
)
from krill.dedup.index import DedupIndex, IndexGeneration, Pending, hash_kind, minhash_kind
from krill.dedup.minhash import (
    CLUSTER_RECORD,
    SEEN_BEFORE,
    MinHash,
    MinhashResult,
    answer_bands,
    bands_and_rows,
    cluster_edges,
    dedup_minhash,
    minhash_memory_share,
    minhash_min_share,
    minhash_spill_bytes,
    minhash_useful_share,
    plan_bands,
    split_bands,
)
from krill.dedup.shuffle import ShufflePlan, cut_groups
from krill.dedup.verify import Verify, verify_share, verify_spill_bytes
from krill.lazy import lazy_names

__all__ = [
    "CLUSTER_RECORD",
    "MIN_SHARE",
    "SEEN_BEFORE",
    "DedupIndex",
    "IndexGeneration",
    "MinHash",
    "MinhashResult",
    "Pending",
    "ShufflePlan",
    "Verify",
    "answer_bands",
    "answer_hashes",
    "bands_and_rows",
    "bloom_bytes",
    "cluster_edges",
    "cut_groups",
    "dedup_bloom",
    "dedup_exact",
    "dedup_minhash",
    "hash_kind",
    "join_hashes",
    "keep_lines",
    "line_hashes",
    "minhash_kind",
    "minhash_memory_share",
    "minhash_min_share",
    "minhash_spill_bytes",
    "minhash_useful_share",
    "plan_bands",
    "plan_hashes",
    "spill_bytes",
    "split_bands",
    "split_hashes",
    "table_bytes",
    "verify_share",
    "verify_spill_bytes",
]

__getattr__ = lazy_names(__name__)[0]  # former names
