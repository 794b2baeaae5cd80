"""The messages of an Arrow IPC file or stream: which there are, where they lie, how many rows they have.

Arrow's own stream reader has to read one message's body to get to the next. Here only the headers are read;
each says how long its body is. The few fields needed are taken out of their flatbuffers by hand, which is
simple: a table begins with the distance back to its vtable, which holds the distance of each field from the
table.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

FILE_MAGIC = b"ARROW1"
_FILE_PREFIX = FILE_MAGIC + b"\0\0"
_CONTINUATION = 0xFFFFFFFF

SCHEMA, DICTIONARY_BATCH, RECORD_BATCH = 1, 2, 3

# LZ4 makes 255 bytes of one, Zstandard 128 KiB of four: what claims more is damaged. In bits.
_MOST_COMPRESSED = 16
# What a body can't be: an address has no more bits.
_MOST_BYTES = 1 << 47

Read = Callable[[int, int], bytes]


class NotArrow(ValueError):
    """The bytes are not Arrow IPC, or end too early."""


@dataclass(frozen=True, slots=True)
class Message:
    kind: int
    start: int
    end: int
    rows: int = 0
    decoded_bytes: int = 0
    """Its body, decompressed."""
    compressed: bool = False
    dictionary: int = 0
    """Of a dictionary: which one it is."""
    delta: bool = False
    """Whether it adds to the one before it; else it takes its place."""


def messages(read: Read, size: int) -> Iterator[Message]:
    """All messages in order, by their headers; `read(start, end)` gives bytes of the file."""
    start = 0
    if read(0, min(size, len(_FILE_PREFIX))) == _FILE_PREFIX:
        if read(size - len(FILE_MAGIC), size) != FILE_MAGIC:
            raise NotArrow("its end is missing")
        start = len(_FILE_PREFIX)
    while start + 8 <= size:
        header, body = _header_range(read, start)
        if body == header:
            return
        if body > size:
            raise NotArrow(f"it ends inside the message at byte {start:,}")
        try:
            table = _Table.root(read(header, body))
            end = body + table.scalar(3, "<q")
            if end > size:
                raise NotArrow(f"it ends inside the message at byte {start:,}")
            message = _parse(table, start, body, end, read)
        except (struct.error, IndexError) as error:
            raise NotArrow(f"no message at byte {start:,}") from error
        yield message
        start = message.end


def batch_buffers(read: Read, message: Message) -> tuple[int, list[tuple[int, int]]]:
    """Where the body of a record batch's message begins, and the offset in it and length of each buffer."""
    header, body = _header_range(read, message.start)
    try:
        batch = _Table.root(read(header, body)).table(2)
        return body, [(offset, length) for offset, length in batch.structs(2, "<qq")]
    except (struct.error, IndexError) as error:
        raise NotArrow(f"no message at byte {message.start:,}") from error


def _header_range(read: Read, start: int) -> tuple[int, int]:
    """Where the header of the message at `start` begins and ends; equal for the end of a stream."""
    (length,) = struct.unpack("<I", read(start, start + 4))
    header = start + 4
    if length == _CONTINUATION:  # since Arrow 0.15; before, the length came first
        (length,) = struct.unpack("<I", read(header, header + 4))
        header += 4
    return header, header + length


def _parse(message: _Table, start: int, body: int, end: int, read: Read) -> Message:
    kind = message.scalar(1, "<B")
    if end < body:
        raise NotArrow(f"the message at byte {start:,} is shorter than nothing")
    if kind not in (RECORD_BATCH, DICTIONARY_BATCH):
        return Message(kind, start, end)
    batch = message.table(2) if kind == RECORD_BATCH else message.table(2).table(1)
    rows, compressed = batch.scalar(0, "<q"), batch.has(3)
    decoded = _decompressed_bytes(batch, body, end, read) if compressed else end - body
    if rows < 0 or decoded > _MOST_BYTES:
        raise NotArrow(f"the message at byte {start:,} has {rows:,} rows in {decoded:,} bytes")
    if kind == RECORD_BATCH:
        return Message(kind, start, end, rows, decoded, compressed)
    number, delta = message.table(2).scalar(0, "<q"), bool(message.table(2).scalar(2, "<B"))
    return Message(kind, start, end, rows, decoded, compressed, number, delta)


def _decompressed_bytes(batch: _Table, body: int, end: int, read: Read) -> int:
    """Each compressed buffer begins with its length before compression, or -1 if it was left as it is."""
    total = 0
    for offset, length in batch.structs(2, "<qq"):
        if offset < 0 or length > end - body - offset:
            raise NotArrow(f"a buffer of the message that ends at byte {end:,} lies outside of it")
        if length >= 8:
            (decoded,) = struct.unpack("<q", read(body + offset, body + offset + 8))
            if decoded > length << _MOST_COMPRESSED:
                raise NotArrow(f"a buffer of {length:,} bytes can't decode to {decoded:,}")
            total += decoded if decoded >= 0 else length - 8
    return total


@dataclass(frozen=True, slots=True)
class _Table:
    buffer: bytes
    at: int

    @classmethod
    def root(cls, buffer: bytes) -> _Table:
        return cls(buffer, struct.unpack_from("<I", buffer, 0)[0])

    def has(self, field: int) -> bool:
        return self._distance(field) != 0

    def scalar(self, field: int, kind: str) -> int:
        distance = self._distance(field)
        return int(struct.unpack_from(kind, self.buffer, self.at + distance)[0]) if distance else 0

    def table(self, field: int) -> _Table:
        return _Table(self.buffer, self._target(field))

    def structs(self, field: int, kind: str) -> Iterator[tuple[int, ...]]:
        """The elements of a vector of structs."""
        at = self._target(field)
        (count,) = struct.unpack_from("<I", self.buffer, at)
        for index in range(count):
            yield struct.unpack_from(kind, self.buffer, at + 4 + index * struct.calcsize(kind))

    def _target(self, field: int) -> int:
        at = self.at + self._distance(field)
        return at + int(struct.unpack_from("<I", self.buffer, at)[0])

    def _distance(self, field: int) -> int:
        """Of a field from the table's beginning; 0 if it is not there."""
        vtable = self.at - struct.unpack_from("<i", self.buffer, self.at)[0]
        (size,) = struct.unpack_from("<H", self.buffer, vtable)
        entry = 4 + 2 * field
        return int(struct.unpack_from("<H", self.buffer, vtable + entry)[0]) if entry < size else 0
