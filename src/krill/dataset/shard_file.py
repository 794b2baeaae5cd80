"""One shard, read by position.

Comes in: a folder and what its manifest says of a file. Goes out: exactly the bytes asked for, read into
memory that the caller owns; no mapping, since mapped pages count against the budget. Held in memory: one
file descriptor.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from krill.dataset.message import END_OF_STREAM
from krill.dataset.shard import ShardInfo
from krill.errors import InputError
from krill.storage.checksums import DAMAGED_HINT
from krill.storage.input_file import open_descriptor


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
        """`size` bytes from `offset`."""
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

    # A reader forgets a file while another thread may still read from it: the last one to let go closes it.
    __del__ = close
