"""Small files that others may have written: read whole, and never waited for.

In: a path. Out: its bytes, an open file, or what its JSON says. Held in memory: the file, of at most so many
bytes as the caller says.

What stands at the path may be a pipe that nobody writes to or a device that never ends, and a file may have
any size: all of them are an OSError, to whose text the caller adds what it wanted there.
"""

from __future__ import annotations

import errno
import os
import stat
from abc import ABC, abstractmethod
from io import FileIO
from pathlib import Path
from typing import Any, Final, Self

# A manifest of ten million record batches has a third of this.
MOST_MANIFEST: Final = 256_000_000
# What Krill or others write beside a model, a checkpoint or a dataset: some kilobytes.
MOST_SETTINGS: Final = 32_000_000

# Bytes that JSON takes in Python: an object with its table, a list, and for each value itself and its place.
_OBJECT_BYTES: Final = 232
_PAGES: Final = 2**16  # large values begin and end in pages of their own
_LIST_BYTES: Final = 64
_VALUE_BYTES: Final = 64
_QUOTE_BYTES: Final = 42  # a string, by its two quotes; as a key of a large object it takes this much


class ClosedOnExit(ABC):
    """Used in a `with`, it is closed at the end."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_descriptor(path: str | os.PathLike[str], *, links: bool = True) -> int:
    """The descriptor of a regular file, or, with `links`, of the one that a link names, to be read."""
    # Else opening a pipe that nobody writes to waits for somebody.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    try:
        kind = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(kind):
            raise _refused(errno.EISDIR, "it is a folder", path)
        if not stat.S_ISREG(kind):
            raise _refused(errno.EINVAL, "it is not a regular file", path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def open_regular(path: str | os.PathLike[str], *, links: bool = True) -> FileIO:
    """A regular file, to be read; without a buffer."""
    return FileIO(open_descriptor(path, links=links), "rb")


def read_input(path: str | os.PathLike[str], most: int | None = None, *, links: bool = True) -> bytes:
    """All of a regular file, if that is at most `most` bytes."""
    with open_regular(path, links=links) as file:
        size = os.fstat(file.fileno()).st_size
        if most is not None and size > most:
            raise _refused(errno.EFBIG, f"it has {size:,} bytes, and at most {most:,} are read", path)
        content = file.read(size + 1)
        # A file that grows meanwhile, or one of the system's, which say no size.
        while most is None or len(content) <= most:
            more = file.read(2**20)
            if not more:
                return content
            content += more
    raise _refused(errno.EFBIG, f"it has more than {most:,} bytes", path)


def read_json(path: str | os.PathLike[str], most: int = MOST_SETTINGS, *, links: bool = True) -> Any:
    """What a file of JSON says; a ValueError if it is not JSON."""
    import orjson

    return orjson.loads(read_input(path, most, links=links))


def read_object(path: str | os.PathLike[str], *, links: bool = True) -> dict[str, Any] | None:
    """The JSON object in a file such as a manifest; None where there is no such file."""
    try:
        found = read_json(path, MOST_MANIFEST, links=links)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def json_bytes(content: bytes) -> int:
    """The most that Python holds of JSON while it is read, the text itself included."""
    costs = {b"{": _OBJECT_BYTES, b"[": _LIST_BYTES, b",": _VALUE_BYTES, b'"': _QUOTE_BYTES}
    values = _VALUE_BYTES + sum(cost * content.count(mark) for mark, cost in costs.items())
    # One character beyond the basic plane makes four bytes of each character of its string.
    wide = not content.isascii() or b"\\u" in content
    return (6 if wide else 2) * len(content) + values + _PAGES


def _refused(number: int, fact: str, path: str | os.PathLike[str]) -> OSError:
    return OSError(number, fact, str(Path(path)))
