"""Opening files, local or remote, and reading their decoded bytes from the beginning.

Compressed files go through Arrow's decoders (xz through Python's), which read files of several members and
notice a truncated one. Held in memory: one chunk, and the decoder's own window.
"""

from __future__ import annotations

import lzma
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import pyarrow as pa

from krill.corpus.decoders import ARROW_WINDOW_LOG, LongZstd, zstd_window
from krill.corpus.documents import MAX_FILE_BYTES
from krill.corpus.formats import SEEKING, Compression, CorpusFile
from krill.corpus.remote import RemoteFile
from krill.errors import InputError, KrillError
from krill.faults import first_line, reading
from krill.storage.input_file import ClosedOnExit

Item = TypeVar("Item")

CHUNK_BYTES = 1 << 20

_BYTE_ORDER_MARKS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


@contextmanager
def input_errors(file: CorpusFile, *, at: int | None = None) -> Iterator[None]:
    """Raises errors of the system or of a library as `InputError`. `at` is the offset that reading had
    reached.

    For code that reads the file and does nothing else.
    """
    try:
        with reading(file.path, at=at):
            try:
                yield
            except FileNotFoundError as error:
                hint = "it was removed after the run began: put it back, or start anew with --overwrite"
                raise InputError(f"no such file: `{file.path}`", hint=hint) from error
            except PermissionError as error:
                hint = f"chmod +r '{file.path}'"
                raise InputError(f"no permission to read `{file.path}`", hint=hint) from error
            except IsADirectoryError as error:
                hint = "it was a file when the run began: put it back, or start anew with --overwrite"
                raise InputError(f"`{file.path}` is a directory", hint=hint) from error
    except KrillError:
        raise
    except Exception as error:
        if not file.remote:  # a remote file's protocol may raise anything
            raise
        where = "" if at is None else f" after {at:,} bytes"
        hint = "the file is damaged or incomplete: get it again, or take it out of `datasets:`"
        raise InputError(f"can't read `{file.path}`{where}: {first_line(error)}", hint=hint) from error


def read_in_order(file: CorpusFile, items: Iterator[Item]) -> Iterator[Item]:
    """The same items, each made under `input_errors`; what is done with them is not."""
    while True:
        with input_errors(file):
            item = next(items, None)
        if item is None:
            return
        yield item


def open_raw(file: CorpusFile) -> pa.NativeFile:
    """The file's bytes as they are, local or remote."""
    if not file.remote:
        return pa.OSFile(file.location, "rb")
    # Not every web server gives ranges, and what is read in order needs none.
    in_order = file.format not in SEEKING
    remote = RemoteFile(file.location, in_order=in_order, size=file.bytes, version=file.version)
    return pa.PythonFile(remote, mode="r")


def open_decoded(file: CorpusFile) -> Any:
    raw = open_raw(file)
    if file.compression is None:
        return raw
    if file.compression is Compression.XZ:
        return pa.PythonFile(lzma.open(raw), mode="r")
    if file.compression is Compression.ZSTD and (window := zstd_window(file)) > 1 << ARROW_WINDOW_LOG:
        return LongZstd(file, raw, window)
    return pa.CompressedInputStream(raw, str(file.compression))


class DecodedStream(ClosedOnExit):
    """A file's decoded bytes, in order, with the offset reached; ends where the file or its slice does."""

    def __init__(self, file: CorpusFile, start: int = 0) -> None:
        self.file = file
        self.offset = 0
        self._stop = file.stop
        with input_errors(file):
            # A file of no bytes at all is nothing to any decoder but xz's, which would call it damaged.
            empty = not file.remote and file.bytes == 0
            self._source = None if empty else open_decoded(file)
        for _ in self.chunks(start):
            pass

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; none at the end."""
        if self._stop is not None:
            size = min(size, self._stop - self.offset)
        if self._source is None or size <= 0:
            return b""
        with input_errors(self.file, at=self.offset):
            chunk: bytes = self._source.read(size)
        self.offset += len(chunk)
        if self.offset > MAX_FILE_BYTES:
            raise InputError(
                f"`{self.file.path}` holds more than {MAX_FILE_BYTES:,} bytes",
                hint="split it into several files",
            )
        return chunk

    def chunks(self, until: int | None = None) -> Iterator[tuple[int, bytes]]:
        """What follows, up to decoded offset `until` if that is given: the offset of each chunk, and it."""
        while chunk := self.read(CHUNK_BYTES if until is None else min(CHUNK_BYTES, until - self.offset)):
            yield self.offset - len(chunk), chunk

    def close(self) -> None:
        if self._source is not None:
            self._source.close()


class RangeReader(ClosedOnExit):
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


HEAD_BYTES: Final = 8
"""What `refuse_other_kinds` looks at."""

# How files begin that are no text, what they then are, and the ending that says so.
_SIGNATURES: Final = (
    (rb"\x1f\x8b\x08", "compressed with gzip", ".gz"),
    (rb"\x28\xb5\x2f\xfd", "compressed with zstd", ".zst"),
    (rb"BZh[1-9]1AY&", "compressed with bzip2", ".bz2"),
    (rb"\xfd7zXZ\x00", "compressed with xz", ".xz"),
    (rb"PAR1\x15", "a Parquet file", ".parquet"),
    (rb"ARROW1\x00\x00|\xff\xff\xff\xff", "an Arrow file", ".arrow"),
    (rb"PK\x03\x04", "a zip archive", ".zip"),
)


def refuse_other_kinds(file: CorpusFile, head: bytes) -> None:
    """What is no text would be read as garbage: UTF-16 and UTF-32, records of a crawl, and compressed or
    columnar files whose names do not say so."""
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if head.startswith(mark):
            raise InputError(
                f"`{file.path}` is encoded in {encoding}, not UTF-8",
                hint=f"iconv -f {encoding} -t UTF-8 '{file.path}' > converted",
            )
    if head.startswith((b"WARC/0.", b"WARC/1.")):
        raise InputError(
            f"`{file.path}` holds WARC records, not {file.format}",
            hint="set `format: warc` in its entry of `datasets:`, or let its name end in `.warc`",
        )
    inside = "" if file.compression is None else f" inside of {file.compression}"
    for begin, kind, ending in _SIGNATURES:
        if re.match(begin, head):
            raise InputError(
                f"`{file.path}` is {kind}{inside}, not {file.format}",
                hint=f"let its name end in `{ending}`" if not inside else "decompress it once",
            )


def line_number(file: CorpusFile, offset: int) -> int:
    """The line, from 1, in which a decoded offset lies. Reads all that precedes it: for messages only."""
    with DecodedStream(file) as stream:
        return 1 + sum(chunk.count(b"\n") for _, chunk in stream.chunks(offset))
