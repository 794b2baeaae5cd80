"""Rows as Parquet: `input_ids` and `seq_lengths`, zstd, in files and row groups of bounded size.

Comes in: rows. Goes out: `train-00000.parquet` and so on, with the types of the dataset and Hugging Face's
description of them. A row group ends with the batch that brings it to 8 MB of tokens, a file with the row
group that brings it to 500 MB, so that neither a reader nor the writer's footer grows with the dataset. Held
in memory: one row group, and what Arrow makes of it.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from krill import _native
from krill.corpus.arrays import as_arrow
from krill.dataset.export.sink import ExportedFile
from krill.dataset.layout import Layout
from krill.dataset.rows import RowBatch
from krill.dataset.shard import HashingFile

if TYPE_CHECKING:
    import pyarrow.parquet as pq

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
        self._open_file: _File | None = None

    def prepare(self, batch: RowBatch) -> tuple[pa.RecordBatch, int]:
        """The rows as Arrow has them, and how many tokens they have."""
        tokens = as_arrow(batch.tokens)
        if self._layout.fixed:
            lists = pa.FixedSizeListArray.from_arrays(tokens, self._layout.sequence_len)
        else:
            lists = pa.ListArray.from_arrays(as_arrow(batch.offsets.astype(np.int32)), tokens)
        lengths = pa.ListArray.from_arrays(as_arrow(batch.seq_offsets), as_arrow(batch.seq_lengths))
        rows = pa.RecordBatch.from_arrays([lists, lengths], schema=self._layout.schema)
        return rows, len(batch.tokens)

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
            number = len(self._files)
            self._open_file = _File(self._folder / f"{self._name}-{number:05d}.parquet", self._layout)
        table = pa.Table.from_batches(self._gathered, self._layout.schema)
        tokens = self._gathered_bytes // self._layout.dtype.itemsize
        self._gathered, self._gathered_bytes = [], 0
        self._open_file.write(table, tokens)
        del table
        _native.trim()  # else each row group leaves some of its pages behind: 20 MB after 600 MB of tokens
        if self._open_file.tokens * self._layout.dtype.itemsize >= self._file_bytes:
            self._commit_file()

    def _commit_file(self) -> None:
        if self._open_file is not None:
            self._files.append(self._open_file.commit())
            self._open_file = None


class _File:
    """One Parquet file in the making."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self.rows = 0
        self.tokens = 0
        self._file = HashingFile(path)
        try:
            self._parquet = self._open(layout)
        except BaseException:
            self._file.abort()
            raise

    def _open(self, layout: Layout) -> pq.ParquetWriter:
        import pyarrow.parquet as pq  # takes 9 MB and 80 ms, which only those who write it should pay

        return pq.ParquetWriter(
            self._file,
            layout.schema,
            compression="zstd",
            compression_level=1,
            write_statistics=False,
            store_schema=True,
        )

    def write(self, table: pa.Table, tokens: int) -> None:
        self._parquet.write_table(table, row_group_size=max(1, table.num_rows))
        self.rows += table.num_rows
        self.tokens += tokens

    def commit(self) -> ExportedFile:
        try:
            self._parquet.close()
        except BaseException:
            self.abort()
            raise
        return ExportedFile.of(self._file, {"rows": self.rows, "tokens": self.tokens})

    def abort(self) -> None:
        # Closed first: left open, the Parquet writer would write its footer when it is collected.
        with suppress(Exception):
            self._parquet.close()
        self._file.abort()
