"""Rows of Arrow files that Krill did not write, read where they lie.

In: a folder of Hugging Face `save_to_disk`, a `DatasetDict` of them, or single Arrow files, stream or file
format. Out: a `RowSource` that reads a row without decoding or mapping what is around it; `datasets` is not
needed. Opening reads of each record batch a header of some hundred bytes and, where rows may vary, four or
eight bytes a row; never the tokens. Held in memory: 72 bytes for each record batch (of 1,000 rows, if
`datasets` wrote it) and what `chunked_rows.py` says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from krill.corpus.arrow_messages import RECORD_BATCH, SCHEMA, Message, NotArrow, batch_buffers, messages
from krill.corpus.buffers import offsets_of
from krill.dataset.shard import is_plain_name
from krill.errors import InputError
from krill.loading.foreign.chunked_rows import ChunkedRows, ChunkIndex, ChunkStore
from krill.loading.foreign.row_files import IDS, SEQ_LENGTHS, IdColumns, NumbersFile, RowFiles, read_exactly

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
        f"`{name}` has a column of the type `{kind}`, which can't be skipped",
        hint=f"remove the column; `{IDS}` and `{SEQ_LENGTHS}` are all that is read",
    )


class _Buffer(NamedTuple):
    at: int
    size: int


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

    def positions(self, number: int, message: Message) -> tuple[int, ...]:
        """The record of a batch, as `BATCH` has it, every position checked to lie in the message."""
        if message.compressed:
            raise InputError(
                f"`{self._name}` is compressed, and its rows can't be read one by one",
                hint="save it without compression, as `save_to_disk` does, or as Parquet",
            )
        try:
            body, found = batch_buffers(self._read, message)
        except NotArrow as error:
            self._damaged(message, f"can't be read: {error}")
        if len(found) != self.columns.buffers:
            self._damaged(message, f"has {len(found)} buffers, not {self.columns.buffers}")
        if any(offset < 0 or size < 0 or body + offset + size > message.end for offset, size in found):
            self._damaged(message, "has buffers outside of it")
        buffers = [_Buffer(body + offset, size) for offset, size in found]
        return (number, message.rows, *self._ids(message, buffers), *self._pieces(message, buffers))

    def lengths(self, positions: tuple[int, ...]) -> tuple[int, int, int]:
        batch, width = np.array([positions], BATCH)[0], self.columns.ids.width
        if width is not None:
            return width, width, width * int(batch["rows"])
        dtype = self.columns.offset_dtype
        start, size = int(batch["offsets_at"]), (int(batch["rows"]) + 1) * dtype.itemsize
        stored = np.frombuffer(self._read(start, start + size), dtype)
        lengths = np.diff(_checked_offsets(stored, int(batch["tokens"]), IDS, self._name))
        return int(lengths.min()), int(lengths.max()), int(lengths.sum())

    def _ids(self, message: Message, buffers: Sequence[_Buffer]) -> tuple[int, int, int]:
        """Where the tokens are, how many, and where their lists' offsets are."""
        ids = self.columns.ids
        last = self.columns.ids_buffer + (3 if ids.width is not None else 4)
        validity, *offsets, value_validity, tokens = buffers[self.columns.ids_buffer : last]
        count = tokens.size // ids.dtype.itemsize
        self._refuse_nulls(message, validity, message.rows)
        self._refuse_nulls(message, value_validity, count)
        if ids.width is not None:
            if count < message.rows * ids.width:
                self._damaged(message, "has too few tokens")
            return tokens.at, count, 0
        self._check_offsets(message, offsets[0], self.columns.offset_dtype)
        return tokens.at, count, offsets[0].at

    def _pieces(self, message: Message, buffers: Sequence[_Buffer]) -> tuple[int, int, int, int]:
        """Where the lengths of pieces are, how many, where their lists' offsets and flags are."""
        dtype, first = self.columns.ids.seq_dtype, self.columns.seq_buffer
        if dtype is None:
            return 0, 0, 0, 0
        validity, offsets, value_validity, values = buffers[first : first + 4]
        if value_validity.size:
            raise InputError(
                f"`{SEQ_LENGTHS}` in `{self._name}` has nulls inside its lists",
                hint="write the dataset without them",
            )
        if validity.size and validity.size * 8 < message.rows:
            self._damaged(message, "has too few flags")
        self._check_offsets(message, offsets, self.columns.seq_offset_dtype)
        return values.at, values.size // dtype.itemsize, offsets.at, validity.at if validity.size else 0

    def _check_offsets(self, message: Message, offsets: _Buffer, dtype: np.dtype[Any]) -> None:
        if offsets.size < (message.rows + 1) * dtype.itemsize:
            self._damaged(message, "has too few offsets")

    def _refuse_nulls(self, message: Message, validity: _Buffer, count: int) -> None:
        """Flags may be there and say that nothing is null."""
        if validity.size == 0:
            return
        if validity.size * 8 < count:
            self._damaged(message, "has too few flags")
        flags = np.frombuffer(self._read(validity.at, validity.at + validity.size), np.uint8)
        if not np.unpackbits(flags, bitorder="little", count=count).all():
            raise InputError(f"`{IDS}` in `{self._name}` has nulls", hint="remove the rows that have none")

    def _read(self, start: int, end: int) -> bytes:
        return read_exactly(self._opened, self._name, start, end)

    def _damaged(self, message: Message, problem: str) -> NoReturn:
        raise InputError(
            f"`{self._name}` is damaged: the record batch at byte {message.start:,} {problem}",
            hint="copy the file again",
        )


def _checked_offsets(stored: npt.NDArray[Any], most: int, column: str, name: str) -> npt.NDArray[np.int64]:
    """Offsets of lists, which ascend from 0 on and end inside the values."""
    # Neighbours are compared, not subtracted: a difference may wrap around.
    if stored[0] < 0 or (stored[1:] < stored[:-1]).any() or stored[-1] > most:
        raise InputError(
            f"`{name}` is damaged: the offsets of `{column}` are not ascending", hint="copy the file again"
        )
    return stored.astype(np.int64)


def open_arrow_rows(name: str, files: RowFiles, *, cache_bytes: int, mark: str = "") -> ChunkedRows:
    """The rows of Arrow files. `mark` is the fingerprint that `datasets` gave it."""
    columns: BatchColumns | None = None
    found: list[tuple[int, ...]] = []
    lengths: list[tuple[int, int, int]] = []
    for number, file in enumerate(files.names):
        with files.open_ranges(number) as opened:
            arrow = ArrowFile(file, opened, files.size(number))
            if columns is not None and arrow.columns != columns:
                raise InputError(
                    f"`{file}` has columns of other types than `{files.names[0]}`", hint="load them apart"
                )
            columns = arrow.columns
            for message in arrow.batches:
                found.append(arrow.positions(number, message))
                lengths.append(arrow.lengths(found[-1]))
    if columns is None or not found:
        raise InputError(f"`{name}` has no rows", hint="give a dataset that has some")
    shortest, longest, tokens = zip(*lengths, strict=True)
    store = _RecordBatches(files, columns, np.array(found, BATCH), mark)
    rows = ChunkedRows(name, store, tokens=sum(tokens), cache_bytes=cache_bytes)
    return rows.set_lengths(min(shortest), max(longest))


class _RecordBatches(ChunkStore):
    def __init__(self, files: RowFiles, columns: BatchColumns, batches: npt.NDArray[Any], mark: str) -> None:
        super().__init__(files, columns.ids.dtype, batches["file"], batches["rows"], batches.nbytes)
        if files.fetched:  # a file is one block then, so that shuffling needs few files at a time
            self.block_rows = int(np.bincount(batches["file"], batches["rows"]).max())
        self._batches = batches
        self._columns = columns
        self._mark = mark

    def digest(self) -> hashlib.blake2b:
        digest = hashlib.blake2b(self._mark.encode(), digest_size=16)
        digest.update(f"{self.dtype} {self.block_rows}".encode())
        digest.update(self._batches.tobytes())
        return digest

    def index(self, chunk: int, file: NumbersFile) -> ChunkIndex:
        batch, columns = self._batches[chunk], self._columns
        rows, tokens_at = int(batch["rows"]), int(batch["tokens_at"])
        if columns.ids.width is not None:
            token_offsets = np.arange(rows + 1, dtype=np.int64) * columns.ids.width
        else:
            stored = file.read(columns.offset_dtype, int(batch["offsets_at"]), rows + 1)
            token_offsets = _checked_offsets(stored, int(batch["tokens"]), IDS, file.shown)
        if columns.ids.seq_dtype is None:
            return ChunkIndex(tokens_at, token_offsets)
        return ChunkIndex(tokens_at, token_offsets, *self._pieces(batch, columns.ids.seq_dtype, file))

    def _pieces(
        self, batch: Any, dtype: np.dtype[Any], file: NumbersFile
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        rows, count = int(batch["rows"]), int(batch["seq_count"])
        stored = file.read(self._columns.seq_offset_dtype, int(batch["seq_offsets_at"]), rows + 1)
        offsets = _checked_offsets(stored, count, SEQ_LENGTHS, file.shown)
        lengths = file.read(dtype, int(batch["seq_at"]), count)
        if not batch["seq_valid_at"]:
            return offsets, lengths.astype(np.int32)
        # What is stored beneath a null list means nothing: those rows have no pieces.
        flags = file.read(np.uint8, int(batch["seq_valid_at"]), -(-rows // 8))
        valid = np.unpackbits(flags, bitorder="little", count=rows).astype(bool)
        counts = np.diff(offsets)
        lengths = lengths[int(offsets[0]) : int(offsets[-1])][np.repeat(valid, counts)]
        return offsets_of(np.where(valid, counts, 0)), lengths.astype(np.int32)


def saved_files(folder: str, content: bytes) -> tuple[list[str], str]:
    """The names of a saved dataset's files, from its `state.json`, and the mark that `datasets` gave it."""
    state = _decoded(content, f"{folder}/state.json")
    if state.get("_indices_data_files") or state.get("_indices_files"):
        raise InputError(
            f"`{folder}` was saved with a selection or order of its rows beside them",
            hint="save it again: `load_from_disk(...).flatten_indices().save_to_disk(...)`",
        )
    entries = state.get("_data_files")
    if not isinstance(entries, list) or not entries:
        raise InputError(
            f"`{folder}` has no data files: its `state.json` names none",
            hint="copy or save the dataset again",
        )
    names = [str(entry.get("filename") if isinstance(entry, dict) else entry) for entry in entries]
    for name in names:
        if not is_plain_name(name):
            raise InputError(
                f"`{folder}/state.json` names `{name[:80]}`, which is not a file name",
                hint="copy or save the dataset again",
            )
    return names, str(state.get("_fingerprint", ""))


def split_folder(folder: str, content: bytes, split: str) -> str:
    """The name of a split's folder inside of a saved `DatasetDict`, from its `dataset_dict.json`."""
    splits = _decoded(content, f"{folder}/dataset_dict.json").get("splits")
    if not isinstance(splits, list):
        raise InputError(f"`{folder}/dataset_dict.json` lists no splits", hint="copy the file again")
    if split not in splits or not is_plain_name(split):
        there = ", ".join(f"`{name}`" for name in splits)
        raise InputError(
            f"no split `{split}` in `{folder}`; there are: {there or 'none'}", hint="name one that is there"
        )
    return split


def _decoded(content: bytes, path: str) -> dict[str, Any]:
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise InputError(f"`{path}` is not valid JSON: {error}", hint="copy the file again") from None
    if not isinstance(value, dict):
        raise InputError(f"`{path}` is not a JSON object", hint="copy the file again")
    return value
