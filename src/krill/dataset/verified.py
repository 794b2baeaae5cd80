"""Shards that are read once from beginning to end, and hashed along the way.

In: a shard. Out: its bytes, and in the end whether they are those that were written: an InputError if not. No
byte is read a second time but a few at the borders of what the caller asks for. Held in memory: one record
batch, which the caller's arrays are views of; of a Parquet file, what Arrow asks for at once.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from krill.dataset.shard import ShardInfo
from krill.dataset.shard_file import ShardFile
from krill.storage.checksums import READ_BYTES, refuse_checksum


class VerifiedBatches(ShardFile):
    """A token shard whose record batches are asked for one after the other."""

    def __init__(self, folder: Path, shard: ShardInfo) -> None:
        super().__init__(folder, shard)
        self._hash = hashlib.sha256()
        self._start = 0
        self._held = bytearray()

    def hold(self, batch: int) -> None:
        """Read a record batch, and what stands between it and the one before; reads that follow are of it."""
        self._start += len(self._held)
        self._held = bytearray(self.batch_end(batch) - self._start)
        super().read_into(self._held, self._start)
        self._hash.update(self._held)

    def read_into(self, target: Any, offset: int) -> None:
        """Out of what is held."""
        if memoryview(target).nbytes == 0:
            return
        view = memoryview(target).cast("B")
        first = offset - self._start
        view[:] = memoryview(self._held)[first : first + len(view)]

    def tokens(self, dtype: np.dtype[Any], offset: int, count: int) -> npt.NDArray[Any]:
        """Tokens of the batch that is held, as a view of it."""
        return np.frombuffer(self._held, dtype, count, offset - self._start)

    def finish(self) -> None:
        """After the last batch."""
        begin = self._start + len(self._held)
        rest = bytearray(self.shard.bytes - begin)
        super().read_into(rest, begin)
        self._hash.update(rest)
        if (found := self._hash.hexdigest()) != self.shard.sha256:
            refuse_checksum(str(self.path), found, self.shard.sha256)


class VerifiedReads(io.RawIOBase):
    """A shard as a file for Arrow's Parquet reader, which reads it in order but for the end, which comes
    first: what is passed over is read for its hash alone."""

    def __init__(self, file: ShardFile) -> None:
        super().__init__()
        self._file = file
        self._hash = hashlib.sha256()
        self._hashed = 0
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._file.shard.bytes}[whence]
        self._position = max(0, begin + offset)
        return self._position

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._file.shard.bytes - self._position)
        content = bytes(self._file.read(self._position, left if size < 0 else min(size, left)))
        if 0 <= self._position - self._hashed <= READ_BYTES:
            self._hash_until(self._position)
            self._hash.update(content)
            self._hashed += len(content)
        self._position += len(content)
        return content

    def finish(self) -> None:
        """After everything was read."""
        self._hash_until(self._file.shard.bytes)
        if (found := self._hash.hexdigest()) != self._file.shard.sha256:
            refuse_checksum(str(self._file.path), found, self._file.shard.sha256)

    def _hash_until(self, end: int) -> None:
        while self._hashed < end:
            content = self._file.read(self._hashed, min(READ_BYTES, end - self._hashed))
            self._hash.update(content)
            self._hashed += len(content)
