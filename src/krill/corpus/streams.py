"""Opening files, local or remote, and reading their decoded bytes from the beginning.

Compressed files go through Arrow's decoders (xz through Python's), which read files of several members and
notice a truncated one. Held in memory: one chunk, and the decoder's own window.
"""

from __future__ import annotations

import lzma
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import pyarrow as pa

from krill.corpus.documents import MAX_FILE_BYTES
from krill.corpus.formats import COLUMNAR, Compression, CorpusFile
from krill.errors import InputError, KrillError

CHUNK_BYTES = 1 << 20

_BYTE_ORDER_MARKS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...
    def close(self) -> None: ...


@contextmanager
def input_errors(file: CorpusFile, *, at: int | None = None) -> Iterator[None]:
    """What the system or Arrow says about a file, said to the user. `at` is how far reading had got."""
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"no such file: `{file.path}`") from error
    except PermissionError as error:
        raise InputError(f"no permission to read `{file.path}`", hint=f"chmod +r '{file.path}'") from error
    except IsADirectoryError as error:
        raise InputError(f"`{file.path}` is a directory") from error
    except KrillError:
        raise
    except Exception as error:
        # A remote file's protocol may raise anything; with a local one, the unexpected is a fault of ours.
        if not (file.remote or isinstance(error, OSError | EOFError | lzma.LZMAError | pa.ArrowException)):
            raise
        where = "" if at is None else f" after {at:,} bytes"
        raise InputError(
            f"can't read `{file.path}`{where}: {first_line(error)}",
            hint="the file is damaged or incomplete: get it again, or take it out of `datasets:`",
        ) from error


def first_line(error: BaseException) -> str:
    """An error's message without the context that libraries add to it."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__).strip()


def open_raw(file: CorpusFile) -> pa.NativeFile:
    """The file's bytes as they are, local or remote."""
    if not file.remote:
        return pa.OSFile(file.location, "rb")
    import fsspec

    # Not every web server gives ranges, and what is read in order needs none.
    in_order = file.format not in COLUMNAR and file.location.startswith(("http://", "https://"))
    options = {"block_size": 0} if in_order else {}
    return pa.PythonFile(fsspec.open(file.location, "rb", **options).open(), mode="r")


def open_decoded(file: CorpusFile) -> pa.NativeFile:
    """The file's bytes, decompressed."""
    raw = open_raw(file)
    if file.compression is None:
        return raw
    if file.compression is Compression.XZ:
        return pa.PythonFile(lzma.open(raw), mode="r")
    return pa.CompressedInputStream(raw, str(file.compression))


class DecodedStream:
    """A file's decoded bytes, in order, with the offset reached; ends where the file or its slice does."""

    def __init__(self, file: CorpusFile, start: int = 0) -> None:
        self.file = file
        self.offset = 0
        self._stop = file.stop
        with input_errors(file):
            # A file of no bytes at all is nothing to any decoder but xz's, which would call it damaged.
            empty = not file.remote and file.bytes == 0
            self._source: _Readable | None = None if empty else open_decoded(file)
        while self.offset < start and self.read(min(CHUNK_BYTES, start - self.offset)):
            pass

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; none at the end."""
        if self._stop is not None:
            size = min(size, self._stop - self.offset)
        if self._source is None or size <= 0:
            return b""
        with input_errors(self.file, at=self.offset):
            chunk = self._source.read(size)
        self.offset += len(chunk)
        if self.offset > MAX_FILE_BYTES:
            raise InputError(
                f"`{self.file.path}` holds more than {MAX_FILE_BYTES:,} bytes",
                hint="split it into several files",
            )
        return chunk

    def close(self) -> None:
        if self._source is not None:
            self._source.close()

    def __enter__(self) -> DecodedStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RangeReader:
    """Any range of a local file, by `pread`. Keeps no buffer; close it or use it as a context."""

    def __init__(self, file: CorpusFile) -> None:
        self.file = file
        with input_errors(file):
            self._descriptor = os.open(file.location, os.O_RDONLY)

    def read(self, start: int, end: int) -> bytes:
        """Exactly the bytes in [start, end)."""
        with input_errors(self.file, at=start):
            data = os.pread(self._descriptor, end - start, start)
            while len(data) < end - start:
                more = os.pread(self._descriptor, end - start - len(data), start + len(data))
                if not more:
                    raise EOFError(f"the file became shorter than {end:,} bytes while it was read")
                data += more
        return data

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> RangeReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def refuse_wide_encodings(file: CorpusFile, head: bytes) -> None:
    """UTF-16 and UTF-32 would be read as garbage: say what to do instead."""
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if head.startswith(mark):
            raise InputError(
                f"`{file.path}` is encoded in {encoding}, not UTF-8",
                hint=f"iconv -f {encoding} -t UTF-8 '{file.path}' > converted",
            )


def line_number(file: CorpusFile, offset: int) -> int:
    """The line, from 1, in which a decoded offset lies. Reads all that precedes it: for messages only."""
    lines = 1
    with DecodedStream(file) as stream:
        while stream.offset < offset:
            chunk = stream.read(min(CHUNK_BYTES, offset - stream.offset))
            if not chunk:
                break
            lines += chunk.count(b"\n")
    return lines
