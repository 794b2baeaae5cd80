"""What a decoder will hold of a compressed file, by the first bytes of it, and decoders for large windows.

In: a file's head. Out: the bytes of the decoder's window; streams that never ask for a larger one. Held in
memory: a window, which a frame of zstd, a block of bz2 or xz states before it begins.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any, NamedTuple

from krill.corpus.formats import FRAMED, Compression, CorpusFile
from krill.errors import InputError, MissingExtra

# What Arrow's own decoder takes, as the command line tool does without --long: 128 MiB.
ARROW_WINDOW_LOG = 27

# Tables, and the chunk on either side of the decoder.
_OTHER_BYTES = 1 << 20
_GZIP_BYTES = 64 << 10
_BZ2_BYTES_PER_LEVEL = 400_000
_HEAD_BYTES = 64
# Frames that are to be skipped, as a file may begin with; behind more of them no window is looked for.
_MOST_SKIPPED = 10_000
# Few compressed bytes at a time: a block of four may become 128 KiB.
_ZSTD_STEP = 128
LARGEST_WINDOW = 1 << 31
# An index of ten thousand blocks, each of 24 MiB or so; a larger one is not read before its file is.
_INDEX_BYTES = 1 << 18

ZSTD_MAGIC = 0xFD2FB528
ZSTD_SKIPPED = range(0x184D2A50, 0x184D2A60)
# What a file of WARC begins with if its frames need a dictionary, and the largest that is taken: by default
# zstd makes them of 110 KB.
ZSTD_DICTIONARY = 0x184D2A5D
LARGEST_DICTIONARY = 4 << 20
# What frames of any level but those of `zstd --ultra` ask for, at the most.
USUAL_WINDOW = 1 << 23
_XZ_MAGIC = b"\xfd7zXZ\0"
_XZ_LZMA2 = 0x21
_UNKNOWN = 1 << 62


def decoder_bytes(file: CorpusFile) -> int:
    """What the decoder of a local file will hold; 0 if it is not compressed, or only reading tells."""
    if file.compression is None or file.remote:
        return 0
    match file.compression:
        case Compression.GZIP:
            held = _GZIP_BYTES
        case Compression.BZ2:
            head = _head(file)
            level = head[3] - ord("0") if len(head) > 3 and head.startswith(b"BZh") else 9
            held = min(max(level, 1), 9) * _BZ2_BYTES_PER_LEVEL + 100_000
        case Compression.ZSTD:
            held = min(_zstd_frame(file))
            if file.format in FRAMED:
                held = max(held, USUAL_WINDOW) + _dictionary_bytes(file)
        case Compression.XZ:
            held = min(xz_dictionary(file), _xz_content(file))
    return held + _OTHER_BYTES


def _dictionary_bytes(file: CorpusFile) -> int:
    """What a dictionary in front of the frames takes, as it is and as tables."""
    there = _head(file).startswith(struct.pack("<I", ZSTD_DICTIONARY))
    return 2 * LARGEST_DICTIONARY if there else 0


def zstd_window(file: CorpusFile) -> int:
    """The window of the first frame; 0 = unknown."""
    return _zstd_frame(file)[0]


def _zstd_frame(file: CorpusFile) -> tuple[int, int]:
    """The window of the first frame that has content, and how much that is, as far as it says."""
    if file.remote:
        return 0, _UNKNOWN
    offset = 0
    with Path(file.location).open("rb", buffering=0) as opened:
        for _ in range(_MOST_SKIPPED):
            opened.seek(offset)
            head = opened.read(_HEAD_BYTES)
            if len(head) < 8:
                break
            magic, size = struct.unpack_from("<II", head)
            if magic == ZSTD_MAGIC:
                return zstd_header(head)[:2]
            if magic not in ZSTD_SKIPPED:
                break
            offset += 8 + size
    return 0, _UNKNOWN


class ZstdHeader(NamedTuple):
    """Of a frame; its window is what its decoder holds, unless its content is less."""

    window: int
    content: int
    length: int
    """Bytes of the header itself."""


def zstd_header(head: bytes) -> ZstdHeader:
    """Of a frame of which at least five bytes are there; what they don't show is unknown."""
    descriptor = head[4]
    single, content_flag = bool(descriptor & 0x20), descriptor >> 6
    at = 5
    window = 0
    if not single and len(head) > at:
        exponent, mantissa = head[at] >> 3, head[at] & 7
        window = (1 << (10 + exponent)) * (8 + mantissa) // 8
    at += (0 if single else 1) + (0, 1, 2, 4)[descriptor & 3]
    width = (1 if single else 0, 2, 4, 8)[content_flag]
    if not width or len(head) < at + width:
        return ZstdHeader(window, _UNKNOWN, at + width)
    content = int.from_bytes(head[at : at + width], "little") + (256 if width == 2 else 0)
    return ZstdHeader(content if single else window, content, at + width)


def xz_dictionary(file: CorpusFile) -> int:
    """The dictionary that the first block of an xz file asks for; 0 = unknown."""
    head = _head(file)
    if not head.startswith(_XZ_MAGIC) or len(head) < 24 or head[12] == 0:
        return 0
    flags, at = head[13], 14
    for present in (flags & 0x40, flags & 0x80):  # the sizes of the block, if they are given
        if present:
            _, at = _varint(head, at)
    for _ in range((flags & 3) + 1):
        kind, at = _varint(head, at)
        size, at = _varint(head, at)
        if kind == _XZ_LZMA2 and at < len(head):
            bits = head[at] & 0x3F
            return 0xFFFFFFFF if bits == 40 else (2 | (bits & 1)) << (bits // 2 + 11)
        at += size
    return 0


def _xz_content(file: CorpusFile) -> int:
    """What the index at the end of an xz file says that it holds: no more of a dictionary is ever touched."""
    with Path(file.location).open("rb") as opened:
        size = opened.seek(0, os.SEEK_END)
        if size < 32:
            return 0
        opened.seek(size - 12)
        footer = opened.read(12)
        length = (struct.unpack_from("<I", footer, 4)[0] + 1) * 4
        if footer[10:] != b"YZ" or not 0 < length <= min(size - 24, _INDEX_BYTES):
            return _UNKNOWN
        opened.seek(size - 12 - length)
        index = opened.read(length)
    records, at = _varint(index, 1)
    content = stored = 0
    if 2 * records > len(index):  # each takes two bytes at least: it is damaged, and its decoder will say so
        return _UNKNOWN
    for _ in range(records):
        unpadded, at = _varint(index, at)
        decoded, at = _varint(index, at)
        stored, content = stored - (-unpadded // 4) * 4, content + decoded
    # A file of several streams has several indexes, of which this is the last.
    return content if 12 + stored + length + 12 == size else _UNKNOWN


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        shift += 7
        if not byte & 0x80 or shift > 63:
            break
    return value, at


def _head(file: CorpusFile) -> bytes:
    with Path(file.location).open("rb", buffering=0) as opened:
        return opened.read(_HEAD_BYTES)


class LongZstd:
    """Decoded bytes of a zstd file whose window is larger than what Arrow takes."""

    def __init__(self, file: CorpusFile, raw: Any, window: int) -> None:
        try:
            import zstandard
        except ImportError as error:
            raise MissingExtra(
                f"`{file.path}`, compressed with {_window_in_words(window)},", "zstd"
            ) from error
        if window > LARGEST_WINDOW:
            raise InputError(
                f"`{file.path}` was compressed with {_window_in_words(window)}, more than zstd itself reads",
                hint="compress it again, with --long=31 at the most",
            )
        self._raw = raw
        self._failure = zstandard.ZstdError
        self._decoder = zstandard.ZstdDecompressor(max_window_size=max(window, 1 << ARROW_WINDOW_LOG))
        self._frame: Any = None
        self._left = b""
        self._decoded = b""

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; none at the end."""
        while not self._decoded:
            stored = self._left or bytes(self._raw.read(_ZSTD_STEP))
            self._left = b""
            if not stored:
                if self._frame is not None:
                    raise EOFError("the file ends inside a frame")
                return b""
            self._frame = self._frame or self._decoder.decompressobj()
            try:
                self._decoded = self._frame.decompress(stored)
            except self._failure as error:
                raise OSError(f"ZSTD decompress failed: {error}") from error
            if self._frame.eof:
                self._left, self._frame = self._frame.unused_data, None
        taken, self._decoded = self._decoded[:size], self._decoded[size:]
        return taken

    def close(self) -> None:
        self._raw.close()


def _window_in_words(window: int) -> str:
    return f"a window of {window:,} bytes (zstd --long={(window - 1).bit_length()})"
