"""Zip archives of HTML, read by their directory, in its order.

In: a file that can be read from any place. Out: its pages; the position of one is where its entry stands in
the directory. Held in memory: a chunk of the directory, and a member of up to `max_page_bytes`; what states
to be longer is not unfolded, and no member further than it states.

Not Python's `zipfile`: it holds an object of half a kilobyte for each member, and does not see members that
lie upon each other, as those of a bomb do.
"""

from __future__ import annotations

import stat
import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from krill.corpus.archives import PAGE, ArchiveRecords, Member, member_kind, shown_name
from krill.corpus.formats import CorpusFile
from krill.corpus.page_blocks import PageFile
from krill.corpus.streams import input_errors, open_raw

_CHUNK: Final = 1 << 16
_END: Final = struct.Struct("<4s4H2IH")
_END_64: Final = struct.Struct("<4sQ2H2I4Q")
_LOCATOR: Final = struct.Struct("<4sIQI")
_ENTRY: Final = struct.Struct("<4s6H3I5H2I")
_LOCAL: Final = struct.Struct("<4s5H3I2H")
_LARGEST_COMMENT: Final = 65535
_LONGEST_ENTRY: Final = _ENTRY.size + 3 * 65535
_ENCRYPTED: Final = 0x2041
_UTF8: Final = 0x800
_STORED, _DEFLATED = 0, 8
_MADE_ON_UNIX: Final = 3


class ZipFile(PageFile):
    def _records(self, start: int) -> _ZipRecords:
        return _ZipRecords(self._file, start, skip=self._limits.skip_malformed)

    def _size(self, begin: int, end: int, held: int) -> int:
        return end - begin + held


class _Damage(Exception):
    """A fact about the archive, or about one member."""


class _Directory(NamedTuple):
    start: int
    size: int
    shift: int
    """How much stands before the archive in its file."""
    members: int
    """As it states, modulo 65,536."""


class _Entry(NamedTuple):
    at: int
    """In the directory."""
    name: bytes
    flags: int
    method: int
    checksum: int
    stored: int
    size: int
    offset: int
    link: bool


class _ZipRecords(ArchiveRecords):
    def __init__(self, file: CorpusFile, start: int, *, skip: bool) -> None:
        super().__init__(file, skip=skip)
        self._at = start
        with input_errors(file):
            self._raw = open_raw(file)

    @property
    def end(self) -> int:
        return self._at

    def close(self) -> None:
        self._raw.close()

    def __iter__(self) -> Iterator[Member]:
        stop = self._file.stop
        try:
            directory = self._directory()
            self._check(directory)
        except _Damage as damage:
            self._damaged(str(damage))
            return
        for entry in self._entries(directory, self._at):
            self._at = entry.at
            if stop is not None and entry.at >= stop:
                return
            member = self._member(directory, entry)
            if member is not None:
                yield member
        self._at = directory.size

    def _member(self, directory: _Directory, entry: _Entry) -> Member | None:
        """A page; what is none is counted."""
        kind = None if entry.link else member_kind(entry.name)
        if kind == PAGE:
            kind = self._reason(entry)
        if kind == PAGE:
            try:
                return Member(entry.at, entry.name, self._content(directory, entry))
            except _Damage as damage:
                self._damaged(f"the member {shown_name(entry.name)} {damage}")
                return None
        if kind is not None:
            self._counts[kind] += 1
        return None

    def _reason(self, entry: _Entry) -> str:
        if entry.flags & _ENCRYPTED:
            return "archive_encrypted"
        if entry.method not in (_STORED, _DEFLATED):
            return "page_encoding"
        return "page_too_large" if entry.size > self._limit else PAGE

    def _read(self, at: int, size: int) -> bytes:
        with input_errors(self._file, at=at):
            self._raw.seek(at)
            return bytes(self._raw.read(size))

    def _directory(self) -> _Directory:
        with input_errors(self._file):
            self._raw.seek(0, 2)
            length = self._raw.tell()
        low = max(0, length - _LARGEST_COMMENT - _END.size)
        tail = self._read(low, length - low)
        found = tail.rfind(b"PK\5\6", 0, max(0, len(tail) - _END.size + 4))
        if found < 0:
            raise _Damage("it is no zip archive, or its end is missing")
        _, disk, first, _, members, size, offset, _ = _END.unpack_from(tail, found)
        end = low + found
        before = self._read(end - _LOCATOR.size, _LOCATOR.size) if end >= _LOCATOR.size else b""
        if before.startswith(b"PK\6\7"):
            at = end - _LOCATOR.size - _END_64.size
            stated = self._read(at, _END_64.size) if at >= 0 else b""
            if not stated.startswith(b"PK\6\6"):
                raise _Damage("the end of its directory is not where it should be")
            _, _, _, _, disk, first, _, members, size, offset = _END_64.unpack(stated)
            end = at
        if disk or first:
            raise _Damage("it is a part of an archive in several files")
        start = end - size
        if start < 0 or start < offset:
            raise _Damage(f"its directory of {size:,} bytes is not where it says")
        return _Directory(start, size, start - offset, members % 65536)

    def _check(self, directory: _Directory) -> None:
        """Members must not lie upon each other, and together hold what the archive does."""
        members = stored = 0
        for entry in self._entries(directory, 0):
            members += 1
            stored += _LOCAL.size + len(entry.name) + entry.stored
        if stored > directory.start:
            raise _Damage(f"its members lie upon each other: {stored:,} bytes in {directory.start:,}")
        if members % 65536 != directory.members:
            raise _Damage(f"its directory lists {members:,} members, and states another number")

    def _entries(self, directory: _Directory, start: int) -> Iterator[_Entry]:
        at, base, buffer = start, start, b""
        while at < directory.size:
            if base + len(buffer) < min(at + _LONGEST_ENTRY, directory.size):
                base = at
                buffer = self._read(directory.start + at, min(2 * _LONGEST_ENTRY, directory.size - at))
            place = at - base
            if len(buffer) < place + _ENTRY.size or not buffer.startswith(b"PK\1\2", place):
                raise _Damage(f"its directory is damaged at byte {at:,}")
            fields = _ENTRY.unpack_from(buffer, place)
            end = place + _ENTRY.size + sum(fields[10:13])
            if len(buffer) < end:
                raise _Damage(f"its directory is damaged at byte {at:,}")
            yield _entry(at, fields, buffer[place + _ENTRY.size : end])
            at = base + end

    def _content(self, directory: _Directory, entry: _Entry) -> bytes:
        """What a member unfolds to, which is what it states."""
        begin = directory.shift + entry.offset
        head = self._read(begin, _LOCAL.size) if begin < directory.start else b""
        if len(head) < _LOCAL.size or not head.startswith(b"PK\3\4"):
            raise _Damage("is not where the directory says")
        names, extras = _LOCAL.unpack(head)[9:11]
        begin += _LOCAL.size + names + extras
        if begin + entry.stored > directory.start:
            raise _Damage("reaches beyond its archive")
        content = bytearray()
        decoder = zlib.decompressobj(-zlib.MAX_WBITS) if entry.method == _DEFLATED else None
        at, end = begin, begin + entry.stored
        while at < end and len(content) <= entry.size:
            some = self._read(at, min(_CHUNK, end - at))
            at += len(some)
            if not some:
                raise _Damage("is cut short")
            if decoder is None:
                content += some
                continue
            try:
                content += decoder.decompress(some, entry.size + 1 - len(content))
            except zlib.error as error:
                raise _Damage(f"is damaged: {error}") from None
        if len(content) != entry.size:
            raise _Damage(f"does not hold the {entry.size:,} bytes that it states")
        if zlib.crc32(content) != entry.checksum:
            raise _Damage("is damaged: its checksum is another")
        return bytes(content)


def _entry(at: int, fields: tuple[int, ...], names: bytes) -> _Entry:
    _, made, _, flags, method, _, _, checksum, stored, size, *lengths, _, _, attributes, offset = fields
    name, extra = names[: lengths[0]], names[lengths[0] : lengths[0] + lengths[1]]
    if 0xFFFFFFFF in (stored, size, offset):
        large = iter(_large_numbers(extra))
        size, stored, offset = (
            next(large, number) if number == 0xFFFFFFFF else number for number in (size, stored, offset)
        )
    if not flags & _UTF8:
        name = name.decode("cp437").encode()
    link = made >> 8 == _MADE_ON_UNIX and stat.S_ISLNK(attributes >> 16)
    return _Entry(at, name, flags, method, checksum, stored, size, offset, link)


def _large_numbers(extra: bytes) -> tuple[int, ...]:
    """Those of eight bytes that stand for numbers of four."""
    at = 0
    while at + 4 <= len(extra):
        kind, size = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            data = extra[at + 4 : at + 4 + size]
            return struct.unpack_from(f"<{len(data) // 8}Q", data)
        at += 4 + size
    return ()
