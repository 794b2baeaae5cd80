"""How every format is written: prepared on any thread, written in order, whole or not at all.

In: items in the order of the dataset. Out: files under their names, when all of them are written. Held in
memory: the items in flight, bounded in bytes, and what the sink holds.

Parquet comes with the types of the dataset and Hugging Face's description of them, in `train-00000.parquet`
and so on. A row group ends with the batch that brings it to 8 MB of tokens, a file with the row group that
brings it to 500 MB, so that neither a reader nor the writer's footer grows with the dataset: one row group is
held, and what Arrow makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Generic, Protocol, TypeVar

import pyarrow as pa

from krill import _native
from krill.dataset.layout import Layout
from krill.dataset.rows import RowBatch
from krill.dataset.shard import HashedParquet, HashingFile
from krill.dataset.writer import record_batch
from krill.storage.atomic import TEMPORARY_SUFFIX, storage_errors, undo_on_error
from krill.threads import Throttle, ordered_map
from krill.threads.progress import Progress

Item = TypeVar("Item")
Item_contra = TypeVar("Item_contra", contravariant=True)
Prepared = TypeVar("Prepared")


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """One finished file; `counts` says what is in it, such as rows and tokens."""

    file: str
    bytes: int
    sha256: str
    counts: Mapping[str, int]
    split: str | None = None

    @property
    def name(self) -> str:
        """Without the folder."""
        return self.file.rpartition("/")[2]

    @classmethod
    def of(cls, file: HashingFile | HashedParquet, counts: Mapping[str, int]) -> ExportedFile:
        """Give a file its name."""
        info = file.commit(0)
        return cls(info.file, info.bytes, info.sha256, counts)

    def to_json(self) -> dict[str, Any]:
        split = {} if self.split is None else {"split": self.split}
        return {"file": self.file, **split, **self.counts, "bytes": self.bytes, "sha256": self.sha256}


def export_file(path: Path, parts: Iterable[Any]) -> ExportedFile:
    """Write a small file that stands beside tokens, whole or not at all."""
    file = HashingFile(path)
    with undo_on_error(file.abort):
        for part in parts:
            file.write(part)
    return ExportedFile.of(file, {})


class WaitingFile:
    """What is written only after something that follows from all of it: on disk meanwhile, not in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(f".{path.name}{TEMPORARY_SUFFIX}")
        with storage_errors(self._path):
            self._file: BinaryIO = open(self._path, "w+b")  # noqa: SIM115  closed by `remove`

    def add(self, data: Any) -> None:
        with storage_errors(self._path):
            self._file.write(data)

    def blocks(self, size: int) -> Iterator[bytes]:
        """All of it from the beginning, `size` bytes at a time."""
        with storage_errors(self._path):
            self._file.seek(0)
            while content := self._file.read(size):
                yield content

    def clear(self) -> None:
        with storage_errors(self._path):
            self._file.seek(0)
            self._file.truncate()

    def remove(self) -> None:
        """Never raises."""
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self._path.unlink()


class Sink(Protocol[Item_contra, Prepared]):
    """One format's files of one split."""

    def prepare(self, item: Item_contra) -> Prepared:
        """What will be written of an item; runs on several threads at once."""

    def write(self, prepared: Prepared) -> None:
        """Append; runs in order."""

    def commit(self) -> list[ExportedFile]:
        """Complete the files and give them their names."""

    def abort(self) -> None:
        """Remove what was written."""


@dataclass(frozen=True, slots=True)
class Content:
    """What is written of an item, and how many rows, lines or tokens that is."""

    parts: Sequence[Any]
    counts: Mapping[str, int]


class FileSink(Generic[Item]):
    """One file of what `prepare` makes of each item; `counted` is stated of it even if it is 0."""

    def __init__(
        self, path: Path, prepare: Callable[[Item], Content], counted: Sequence[str] = ("lines",)
    ) -> None:
        self.prepare = prepare
        self._counts = dict.fromkeys(counted, 0)
        self._file = HashingFile(path)

    def write(self, prepared: Content) -> None:
        for part in prepared.parts:
            self._file.write(part)
        for name, count in prepared.counts.items():
            self._counts[name] = self._counts.get(name, 0) + count

    def commit(self) -> list[ExportedFile]:
        return [ExportedFile.of(self._file, self._counts)]

    def abort(self) -> None:
        self._file.abort()


@dataclass(frozen=True, slots=True)
class ExportFlow:
    """On how many threads, how many bytes at once, and who shows the progress."""

    threads: int
    bytes_in_flight: int
    throttle: Throttle
    progress: Progress


def write_in_order(
    items: Iterable[Item], sink: Sink[Item, Prepared], size: Callable[[Item], int], flow: ExportFlow
) -> list[ExportedFile]:
    """Write all items; `size` is what one takes from being read to being written."""
    with undo_on_error(sink.abort):
        with closing(
            ordered_map(
                sink.prepare,
                items,
                threads=flow.threads,
                bytes_in_flight=flow.bytes_in_flight,
                size=size,
                throttle=flow.throttle,
            )
        ) as results:
            for prepared in results:
                sink.write(prepared)
        return sink.commit()


ROW_GROUP_BYTES: Final = 8_000_000
FILE_BYTES: Final = 500_000_000


class ParquetSink:
    """The files of one split, each begun when the one before is full."""

    def __init__(
        self,
        folder: Path,
        name: str,
        layout: Layout,
        group_bytes: int = ROW_GROUP_BYTES,
        file_bytes: int = FILE_BYTES,
    ) -> None:
        self._folder = folder
        self._name = name
        self._layout = layout
        self._group_bytes = group_bytes
        self._file_bytes = file_bytes
        self._files: list[ExportedFile] = []
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_bytes = 0
        self._open_file: HashedParquet | None = None
        self._file_rows = 0
        self._file_tokens = 0

    def prepare(self, batch: RowBatch) -> tuple[pa.RecordBatch, int]:
        """The rows as Arrow has them, and how many tokens they have."""
        return record_batch(batch, self._layout), len(batch.tokens)

    def write(self, prepared: tuple[pa.RecordBatch, int]) -> None:
        rows, tokens = prepared
        self._gathered.append(rows)
        self._gathered_bytes += tokens * self._layout.token_bytes
        if self._gathered_bytes >= self._group_bytes:
            self._write_row_group()

    def commit(self) -> list[ExportedFile]:
        if self._gathered or not self._files:
            self._write_row_group()
        self._commit_file()
        return self._files

    def abort(self) -> None:
        if self._open_file is not None:
            self._open_file.abort()

    def _write_row_group(self) -> None:
        if self._open_file is None:
            path = self._folder / f"{self._name}-{len(self._files):05d}.parquet"
            self._open_file = HashedParquet(path, self._layout.schema)
            self._file_rows = self._file_tokens = 0
        table = pa.Table.from_batches(self._gathered, self._layout.schema)
        self._file_rows += table.num_rows
        self._file_tokens += self._gathered_bytes // self._layout.token_bytes
        self._gathered, self._gathered_bytes = [], 0
        self._open_file.write(table)
        del table
        _native.trim()  # else each row group leaves some of its pages behind: 20 MB after 600 MB of tokens
        if self._file_tokens * self._layout.token_bytes >= self._file_bytes:
            self._commit_file()

    def _commit_file(self) -> None:
        if self._open_file is not None:
            counts = {"rows": self._file_rows, "tokens": self._file_tokens}
            self._files.append(ExportedFile.of(self._open_file, counts))
            self._open_file = None
