"""Who survives: which documents are copies of earlier ones.

In: one file of 128-bit hashes per unit, in input order. Out: one file of keep bits per unit; of equal
documents the first one wins, across all datasets. Held in memory: no more than the share that was given,
whatever the number of documents; beyond it, hashes go through files in the spill folder.
"""

from krill.dedup.exact import MIN_SHARE, resolve_exact, spill_bytes, table_bytes

__all__ = ["MIN_SHARE", "resolve_exact", "spill_bytes", "table_bytes"]
