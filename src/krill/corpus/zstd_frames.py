"""Zstd block by block, so that it is known where a frame ends, and none unfolds to more than a block at once.

In: the bytes of frames, and for a `.warc.zst` file the dictionary that it may begin with. Out: what frames
unfold to. Held in memory: a block of up to 128 KiB, compressed and not, the window of a frame, which is no
larger than that of the file's first one or 8 MiB, and the dictionary.

Not pyarrow, which tells neither where a frame ends nor goes on behind a damaged one, and takes no
dictionaries.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from krill.corpus.decoders import (
    ARROW_WINDOW_LOG,
    LARGEST_DICTIONARY,
    LARGEST_WINDOW,
    USUAL_WINDOW,
    ZSTD_DICTIONARY,
    ZSTD_MAGIC,
    ZSTD_SKIPPED,
    zstd_header,
)
from krill.corpus.formats import CorpusFile
from krill.errors import InputError, MissingExtra

_BLOCK_BYTES: Final = 1 << 17
_LONGEST_HEADER: Final = 18
_RLE, _RESERVED = 1, 3
_LONG: Final = "compress it again, with --long=31 at the most"


class FrameError(ValueError):
    """A frame that is damaged."""


class ZstdFrames:
    """Frames, with others between them that are to be skipped."""

    name = "zstd frame"
    magic = struct.pack("<I", ZSTD_MAGIC)
    head_bytes = _LONGEST_HEADER + 3 + _BLOCK_BYTES
    # A block that is not whole yet is put together anew each time.
    given_bytes = 1 << 16

    def __init__(self, file: CorpusFile, dictionary: bytes | None) -> None:
        zstandard = _library(file)
        self.failures: tuple[type[Exception], ...] = (zstandard.ZstdError, FrameError)
        given = None if dictionary is None else zstandard.ZstdCompressionDict(dictionary)
        try:
            self._decoder = zstandard.ZstdDecompressor(dict_data=given, max_window_size=LARGEST_WINDOW)
        except zstandard.ZstdError as error:
            raise _bad_dictionary(file, "is damaged") from error
        self._file = file
        self._begun = False
        self._largest = USUAL_WINDOW

    def decoder(self) -> _Frame:
        first, self._begun = not self._begun, True
        return _Frame(self._decoder.decompressobj(), self, first=first)

    def check_window(self, held: int, *, first: bool) -> None:
        """Refuse a frame whose decoder would hold more than that of the first one, which the plan knows."""
        if first:
            self._largest = max(self._largest, held)
            most = 1 << ARROW_WINDOW_LOG if self._file.remote else LARGEST_WINDOW
            if held > most:
                raise InputError(
                    f"`{self._file.path}` was compressed with a window of {held:,} bytes: at most {most:,}",
                    hint="compress it again, without --long" if self._file.remote else _LONG,
                )
        if held > self._largest:
            raise FrameError(f"its window of {held:,} bytes is larger than {self._largest:,}")

    def padding(self, data: bytes, at: int) -> int:
        if len(data) - at < 8:
            return 0
        magic, size = struct.unpack_from("<II", data, at)
        return 8 + size if magic in ZSTD_SKIPPED else 0


class _Frame:
    """As `zlib.decompressobj`; what it gives at once is no longer than a block."""

    def __init__(self, decoder: Any, frames: ZstdFrames, *, first: bool) -> None:
        self.eof = False
        self.unconsumed_tail = b""
        self.unused_data = b""
        self._decoder = decoder
        self._frames = frames
        self._first = first
        self._held = b""
        """A part that is not whole yet."""
        self._header_seen = self._last_seen = self._checksum = False

    def decompress(self, data: bytes | memoryview, _max_length: int, /) -> bytes:
        data = memoryview(self._held + data if self._held else data)
        self._held = self.unconsumed_tail = b""
        at, decoded = 0, b""
        while not self.eof and not decoded:
            size = self._part(data[at:])
            if size is None:
                self._held = bytes(data[at:])
                return b""
            decoded = self._decoder.decompress(data[at : at + size])
            at += size
            if self._last_seen and not self._checksum:
                self.eof = True
        if self.eof:
            if not self._decoder.eof:
                raise FrameError("it does not end where its last block does")
            self.unused_data = bytes(data[at:])
        else:
            self.unconsumed_tail = bytes(data[at:])
        return decoded

    def _part(self, data: memoryview) -> int | None:
        """How long the header, the block or the checksum in front is; None if it is not all there."""
        if not self._header_seen:
            size = self._header(data)
        elif self._last_seen:
            size = 4
        else:
            size = self._block(data)
        if size is None or len(data) < size:
            return None
        if not self._header_seen:
            self._header_seen = True
            self._checksum = bool(data[4] & 4)
        elif self._last_seen:
            self._checksum = False
        else:
            self._last_seen = bool(data[0] & 1)
        return size

    def _header(self, data: memoryview) -> int | None:
        if len(data) < 5:
            return None
        if data[:4] != ZstdFrames.magic:
            raise FrameError("there is none")
        header = zstd_header(bytes(data[:_LONGEST_HEADER]))
        if len(data) >= header.length:
            self._frames.check_window(min(header.window, header.content), first=self._first)
        return header.length

    def _block(self, data: memoryview) -> int | None:
        if len(data) < 3:
            return None
        fields = int.from_bytes(data[:3], "little")
        kind, size = fields >> 1 & 3, fields >> 3
        if kind == _RESERVED or size > _BLOCK_BYTES:
            raise FrameError("a block has no valid header")
        return 3 + (1 if kind == _RLE else size)


def dictionary_of(file: CorpusFile, raw: Any) -> tuple[bytes | None, bytes]:
    """The dictionary in the first frame of a `.warc.zst` file, if there is one, else what was read."""
    head = bytes(raw.read(8))
    if len(head) < 8 or struct.unpack_from("<I", head)[0] != ZSTD_DICTIONARY:
        return None, head
    size = struct.unpack_from("<I", head, 4)[0]
    if size > LARGEST_DICTIONARY:
        raise _bad_dictionary(file, f"has {size:,} bytes, more than {LARGEST_DICTIONARY:,}")
    stored = bytes(raw.read(size))
    if len(stored) < size:
        raise _bad_dictionary(file, "is cut short")
    if not stored.startswith(ZstdFrames.magic):
        return stored, b""
    zstandard = _library(file)
    decoder = zstandard.ZstdDecompressor(max_window_size=USUAL_WINDOW)
    try:
        with decoder.stream_reader(stored) as reader:
            content: bytes = reader.read(LARGEST_DICTIONARY + 1)
    except zstandard.ZstdError as error:
        raise _bad_dictionary(file, f"is damaged: {error}") from error
    if len(content) > LARGEST_DICTIONARY:
        raise _bad_dictionary(file, f"unfolds to more than {LARGEST_DICTIONARY:,} bytes")
    return content, b""


def _bad_dictionary(file: CorpusFile, fact: str) -> InputError:
    return InputError(
        f"the dictionary that `{file.path}` begins with {fact}",
        hint="get the file again, or compress it again without a dictionary",
    )


def _library(file: CorpusFile) -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise MissingExtra(f"reading `{file.path}`", "zstd") from error
    return zstandard
