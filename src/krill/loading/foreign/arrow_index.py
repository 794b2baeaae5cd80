"""Where the rows of Arrow files lie, found by their headers.

Comes in: an Arrow IPC file, stream or file format, as Hugging Face `save_to_disk` writes them. Goes out: for
each record batch its rows and the positions of the buffers that hold ids and `seq_lengths`, so that a row is
read without reading the batch. This takes of each record batch a header of some hundred bytes and, where rows
may vary, four or eight bytes a row; never the tokens. Held in memory: 72 bytes for each record batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, BinaryIO, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from krill.corpus.arrow_messages import RECORD_BATCH, SCHEMA, Message, NotArrow, messages
from krill.dataset.message import PREFIX_BYTES, BatchHeader, Buffer, header_bytes, parse_batch_header
from krill.errors import InputError
from krill.loading.foreign.id_columns import IDS, SEQ_LENGTHS, IdColumns
from krill.loading.foreign.row_files import read_exactly

BATCH = np.dtype(
    [
        ("file", "i8"),
        ("rows", "i8"),
        ("tokens_at", "i8"),
        ("tokens", "i8"),  # how many there is room for
        ("offsets_at", "i8"),  # of the ids' lists; 0 where the width is fixed
        ("seq_at", "i8"),
        ("seq_count", "i8"),
        ("seq_offsets_at", "i8"),  # of the pieces' lists; 0 where there are none
        ("seq_valid_at", "i8"),  # which rows state their pieces; 0 where all do
    ]
)
"""Positions in bytes from the beginning of the file."""


@dataclass(frozen=True, slots=True)
class BatchColumns:
    """The columns that are read, and the number of the first buffer of each in a record batch."""

    ids: IdColumns
    offset_dtype: np.dtype[Any]
    seq_offset_dtype: np.dtype[Any]
    ids_buffer: int
    seq_buffer: int
    buffers: int

    @classmethod
    def of(cls, schema: pa.Schema, name: str) -> BatchColumns:
        ids = IdColumns.of(schema, name)
        firsts, total = {}, 0
        for field in schema:
            firsts[field.name] = total
            total += _buffers(field.type, name)
        has_seq = ids.seq_dtype is not None
        seq_type = schema.field(SEQ_LENGTHS).type if has_seq else None
        offsets = (_offset_dtype(schema.field(IDS).type), _offset_dtype(seq_type))
        return cls(ids, *offsets, firsts[IDS], firsts.get(SEQ_LENGTHS, -1), total)


def _offset_dtype(kind: pa.DataType | None) -> np.dtype[Any]:
    large = kind is not None and pa.types.is_large_list(kind)
    return np.dtype(np.int64 if large else np.int32)


def _buffers(kind: pa.DataType, name: str) -> int:
    """How many buffers a column of this type has in a record batch, as Arrow's columnar format lays down."""
    if isinstance(kind, pa.BaseExtensionType):
        return _buffers(kind.storage_type, name)
    types = pa.types
    if types.is_null(kind):
        return 0
    if types.is_dictionary(kind) or types.is_primitive(kind) or types.is_fixed_size_binary(kind):
        return 2
    if kind in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary()):
        return 3
    inner = sum(_buffers(kind.field(each).type, name) for each in range(kind.num_fields))
    if types.is_struct(kind) or types.is_fixed_size_list(kind):
        return 1 + inner
    if types.is_list(kind) or types.is_large_list(kind) or types.is_map(kind):
        return 2 + inner
    raise InputError(
        f"`{name}` has a column of the type `{kind}`, which can't be passed by",
        hint=f"remove the column; `{IDS}` and `{SEQ_LENGTHS}` are all that is read",
    )


class ArrowFile:
    """One file's record batches that have rows."""

    def __init__(self, name: str, opened: BinaryIO, size: int) -> None:
        self._name = name
        self._opened = opened
        self.batches: list[Message] = []
        schema = None
        try:
            for message in messages(self._read, size):
                if message.kind == SCHEMA:
                    schema = pa.ipc.read_schema(pa.py_buffer(self._read(message.start, message.end)))
                elif message.kind == RECORD_BATCH and message.rows > 0:
                    self.batches.append(message)
            if schema is None:
                raise NotArrow("it has no schema")
            schema.names  # noqa: B018  which must be UTF-8
        except InputError:
            raise
        except (NotArrow, pa.ArrowException, OSError, ValueError) as error:
            raise InputError(
                f"`{name}` is not a whole Arrow IPC file: {error}", hint="copy the file again"
            ) from error
        self.columns = BatchColumns.of(schema, name)

    def places(self, number: int, message: Message) -> tuple[int, ...]:
        """The record of a batch, as `BATCH` has it, every position checked to lie in the message."""
        header, body = self._header(message)
        if header.compressed:
            raise InputError(
                f"`{self._name}` is compressed, and its rows can't be read one by one",
                hint="save it without compression, as `save_to_disk` does, or as Parquet",
            )
        if len(header.buffers) != self.columns.buffers:
            self._damaged(message, f"has {len(header.buffers)} buffers, not {self.columns.buffers}")
        if any(
            each.offset < 0 or each.length < 0 or body + each.end > message.end for each in header.buffers
        ):
            self._damaged(message, "has buffers outside of it")
        ids = self._ids(message, header, body)
        return (number, header.rows, *ids, *self._pieces(message, header, body))

    def lengths(self, places: tuple[int, ...]) -> tuple[int, int, int]:
        """The shortest and the longest row of a batch, and all its tokens."""
        batch, width = np.array([places], BATCH)[0], self.columns.ids.width
        if width is not None:
            return width, width, width * int(batch["rows"])
        dtype = self.columns.offset_dtype
        start, size = int(batch["offsets_at"]), (int(batch["rows"]) + 1) * dtype.itemsize
        stored = np.frombuffer(self._read(start, start + size), dtype)
        lengths = np.diff(checked_offsets(stored, int(batch["tokens"]), IDS, self._name))
        return int(lengths.min()), int(lengths.max()), int(lengths.sum())

    def _ids(self, message: Message, header: BatchHeader, body: int) -> tuple[int, int, int]:
        """Where the tokens are, how many, and where their lists' offsets are."""
        ids = self.columns.ids
        last = self.columns.ids_buffer + (3 if ids.width is not None else 4)
        validity, *offsets, value_validity, tokens = header.buffers[self.columns.ids_buffer : last]
        count = tokens.length // ids.dtype.itemsize
        self._refuse_nulls(message, body, validity, header.rows)
        self._refuse_nulls(message, body, value_validity, count)
        if ids.width is not None:
            if count < header.rows * ids.width:
                self._damaged(message, "has too few tokens")
            return body + tokens.offset, count, 0
        self._check_offsets(message, header.rows, offsets[0], self.columns.offset_dtype)
        return body + tokens.offset, count, body + offsets[0].offset

    def _pieces(self, message: Message, header: BatchHeader, body: int) -> tuple[int, int, int, int]:
        """Where the lengths of pieces are, how many, where their lists' offsets and flags are."""
        dtype, first = self.columns.ids.seq_dtype, self.columns.seq_buffer
        if dtype is None:
            return 0, 0, 0, 0
        validity, offsets, value_validity, values = header.buffers[first : first + 4]
        if value_validity.length:
            raise InputError(
                f"`{SEQ_LENGTHS}` in `{self._name}` has nulls inside its lists",
                hint="write the dataset without them",
            )
        if validity.length and validity.length * 8 < header.rows:
            self._damaged(message, "has too few flags")
        self._check_offsets(message, header.rows, offsets, self.columns.seq_offset_dtype)
        flags_at = body + validity.offset if validity.length else 0
        return body + values.offset, values.length // dtype.itemsize, body + offsets.offset, flags_at

    def _check_offsets(self, message: Message, rows: int, offsets: Buffer, dtype: np.dtype[Any]) -> None:
        if offsets.length < (rows + 1) * dtype.itemsize:
            self._damaged(message, "has too few offsets")

    def _refuse_nulls(self, message: Message, body: int, validity: Buffer, count: int) -> None:
        """Flags may be there and say that nothing is null."""
        if validity.length == 0:
            return
        if validity.length * 8 < count:
            self._damaged(message, "has too few flags")
        start = body + validity.offset
        flags = np.frombuffer(self._read(start, start + validity.length), np.uint8)
        if not np.unpackbits(flags, bitorder="little", count=count).all():
            raise InputError(f"`{IDS}` in `{self._name}` has nulls", hint="remove the rows that have none")

    def _header(self, message: Message) -> tuple[BatchHeader, int]:
        """A record batch's header, and where its body begins."""
        try:
            length = header_bytes(self._read(message.start, message.start + PREFIX_BYTES))
            body = message.start + PREFIX_BYTES + length
            return parse_batch_header(self._read(message.start + PREFIX_BYTES, body)), body
        except ValueError as error:
            self._damaged(message, f"can't be read: {error}")

    def _read(self, start: int, end: int) -> bytes:
        return read_exactly(self._opened, self._name, start, end)

    def _damaged(self, message: Message, problem: str) -> NoReturn:
        raise InputError(
            f"`{self._name}` is damaged: the record batch at byte {message.start:,} {problem}",
            hint="copy the file again",
        )


def checked_offsets(stored: npt.NDArray[Any], most: int, column: str, name: str) -> npt.NDArray[np.int64]:
    """Offsets of lists, which ascend from 0 on and end inside the values."""
    # Neighbours are compared, not subtracted: a difference may wrap around.
    if stored[0] < 0 or (stored[1:] < stored[:-1]).any() or stored[-1] > most:
        raise InputError(
            f"`{name}` is damaged: the offsets of `{column}` are not ascending", hint="copy the file again"
        )
    return stored.astype(np.int64)
