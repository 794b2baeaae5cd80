"""Threads and resume: the only thread pool and the only commit log.

In: pieces of work in input order. Out: their results in the same order, and a record on disk of each unit
that is done. Held in memory: the work in flight, bounded in bytes, and one small record per unit.
"""

from krill.flow.commits import CommitLog
from krill.flow.ordered import Gate, Throttle, ordered_map

__all__ = ["CommitLog", "Gate", "Throttle", "ordered_map"]
