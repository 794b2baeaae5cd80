"""Threads: the only thread pool, the gate that bounds what is in flight, worker processes for what Python's
lock would hold up, and progress.

In: items in input order. Out: their results in the same order. Held in memory: the work in flight, bounded in
bytes.
"""

from krill.threads.ordered import Gate, Throttle, ordered_map

__all__ = ["Gate", "Throttle", "ordered_map"]
