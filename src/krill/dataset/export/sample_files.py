"""Rows as samples in files of bounded size, as MosaicML Streaming (MDS) and LitData read them.

In: rows. Out: a folder for each split, with files of about 64 MB and `index.json`, which names them. Where a
file ends follows from the sizes of the samples, as the formats' own writers do it. Both formats begin a file
alike, all numbers uint32, little-endian: how many samples there are, and where each begins, with one more for
the end. The samples follow; in an MDS file, a description of the columns stands before them.

- MDS: the sizes of those columns of a sample whose size varies, then all columns, sorted by name. An array
  of any length begins with a byte for the number of its dimensions (1) and for the width of its length, and
  with the length.
- LitData: the sizes of all columns of a sample, then the columns, as `PyTreeLoader` reads them. For
  `TokensLoader` a sample is nothing but its tokens, and the files are one stretch of tokens each.

Held in memory: a batch and what is made of it. Samples and their sizes wait on disk until their file is full,
since it begins with what follows from all of them.
"""

from __future__ import annotations

import json
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from krill.dataset.export.sink import ExportedFile, WaitingFile, export_file
from krill.dataset.layout import Layout
from krill.dataset.rows import RowBatch
from krill.dataset.shard import HashingFile
from krill.errors import InputError
from krill.storage.atomic import storage_errors, undo_on_error

INDEX_NAME: Final = "index.json"
# What both tools' own writers take for the most.
FILE_BYTES: Final = 2**26
_MOST_OFFSET: Final = 2**32 - 1
# Samples that are joined at once: each of their parts is a Python object until then, of about 200 bytes.
_SAMPLES_AT_ONCE: Final = 1024
_AT_ONCE: Final = 2**17
# What LitData calls the types of arrays.
_LITDATA_TYPES: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@dataclass(frozen=True, slots=True)
class Column:
    """`width` is how many numbers each row has; None if that varies."""

    name: str
    dtype: str
    width: int | None = None

    def values(self, batch: RowBatch) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """The column of all rows, and the offsets of each."""
        offsets: npt.NDArray[Any] = batch.offsets
        match self.name:
            case "input_ids":
                values: npt.NDArray[Any] = batch.tokens
            case "seq_lengths":
                values, offsets = batch.seq_lengths, batch.seq_offsets
            case "labels":
                assert batch.labels is not None, "a layout with labels has rows with labels"
                values = batch.labels
            case _:
                values = np.ones(len(batch.tokens), np.int8)
        return values.astype(np.dtype(self.dtype).newbyteorder("<"), copy=False), offsets


def columns_of(layout: Layout) -> list[Column]:
    return [
        Column("input_ids", layout.token_dtype, layout.sequence_len if layout.fixed else None),
        Column("seq_lengths", "int32"),
        *([Column("labels", "int32")] if layout.labels else []),
        *([Column("attention_mask", "int8")] if layout.attention_mask else []),
    ]


@dataclass(frozen=True, slots=True)
class Samples:
    """Rows as a format has them, one after the other, with how many bytes and tokens each takes."""

    data: bytes
    sizes: npt.NDArray[np.int64]
    tokens: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Parts:
    """One part of each sample: sample `i` has `data[begins[i]:ends[i]]`."""

    data: memoryview
    begins: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    @classmethod
    def of(cls, values: npt.NDArray[Any], offsets: npt.NDArray[Any]) -> Parts:
        places = offsets.astype(np.int64) * values.itemsize
        return cls(np.ascontiguousarray(values).view(np.uint8).data, places[:-1], places[1:])

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        return self.ends - self.begins

    def between(self, first: int, end: int) -> Iterator[memoryview]:
        begins, ends = self.begins[first:end].tolist(), self.ends[first:end].tolist()
        return map(self.data.__getitem__, map(slice, begins, ends))


class SampleFormat(ABC):
    """How one format writes samples, files and the index."""

    limit: int
    """When a file is full: the bytes of its samples, and what else the format's own writer counts."""
    preamble: bytes = b""
    """What stands before the samples of a file."""
    file_counts: int = 0
    """What counts in a file before its first sample."""
    sample_counts: ClassVar[int] = 0
    """What counts of a sample besides its bytes."""

    @abstractmethod
    def parts(self, batch: RowBatch) -> list[Parts]:
        """What each sample is made of."""

    @abstractmethod
    def file_name(self, number: int) -> str: ...

    @abstractmethod
    def index(self, files: Sequence[ExportedFile]) -> Iterator[bytes]: ...

    def samples(self, batch: RowBatch) -> Samples:
        parts = self.parts(batch)
        joined = []
        for first in range(0, batch.rows, _SAMPLES_AT_ONCE):
            columns = [part.between(first, first + _SAMPLES_AT_ONCE) for part in parts]
            joined.append(b"".join(chain.from_iterable(zip(*columns, strict=True))))
        sizes = sum((part.sizes for part in parts), np.zeros(batch.rows, np.int64))
        return Samples(joined[0] if len(joined) == 1 else b"".join(joined), sizes, np.diff(batch.offsets))


class MdsFormat(SampleFormat):
    """Shards of MosaicML Streaming, version 2 of the format, with their SHA-256 for `validate_hash`."""

    sample_counts = 4

    def __init__(self, layout: Layout, limit: int = FILE_BYTES) -> None:
        self.limit = limit
        self._columns = sorted(columns_of(layout), key=lambda column: column.name)
        widths = [column.width for column in self._columns]
        self._config = {
            "version": 2,
            "format": "mds",
            "compression": None,
            "hashes": ["sha256"],
            "size_limit": limit,
            "column_names": [column.name for column in self._columns],
            "column_encodings": [
                f"ndarray:{column.dtype}" + (f":{column.width}" if column.width else "")
                for column in self._columns
            ],
            "column_sizes": [
                None if width is None else width * np.dtype(column.dtype).itemsize
                for column, width in zip(self._columns, widths, strict=True)
            ],
        }
        self.preamble = _json(self._config)
        self.file_counts = 8 + len(self.preamble)

    def parts(self, batch: RowBatch) -> list[Parts]:
        sized, found = [], []
        for column in self._columns:
            values, offsets = column.values(batch)
            arrays = Parts.of(values, offsets)
            if column.width is None:
                lengths = _array_lengths(np.diff(offsets))
                sized.append(arrays.sizes + lengths.sizes)
                found.append(lengths)
            found.append(arrays)
        return [_numbers(sized), *found]

    def file_name(self, number: int) -> str:
        return f"shard.{number:05d}.mds"

    def index(self, files: Sequence[ExportedFile]) -> Iterator[bytes]:
        yield b'{"shards": ['
        for number, file in enumerate(files):
            data = {"basename": file.name, "bytes": file.bytes, "hashes": {"sha256": file.sha256}}
            shard = {**self._config, "raw_data": data, "samples": file.counts["rows"], "zip_data": None}
            yield (b", " if number else b"") + _json(shard)
        yield b'], "version": 2}'


class LitDataFormat(SampleFormat):
    """Chunks of LitData: rows for its `PyTreeLoader`, or tokens for its `TokensLoader`."""

    def __init__(self, layout: Layout, *, only_tokens: bool = False, limit: int = FILE_BYTES) -> None:
        columns = columns_of(layout)
        self.limit = limit
        self._only_tokens = only_tokens
        self._columns = columns[:1] if only_tokens else columns
        leaf: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
        names = [column.name for column in self._columns]
        rows = {"type": "builtins.dict", "context": json.dumps(names), "children_spec": [leaf] * len(names)}
        types = [f"no_header_numpy:{_LITDATA_TYPES.index(column.dtype)}" for column in self._columns]
        self._config = {
            "chunk_bytes": limit,
            "chunk_size": None,
            "compression": None,
            "compression_batch_size": None,
            "compression_level": None,
            "data_format": types,
            "data_spec": json.dumps([1, leaf if only_tokens else rows]),
            "encryption": None,
            "ipc_compression": None,
            "item_loader": "TokensLoader" if only_tokens else "PyTreeLoader",
            "types": "json" if only_tokens else dict.fromkeys(names, "json"),
        }

    def parts(self, batch: RowBatch) -> list[Parts]:
        arrays = [Parts.of(*column.values(batch)) for column in self._columns]
        return arrays if self._only_tokens else [_numbers([array.sizes for array in arrays]), *arrays]

    def file_name(self, number: int) -> str:
        return f"chunk-0-{number}.bin"

    def index(self, files: Sequence[ExportedFile]) -> Iterator[bytes]:
        yield b'{"chunks": ['
        for number, file in enumerate(files):
            chunk = {
                "chunk_bytes": file.bytes,
                "chunk_size": file.counts["rows"],
                "dim": file.counts["tokens"] if self._only_tokens else None,
                "filename": file.name,
            }
            yield (b", " if number else b"") + _json(chunk)
        yield b'], "config": ' + _json(self._config) + b"}"


class SampleSink:
    """The files of one split, in a folder of its name."""

    def __init__(self, folder: Path, split: str, form: SampleFormat) -> None:
        self.prepare = form.samples
        self._form = form
        self._folder = folder / split
        self._files: list[ExportedFile] = []
        with storage_errors(self._folder):
            self._folder.mkdir(exist_ok=True)
        self._data = WaitingFile(self._folder / "samples")
        with undo_on_error(self._data.remove):
            self._sizes = WaitingFile(self._folder / "sizes")
        self._begin_file()

    def write(self, prepared: Samples) -> None:
        begins = np.concatenate((np.zeros(1, np.int64), np.cumsum(prepared.sizes)))
        counted = begins + self._form.sample_counts * np.arange(len(begins))
        data, first, rows = memoryview(prepared.data), 0, len(prepared.sizes)
        while first < rows:
            end = (
                int(np.searchsorted(counted, self._form.limit - self._counted + counted[first], "right")) - 1
            )
            if end <= first and self._rows:
                self._finish_file()
                continue
            end = max(end, first + 1)  # a sample above the limit has a file of its own
            self._check_size(int(prepared.sizes[first]))
            self._data.add(data[begins[first] : begins[end]])
            self._sizes.add(prepared.sizes[first:end].astype("<u4").data)
            self._counted += int(counted[end] - counted[first])
            self._rows += end - first
            self._tokens += int(prepared.tokens[first:end].sum())
            first = end

    def commit(self) -> list[ExportedFile]:
        if self._rows:
            self._finish_file()
        index = export_file(self._folder / INDEX_NAME, self._form.index(self._files))
        self._data.remove()
        self._sizes.remove()
        return [replace(file, file=f"{self._folder.name}/{file.file}") for file in (*self._files, index)]

    def abort(self) -> None:
        self._data.remove()
        self._sizes.remove()

    def _begin_file(self) -> None:
        self._counted = self._form.file_counts
        self._rows = self._tokens = 0

    def _finish_file(self) -> None:
        file = HashingFile(self._folder / self._form.file_name(len(self._files)))
        with undo_on_error(file.abort):
            for part in self._content():
                file.write(part)
        self._files.append(ExportedFile.of(file, {"rows": self._rows, "tokens": self._tokens}))
        self._data.clear()
        self._sizes.clear()
        self._begin_file()

    def _content(self) -> Iterator[Any]:
        begin = 4 * (2 + self._rows) + len(self._form.preamble)
        yield struct.pack("<II", self._rows, begin)
        for content in self._sizes.blocks(4 * _AT_ONCE):
            ends = np.cumsum(np.frombuffer(content, "<u4"), dtype=np.int64) + begin
            yield ends.astype("<u4").data
            begin = int(ends[-1])
        yield self._form.preamble
        yield from self._data.blocks(8 * _AT_ONCE)

    def _check_size(self, size: int) -> None:
        if size + 12 + len(self._form.preamble) > _MOST_OFFSET:
            row = sum(file.counts["rows"] for file in self._files) + self._rows
            raise InputError(
                f"row {row:,} takes {size:,} bytes, more than the format's 32 bits can say",
                hint="export to parquet, or prepare the dataset with a lower `preprocess.sequence_len`",
            )


def _numbers(columns: Iterable[npt.NDArray[np.int64]]) -> Parts:
    """Some numbers of each sample, uint32."""
    rows = np.stack(list(columns), axis=1).astype("<u4")
    return Parts.of(rows.reshape(-1), np.arange(len(rows) + 1) * rows.shape[1])


def _array_lengths(lengths: npt.NDArray[Any]) -> Parts:
    """What stands before an array of one dimension: a byte, and the length in 1, 2 or 4 bytes."""
    width = (lengths >= 2**8).astype(np.int64) + (lengths >= 2**16)
    written = np.empty((len(lengths), 5), np.uint8)
    written[:, 0] = 4 + width
    written[:, 1:] = lengths.astype("<u4").view(np.uint8).reshape(-1, 4)
    begins = 5 * np.arange(len(lengths))
    return Parts(written.reshape(-1).data, begins, begins + 1 + (1 << width))


def _json(value: Any) -> bytes:
    """As both tools write it: keys sorted, nothing but ASCII."""
    return json.dumps(value, sort_keys=True).encode()
