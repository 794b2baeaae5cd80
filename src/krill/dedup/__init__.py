"""Who survives: which documents are copies of earlier ones, or nearly so.

In: one file of 128-bit hashes, or of MinHash bands, per unit, in input order; perhaps such files of documents
seen before. Out: one file of keep bits per unit; of documents that are equal, or hang together as
near-duplicates, the first one wins, across all datasets. Held in memory: no more than the share that was
given, whatever the number of documents; beyond it, they go through files in the spill folder. Bloom dedup
holds a filter of a size known before.

`resolve_exact` and `resolve_minhash` do it in one process. The same work as tasks that meet only in files, on
any machines, with the same keep bits: `split_hashes`, `answer_hashes`, `join_hashes`; and `split_bands`,
`answer_bands`, `cluster_edges`.
"""

from krill.dedup.bloom import bloom_bytes, resolve_bloom
from krill.dedup.exact import MIN_SHARE, resolve_exact, spill_bytes, table_bytes
from krill.dedup.index import DedupIndex, Generation, Pending
from krill.dedup.index_folder import hash_kind, minhash_kind
from krill.dedup.minhash import MinHash, bands_and_rows
from krill.dedup.near import (
    CLUSTER_RECORD,
    SEEN_BEFORE,
    Resolution,
    near_least_share,
    near_memory_share,
    near_spill_bytes,
    near_useful_share,
    resolve_minhash,
)
from krill.dedup.partitioned_exact import answer_hashes, join_hashes, plan_hashes, split_hashes
from krill.dedup.partitioned_near import answer_bands, cluster_edges, plan_bands, split_bands
from krill.dedup.pieces import keep_pieces, piece_hashes
from krill.dedup.shuffle import Shuffle, cut_groups
from krill.dedup.verify import Verify, verify_share, verify_spill_bytes

__all__ = [
    "CLUSTER_RECORD",
    "MIN_SHARE",
    "SEEN_BEFORE",
    "DedupIndex",
    "Generation",
    "MinHash",
    "Pending",
    "Resolution",
    "Shuffle",
    "Verify",
    "answer_bands",
    "answer_hashes",
    "bands_and_rows",
    "bloom_bytes",
    "cluster_edges",
    "cut_groups",
    "hash_kind",
    "join_hashes",
    "keep_pieces",
    "minhash_kind",
    "near_least_share",
    "near_memory_share",
    "near_spill_bytes",
    "near_useful_share",
    "piece_hashes",
    "plan_bands",
    "plan_hashes",
    "resolve_bloom",
    "resolve_exact",
    "resolve_minhash",
    "spill_bytes",
    "split_bands",
    "split_hashes",
    "table_bytes",
    "verify_share",
    "verify_spill_bytes",
]
