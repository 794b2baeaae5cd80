"""Tar archives of HTML, plain or compressed: read in order, with the names that GNU tar and pax write.

In: the decoded bytes of a file. Out: its pages; the position of one is the decoded offset of its header. Held
in memory: a member of up to `max_page_bytes`; what is longer, or is no page, is passed over and not held.

Not Python's `tarfile`: it keeps each member that it has seen, and reads a header of any length that the
archive states. What stands behind the mark of an archive's end is read if it is another archive, else left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from krill.corpus.archives import PAGE, ArchiveRecords, Member, member_kind, shown_name
from krill.corpus.formats import CorpusFile
from krill.corpus.members import CUT, open_pieces
from krill.corpus.page_blocks import PageFile
from krill.corpus.streams import input_errors

_BLOCK: Final = 512
_LARGEST: Final = 1 << 50
_LONGEST_EXTENSION: Final = 1 << 20
_REGULAR: Final = b"0\x007S"
_WITHOUT_CONTENT: Final = b"123456"
_EXTENSIONS: Final = b"xgLK"
_SPARSE: Final = ord("S")


class TarFile(PageFile):
    def _records(self, start: int) -> _TarRecords:
        return _TarRecords(self._file, start, skip=self._limits.skip_malformed)


@dataclass(slots=True)
class _Header:
    """Of a member, with what the headers before it say of it."""

    name: bytes
    size: int
    kind: int
    sparse: bool = False


class _TarRecords(ArchiveRecords):
    def __init__(self, file: CorpusFile, start: int, *, skip: bool) -> None:
        super().__init__(file, skip=skip)
        self._source, self._pieces = open_pieces(file)
        self._data = bytearray()
        self._offset = 0
        """Of `_data`, in all that the file unfolds to."""
        self._begun = 0
        """Where the member at hand begins, with the headers that belong to it."""
        self._fault: str | None = None
        self._pass_over(start)

    @property
    def end(self) -> int:
        return self._offset

    def close(self) -> None:
        self._source.close()

    def __iter__(self) -> Iterator[Member]:
        stop = self._file.stop
        while stop is None or self._offset < stop:
            header = self._header()
            if header is None:
                return
            offset = self._begun
            if header.kind in _WITHOUT_CONTENT:
                continue
            kind = member_kind(header.name) if header.kind in _REGULAR else None
            reason = "page_encoding" if kind == PAGE and header.sparse else kind
            if reason == PAGE and header.size > self._limit:
                reason = "page_too_large"
            padding = -header.size % _BLOCK
            content = b""
            if reason == PAGE:
                taken = self._take(header.size)
                whole, content = taken is not None, taken or b""
            else:
                whole = self._pass_over(header.size)
            if not whole:
                self._ended(f"the member {shown_name(header.name)}")
                return
            # Some writers leave out what should fill the last block.
            self._pass_over(padding)
            if reason == PAGE:
                yield Member(offset, header.name, content)
            elif reason is not None:
                self._counts[reason] += 1

    def _header(self) -> _Header | None:
        """The next member's; None at the end."""
        self._begun = self._offset
        stated: dict[bytes, bytes] = {}
        ended = lost = False
        while (block := self._take(_BLOCK)) is not None:
            header = _parse(block) if any(block) else None
            if header is not None and header.kind in _EXTENSIONS:
                lost = not self._extension(header, stated) or lost
            elif header is not None:
                return self._completed(header, block, stated)
            elif not any(block):
                ended = True
                self._begun = self._offset
            elif ended:
                return None
            else:
                if not lost:
                    self._damaged(f"there is no header of a member at byte {self._offset - _BLOCK:,} of it")
                lost = True
                self._begun = self._offset
        if self._fault is not None or any(self._data):
            self._ended("a header, or before the last one")
        self._offset += len(self._data)
        return None

    def _completed(self, header: _Header, block: bytes, stated: Mapping[bytes, bytes]) -> _Header:
        """The header with what an extension before it says."""
        header.name = stated.get(b"path", header.name)
        size = stated.get(b"size", b"")
        if size.isdigit() and len(size) < 16:
            header.size = int(size)
        header.sparse = header.kind == _SPARSE or any(name.startswith(b"GNU.sparse") for name in stated)
        more = header.kind == _SPARSE and block[482]
        while more:  # the map of a sparse file goes on in blocks that its size does not count
            block = self._take(_BLOCK) or bytes(_BLOCK)
            more = block[504]
        return header

    def _ended(self, inside: str) -> None:
        cut = self._fault in (None, CUT)
        self._damaged(f"the file ends inside of {inside}" if cut else f"{self._fault}, inside of {inside}")

    def _extension(self, header: _Header, stated: dict[bytes, bytes]) -> bool:
        """Read a header that says something of the next one; False if it can't be read."""
        padded = header.size + -header.size % _BLOCK
        if header.size > _LONGEST_EXTENSION:
            self._damaged(f"an extended header of {header.size:,} bytes is more than any needs")
            self._pass_over(padded)
            return False
        content = self._take(padded)
        if content is None:
            return True  # the file ends: whoever asks for more will see it
        content = content[: header.size]
        if header.kind == ord("L"):
            stated[b"path"] = content.rstrip(b"\0")
        elif header.kind == ord("x"):
            found = _pax(content)
            if found is None:
                self._damaged("an extended header is damaged")
                return False
            stated.update(found)
        return True

    def _take(self, size: int) -> bytes | None:
        """So many bytes; None if there are fewer."""
        while len(self._data) < size:
            if not self._pull():
                return None
        taken = bytes(memoryview(self._data)[:size])
        del self._data[:size]
        self._offset += size
        return taken

    def _pass_over(self, size: int) -> bool:
        """Drop bytes that are never held together; False if there are fewer."""
        while size > 0:
            if not self._data and not self._pull():
                return False
            some = min(size, len(self._data))
            del self._data[:some]
            self._offset += some
            size -= some
        return True

    def _pull(self) -> bool:
        if self._fault is not None:
            return False
        with input_errors(self._file, at=self._offset + len(self._data)):
            piece = next(self._pieces, None)
        if piece is None:
            return False
        self._data += piece.data
        self._fault = piece.fault
        return piece.fault is None


def _parse(block: bytes) -> _Header | None:
    """A member's header; None if it is none."""
    sums = _number(block[148:156])
    plain = block[:148] + b" " * 8 + block[156:]
    if sums is None or sums not in (sum(plain), sum(byte - (byte >> 7 << 8) for byte in plain)):
        return None
    size = _number(block[124:136])
    if size is None or size > _LARGEST:
        return None
    name = block[:100].partition(b"\0")[0]
    prefix = block[345:500].partition(b"\0")[0] if block[257:263] == b"ustar\0" else b""
    return _Header(prefix + b"/" + name if prefix else name, size, block[156])


def _number(field: bytes) -> int | None:
    """In octal, or in bytes behind a set bit; None if it is none, or below zero."""
    if field[0] & 0x80:
        return int.from_bytes(field[1:], "big") if field[0] == 0x80 else None
    digits = field.partition(b"\0")[0].strip() or b"0"
    return None if digits.strip(b"01234567") else int(digits, 8)


def _pax(content: bytes) -> dict[bytes, bytes] | None:
    """The records `length key=value` of an extended header; None if they are none."""
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(content) and content[at] != 0:
        digits, space, _ = content[at : at + 12].partition(b" ")
        if not space or not digits.isdigit():
            return None
        end = at + int(digits)
        key, equals, value = content[at + len(digits) + 1 : end].partition(b"=")
        if not equals or end > len(content) or not value.endswith(b"\n"):
            return None
        found[key] = value[:-1]
        at = end
    return found
