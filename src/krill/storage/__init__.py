"""Files that are whole or absent, the commit log, object stores, and the run.

In: what stages and commands write. Out: files under their final names, and a record on disk of each unit that
is done. Held in memory: one small record per unit.
"""

from krill.storage.commits import CommitLog

__all__ = ["CommitLog"]
