"""One shard, read by position, and hashed along the way where its checksum is asked for.

In: a folder and what its manifest says of a file. Out: exactly the bytes asked for, read into memory that the
caller owns; no mapping, since mapped pages count against the budget. Held in memory: one file descriptor, and
a mebibyte while hashing.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from krill.dataset.shard import ShardInfo
from krill.errors import InputError
from krill.storage.input_file import open_descriptor
from krill.storage.outputs import DAMAGED_HINT, READ_BYTES, refuse_checksum

END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
"""Arrow's marker after the last record batch."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn an OSError of the body, which must do nothing but read `path`, into an InputError."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"`{path}` is missing, but the manifest names it", hint=DAMAGED_HINT) from None
    except OSError as error:
        raise InputError(f"cannot read `{path}`: {error.strerror or error}", hint=DAMAGED_HINT) from error


class ShardFile:
    """An open shard of the size that the manifest states. Reads carry their position: any thread may read."""

    def __init__(self, folder: Path, shard: ShardInfo) -> None:
        self._descriptor: int | None = None
        self.shard = shard
        self.path = folder / shard.file
        with reading(self.path):
            self._descriptor = open_descriptor(self.path)
            size = os.fstat(self._descriptor).st_size
        if size != shard.bytes:
            state = "truncated" if size < shard.bytes else "too long"
            self.fail(f"is {state}: it has {size} bytes, and the manifest says {shard.bytes}")

    def fail(self, problem: str) -> NoReturn:
        raise InputError(f"`{self.path}` {problem}", hint=DAMAGED_HINT)

    def read_into(self, target: Any, offset: int) -> None:
        """Fill `target`, a writable buffer, from `offset`."""
        assert self._descriptor is not None
        if memoryview(target).nbytes == 0:
            return
        view = memoryview(target).cast("B")
        done = 0
        while done < len(view):
            with reading(self.path):
                count = os.preadv(self._descriptor, [view[done:]], offset + done)
            if count == 0:
                self.fail(f"is truncated: it ends at byte {offset + done}")
            done += count

    def read(self, offset: int, size: int) -> bytearray:
        content = bytearray(size)
        self.read_into(content, offset)
        return content

    def batch_end(self, batch: int) -> int:
        """Where the message of record batch `batch` ends: at the next one, or at the end-of-stream marker."""
        following = self.shard.batches[batch + 1 : batch + 2]
        return following[0] if following else self.shard.bytes - len(END_OF_STREAM)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    # The last reference closes the file: another thread may still read when a reader drops it.
    __del__ = close


class VerifiedReads(io.RawIOBase):
    """A shard as a file that is hashed as it is read, for Arrow's Parquet reader: it reads in order but for
    the end, which comes first. What is passed over is read for its hash alone."""

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
            self.hash_until(self._position)
            self._hash.update(content)
            self._hashed += len(content)
        self._position += len(content)
        return content

    def hash_until(self, end: int) -> None:
        """Hash what was not hashed yet before `end`."""
        buffer = memoryview(bytearray(min(READ_BYTES, max(0, end - self._hashed))))
        while self._hashed < end:
            part = buffer[: end - self._hashed]
            self._file.read_into(part, self._hashed)
            self._hash.update(part)
            self._hashed += len(part)

    def finish(self, *, hint: str | None = None) -> None:
        """Hash the rest; an InputError if the file is not the one that was written."""
        self.hash_until(self._file.shard.bytes)
        if (found := self._hash.hexdigest()) != self._file.shard.sha256:
            stated = {} if hint is None else {"hint": hint}
            refuse_checksum(str(self._file.path), found, self._file.shard.sha256, **stated)
