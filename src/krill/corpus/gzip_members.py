"""Gzip files of many members, as crawls are: decoded in order, and on behind a member that is damaged.

In: the bytes of a file. Out: pieces of decoded bytes, each with whether a member begins with it, or with
what is wrong with the member that it belongs to. Held in memory: a mebibyte of compressed bytes, a piece,
and the decoder's window, whatever a member unfolds to.

What comes out depends on the file alone: not on how many bytes a read gives, nor on where reading began.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

_READ_BYTES: Final = 1 << 16
_PIECE_BYTES: Final = 1 << 18
# Of a member that is being decoded, so much is kept at most, to look for the next one in it: a decoder may
# notice late that it reads what is none of its own.
_KEPT_BYTES: Final = 1 << 20
# A member's header has a name of up to so many bytes, or none: then five of them are enough.
_TRIED_BYTES: Final = 1 << 12
_MAGIC: Final = b"\x1f\x8b\x08"
_GZIP: Final = 16 + zlib.MAX_WBITS


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


CUT: Final = "the file ends inside of it"


@dataclass(frozen=True, slots=True)
class MemberChunk:
    """Decoded bytes; `begins` if a member does with them. One with a `fault` has none, and nothing more comes
    of its member."""

    data: bytes
    begins: bool = False
    fault: str | None = None


class GzipMembers:
    """The members of `raw`; behind a damaged one, reading goes on at the next that begins with `mark`."""

    def __init__(self, raw: Readable, mark: bytes) -> None:
        self._raw = raw
        self._mark = mark
        self._buffer = b""
        """Of the file, what is not decoded yet."""
        self._kept = bytearray()
        """Of the member being decoded, what was given to the decoder."""

    def pieces(self) -> Iterator[MemberChunk]:
        while self._skip_padding():
            fault = yield from self._member()
            if fault is not None:
                yield fault
                self._find_next()

    def _skip_padding(self) -> bool:
        """Go on to the next member, behind zeros as tapes have them; False at the end of the file."""
        self._buffer = self._buffer.lstrip(b"\0")
        while not self._buffer and self._fill():
            self._buffer = self._buffer.lstrip(b"\0")
        return bool(self._buffer)

    def _fill(self) -> bool:
        """One more read of the file, as long as any but the last."""
        read = bytearray()
        while len(read) < _READ_BYTES and (some := self._raw.read(_READ_BYTES - len(read))):
            read += some
        self._buffer += read
        return bool(read)

    def _member(self) -> Generator[MemberChunk, None, MemberChunk | None]:
        """One member; returns the piece that says what is wrong with it."""
        decoder = zlib.decompressobj(_GZIP)
        self._kept.clear()
        first: bytes | None = b""
        """What it begins with, until that is as long as the mark, however little reads give."""
        while not decoder.eof:
            fault = None
            if not self._buffer and not decoder.unconsumed_tail and not self._fill():
                fault = CUT
            else:
                try:
                    decoded = self._decode(decoder)
                except zlib.error as error:
                    fault = str(error)
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

    def _decode(self, decoder: zlib._Decompress) -> bytes:
        stored = decoder.unconsumed_tail or self._buffer
        if not decoder.unconsumed_tail:
            self._buffer = b""
            if len(self._kept) > _KEPT_BYTES:
                self._kept.clear()
            self._kept += stored
        decoded = decoder.decompress(stored, _PIECE_BYTES)
        if decoder.eof:
            self._buffer = decoder.unused_data
        return decoded

    def _find_next(self) -> None:
        """Go on where a member begins with the mark, behind the beginning of the one that was read."""
        self._buffer, at = bytes(self._kept[1:]), 0
        while True:
            found = self._buffer.find(_MAGIC, at)
            if found >= 0 and self._begins_with_mark(found):
                self._buffer = self._buffer[found:]
                return
            if found >= 0:
                at = found + 1
                continue
            self._buffer, at = self._buffer[-(len(_MAGIC) - 1) :], 0
            if not self._fill():
                self._buffer = b""
                return

    def _begins_with_mark(self, at: int) -> bool:
        while True:
            some = self._buffer[at : at + _TRIED_BYTES]
            decoder = zlib.decompressobj(_GZIP)
            try:
                decoded = decoder.decompress(some, len(self._mark))
            except zlib.error:
                return False
            if len(decoded) == len(self._mark) or decoder.eof or len(some) == _TRIED_BYTES:
                return decoded == self._mark
            if not self._fill():
                return False
