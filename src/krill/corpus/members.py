"""Compressed files of many members, as crawls are: decoded in order, and on behind a member that is damaged.

In: the bytes of a file, gzip members or zstd frames. Out: pieces of decoded bytes, each with whether a member
begins with it, or with what is wrong with the member that it belongs to. Held in memory: a mebibyte of
compressed bytes, a piece, and the decoder's window, whatever a member unfolds to.

What comes out depends on the file alone: not on how many bytes a read gives, nor on where reading began.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

from krill.corpus.formats import Compression, CorpusFile
from krill.corpus.streams import DecodedStream, input_errors, open_raw
from krill.corpus.zstd_frames import ZstdFrames, dictionary_of

_READ_BYTES: Final = 1 << 16
_PIECE_BYTES: Final = 1 << 18
# Of a member that is being decoded, so much is kept at most, to look for the next one in it: a decoder may
# notice late that it reads what is none of its own.
_KEPT_BYTES: Final = 1 << 20
# What shows how long padding is.
_PADDING_HEAD: Final = 8

CUT: Final = "the file ends inside of it"


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Decoder(Protocol):
    """One member's, as `zlib.decompressobj` gives them."""

    @property
    def eof(self) -> bool: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes | memoryview, max_length: int, /) -> bytes: ...


class Codec(Protocol):
    """How members are compressed."""

    name: str
    """What a member is called."""
    magic: bytes
    """What each begins with."""
    failures: tuple[type[Exception], ...]
    """What decoders raise of damaged members."""
    head_bytes: int
    """So many bytes of a member are enough for its first decoded ones."""
    given_bytes: int
    """So many are given to a decoder at once."""

    def decoder(self) -> Decoder: ...

    def padding(self, data: bytes, at: int) -> int:
        """How many bytes there are to pass over at `at` before the next member."""


class GzipCodec:
    """Members may stand behind zeros, as tapes have them."""

    name = "gzip member"
    magic = b"\x1f\x8b\x08"
    failures: tuple[type[Exception], ...] = (zlib.error,)
    # A member's header has a name of up to so many bytes, or none: then five of them are enough.
    head_bytes = 1 << 12
    # What is not of a member comes back as a copy: most of a read, if members are short.
    given_bytes = 1 << 13

    def decoder(self) -> Decoder:
        return zlib.decompressobj(16 + zlib.MAX_WBITS)

    def padding(self, data: bytes, at: int) -> int:
        return len(data) - at - len(data[at:].lstrip(b"\0")) if data.startswith(b"\0", at) else 0


@dataclass(frozen=True, slots=True)
class MemberChunk:
    """Decoded bytes; `begins` if a member does with them. One with a `fault` has none, and nothing more comes
    of its member."""

    data: bytes
    begins: bool = False
    fault: str | None = None


class Members:
    """The members of `raw`, the first bytes of which are `begun`; behind a damaged one, reading goes on at
    the next that begins with `mark`, or ends if there is none."""

    def __init__(self, raw: Readable, codec: Codec, mark: bytes, begun: bytes = b"") -> None:
        self._raw = raw
        self._codec = codec
        self._mark = mark
        self._buffer = begun
        self._at = 0
        """Of the buffer, what precedes it is decoded."""
        self._kept = bytearray()
        """Of the member being decoded, what was given to the decoder."""

    def pieces(self) -> Iterator[MemberChunk]:
        while (there := self._skip_padding()) is not None:
            fault = (yield from self._member()) if there else MemberChunk(b"", begins=True, fault=CUT)
            if fault is not None:
                yield fault
                if not self._mark:
                    return
                self._find_next()

    def _skip_padding(self) -> bool | None:
        """Go on to the next member; None at the end of the file, False if it ends inside of the padding."""
        while True:
            while len(self._buffer) - self._at < _PADDING_HEAD and self._fill():
                pass
            if self._at == len(self._buffer):
                return None
            size = self._codec.padding(self._buffer, self._at)
            if not size:
                return True
            while size > len(self._buffer) - self._at:
                size -= len(self._buffer) - self._at
                self._at = len(self._buffer)
                if not self._fill():
                    return False
            self._at += size

    def _fill(self) -> bool:
        """One more read of the file, as long as any but the last."""
        read = bytearray(memoryview(self._buffer)[self._at :])
        left = len(read)
        while len(read) < left + _READ_BYTES and (some := self._raw.read(left + _READ_BYTES - len(read))):
            read += some
        self._buffer, self._at = bytes(read), 0
        return len(read) > left

    def _member(self) -> Generator[MemberChunk, None, MemberChunk | None]:
        """One member; returns the piece that says what is wrong with it."""
        decoder = self._codec.decoder()
        self._kept.clear()
        first: bytes | None = b""
        """What it begins with, until that is as long as the mark, however little reads give."""
        while not decoder.eof:
            fault = None
            if self._at == len(self._buffer) and not decoder.unconsumed_tail and not self._fill():
                fault = CUT
            else:
                try:
                    decoded = self._decode(decoder)
                except self._codec.failures as error:
                    fault = f"its {self._codec.name} is damaged: {error}"
            if fault is not None:
                if first:
                    yield MemberChunk(first, begins=True)
                return MemberChunk(b"", begins=first == b"", fault=fault)
            if first is not None:
                first += decoded
                if len(first) >= len(self._mark) or decoder.eof:
                    yield MemberChunk(first, begins=True)
                    first = None
            elif decoded:
                yield MemberChunk(decoded)
        return None

    def _decode(self, decoder: Decoder) -> bytes:
        stored = decoder.unconsumed_tail
        if not stored:
            stored = self._buffer[self._at : self._at + self._codec.given_bytes]
            self._at += len(stored)
            if len(self._kept) > _KEPT_BYTES:
                del self._kept[: _KEPT_BYTES // 2]
            self._kept += stored
        decoded = decoder.decompress(stored, _PIECE_BYTES)
        if decoder.eof:
            self._at -= len(decoder.unused_data)
        return decoded

    def _find_next(self) -> None:
        """Go on where a member begins with the mark, behind the beginning of the one that was read."""
        magic = self._codec.magic
        self._buffer, self._at = bytes(self._kept[1:]) + self._buffer[self._at :], 0
        while True:
            found = self._buffer.find(magic, self._at)
            if found >= 0:
                self._at = found
                if self._begins_with_mark():
                    return
                self._at += 1
                continue
            self._at = max(self._at, len(self._buffer) - (len(magic) - 1))
            if not self._fill():
                self._at = len(self._buffer)
                return

    def _begins_with_mark(self) -> bool:
        """Whether a member does that begins here."""
        most = self._codec.head_bytes
        while True:
            # Not copied: of what looks like members, each may be a hundred kilobytes long.
            some = memoryview(self._buffer)[self._at : self._at + most]
            decoder = self._codec.decoder()
            try:
                decoded = decoder.decompress(some, len(self._mark))
            except self._codec.failures:
                return False
            if len(decoded) >= len(self._mark) or decoder.eof or len(some) == most:
                return decoded.startswith(self._mark)
            if not self._fill():
                return False


def open_pieces(file: CorpusFile, mark: bytes = b"") -> tuple[Any, Iterator[MemberChunk]]:
    """What to close in the end, and the decoded pieces of a file, whose members begin with the mark."""
    if file.compression not in (Compression.GZIP, Compression.ZSTD):
        stream = DecodedStream(file)
        return stream, (MemberChunk(chunk) for _, chunk in stream.chunks())
    with input_errors(file):
        raw = open_raw(file)
        if file.compression is Compression.GZIP:
            return raw, Members(raw, GzipCodec(), mark).pieces()
        dictionary, begun = dictionary_of(file, raw)
        return raw, Members(raw, ZstdFrames(file, dictionary), mark, begun).pieces()
