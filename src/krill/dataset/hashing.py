"""The sink below every shard: an atomic file that counts and hashes what passes through it.

Comes in: bytes from Arrow's writers. Goes out: the file, its size and its SHA-256, without reading it back.
Held in memory: one write buffer (8 KiB).
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from krill.dataset.shard import ShardInfo
from krill.storage.atomic import AtomicFile


class HashingFile:
    """What pyarrow takes for a Python file. It raises StorageErrors, which pyarrow passes on unchanged."""

    def __init__(self, path: Path) -> None:
        self._file = AtomicFile(path)
        self._hash = hashlib.sha256()

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, data: Any) -> int:
        self._hash.update(data)
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        """Nothing: Arrow flushes after each message, the file is flushed and synced once, by `commit`."""

    def commit(self, rows: int, batches: tuple[int, ...] = (), tokens: int | None = None) -> ShardInfo:
        self._file.commit()
        name, size = self._file.path.name, self._file.tell()
        return ShardInfo(name, rows, size, self._hash.hexdigest(), batches, tokens)

    def abort(self) -> None:
        self._file.abort()
