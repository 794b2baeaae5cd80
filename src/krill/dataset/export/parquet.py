"""Rows as Parquet: `input_ids` and `seq_lengths`, zstd, in files and row groups of bounded size.

In: rows. Out: `train-00000.parquet` and so on, with the types of the dataset and Hugging Face's description
of them. A row group ends with the batch that brings it to 8 MB of tokens, a file with the row group that
brings it to 500 MB, so that neither a reader nor the writer's footer grows with the dataset. Held in memory:
one row group, and what Arrow makes of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa

from krill import _native
from krill.dataset.export.sink import ExportedFile
from krill.dataset.layout import Layout
from krill.dataset.rows import RowBatch
from krill.dataset.shard import HashedParquet
from krill.dataset.writer import record_batch

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
        self._gathered_bytes += tokens * self._layout.dtype.itemsize
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
        self._file_tokens += self._gathered_bytes // self._layout.dtype.itemsize
        self._gathered, self._gathered_bytes = [], 0
        self._open_file.write(table)
        del table
        _native.trim()  # else each row group leaves some of its pages behind: 20 MB after 600 MB of tokens
        if self._file_tokens * self._layout.dtype.itemsize >= self._file_bytes:
            self._commit_file()

    def _commit_file(self) -> None:
        if self._open_file is not None:
            counts = {"rows": self._file_rows, "tokens": self._file_tokens}
            self._files.append(ExportedFile.of(self._open_file, counts))
            self._open_file = None
