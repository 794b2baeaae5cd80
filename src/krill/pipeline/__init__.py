"""The main job: documents in, packed dataset out, inside the budget.

In: a config. Out: the dataset folder and its `krill-run.json`. Four stages over fixed units, each unit
committed on its own: *scan* (read, clean, filter, hash), *resolve* (who survives dedup), *encode* (a token
run per unit), *pack* (shards, assembled independently); *text* and *rejected* write documents themselves
when asked. Scan is skipped when nothing global is asked and every file can be read from any place.

Held in memory: the blocks in flight, the tokenizer, one table while duplicates are resolved, one batch per
shard being written. What each may take comes from the plan alone.
"""

from krill.pipeline.estimation import Estimate, estimate
from krill.pipeline.job import preprocess
from krill.pipeline.summary import Summary

__all__ = [
    "Estimate",
    "Summary",
    "estimate",
    "preprocess",
]
