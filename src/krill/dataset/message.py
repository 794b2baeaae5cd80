"""Where the buffers of one record batch lie, read from its message header.

Comes in: the header of an Arrow IPC record batch message (about 300 bytes). Goes out: the position and length
of each buffer inside the body. Held in memory: the header.

pyarrow decodes a record batch only together with its whole body. To read one row out of a mebibyte, the
reader needs just this table, so it walks the flatbuffer by hand: Message -> RecordBatch -> nodes and buffers,
as Arrow's `Message.fbs` declares them. `validate` decodes the same batches with pyarrow, and a property test
holds the two equal.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

PREFIX_BYTES = 8  # the continuation marker and the header's length
END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
_CONTINUATION = 0xFFFFFFFF
_RECORD_BATCH = 3  # MessageHeader in Message.fbs


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer's place, counted from the beginning of the body."""

    offset: int
    length: int

    @property
    def end(self) -> int:
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """What a record batch message says of itself."""

    rows: int
    nulls: int
    compressed: bool
    body_bytes: int
    buffers: tuple[Buffer, ...]


def header_bytes(prefix: bytes | bytearray) -> int:
    """The length of the header that follows a message's first eight bytes."""
    marker, length = struct.unpack_from("<II", prefix)
    if marker != _CONTINUATION:
        raise ValueError("no message begins there")
    return int(length)


def parse_batch_header(header: bytes | bytearray) -> BatchHeader:
    """Read a record batch's header; ValueError if it is not one."""
    try:
        message = _Table(header, _Table.u32(header, 0))
        if message.scalar(1, "<B") != _RECORD_BATCH:
            raise ValueError("the message is not a record batch")
        batch = message.table(2)
        nodes = batch.pairs(1)
        return BatchHeader(
            rows=batch.scalar(0, "<q"),
            nulls=sum(nulls for _, nulls in nodes),
            compressed=batch.field(3) is not None,
            body_bytes=message.scalar(3, "<q"),
            buffers=tuple(Buffer(offset, length) for offset, length in batch.pairs(2)),
        )
    except struct.error:
        raise ValueError("the message's header is cut short") from None


class _Table:
    """A flatbuffer table: a position, and a vtable that says where each field is."""

    def __init__(self, data: bytes | bytearray, position: int) -> None:
        self._data = data
        self._position = position
        self._vtable = position - struct.unpack_from("<i", data, position)[0]
        if self._vtable < 0:
            raise ValueError("the message's header is damaged")

    @staticmethod
    def u32(data: bytes | bytearray, position: int) -> int:
        return int(struct.unpack_from("<I", data, position)[0])

    def field(self, number: int) -> int | None:
        """Where a field's value is; None if the table leaves it out."""
        (size,) = struct.unpack_from("<H", self._data, self._vtable)
        slot = 4 + 2 * number
        if slot >= size:
            return None
        (relative,) = struct.unpack_from("<H", self._data, self._vtable + slot)
        return self._position + relative if relative else None

    def scalar(self, number: int, code: str) -> int:
        at = self.field(number)
        return 0 if at is None else int(struct.unpack_from(code, self._data, at)[0])

    def table(self, number: int) -> _Table:
        at = self.field(number)
        if at is None:
            raise ValueError("the message's header is damaged")
        return _Table(self._data, at + self.u32(self._data, at))

    def pairs(self, number: int) -> list[tuple[int, int]]:
        """A vector of structs of two int64, which nodes and buffers both are."""
        at = self.field(number)
        if at is None:
            return []
        start = at + self.u32(self._data, at)
        count = self.u32(self._data, start)
        values = struct.unpack_from(f"<{2 * count}q", self._data, start + 4)
        return list(zip(values[::2], values[1::2], strict=True))
