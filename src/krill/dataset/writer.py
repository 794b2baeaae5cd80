"""Rows of tokens -> one Arrow IPC stream file.

In: packed rows, any number at a time. Out: a shard whose record batches all hold exactly `rows_per_batch`
rows (the last may be short), and the offset of each, so that a row is found by arithmetic. The bytes depend
on the rows and the layout, never on how the rows were cut into calls. Held in memory: one record batch, twice
while it is put together from several calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from krill.corpus.arrays import as_arrow
from krill.dataset.layout import Layout
from krill.dataset.rows import RowBatch
from krill.dataset.shard import HashingFile, ShardInfo, UnfinishedShard

_OPTIONS = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V5, use_threads=False)


def record_batch(rows: RowBatch, layout: Layout) -> pa.RecordBatch:
    """Rows with offsets that begin at 0, as Arrow has them."""
    tokens = as_arrow(rows.tokens)
    if layout.fixed:
        lists = pa.FixedSizeListArray.from_arrays(tokens, layout.sequence_len)
    else:
        lists = pa.ListArray.from_arrays(as_arrow(rows.offsets.astype(np.int32)), tokens)
    lengths = pa.ListArray.from_arrays(as_arrow(rows.seq_offsets), as_arrow(rows.seq_lengths))
    more = [] if rows.labels is None else [rows.labels]
    if layout.attention_mask:
        more.append(np.ones(len(rows.tokens), np.int8))
    columns = [pa.ListArray.from_arrays(lists.offsets, as_arrow(values)) for values in more]
    return pa.RecordBatch.from_arrays([lists, lengths, *columns], schema=layout.schema)


class ShardWriter(UnfinishedShard):
    def __init__(self, path: str | Path, layout: Layout) -> None:
        self.layout = layout
        self.rows = 0
        self.tokens = 0
        self._batches: list[int] = []
        self._pending = _PendingRows()
        self._file = HashingFile(Path(path))
        self._stream = pa.ipc.new_stream(self._file, layout.schema, options=_OPTIONS)
        # The stream writes its schema only together with the first batch, which then begins here, not at 0.
        self._first_batch = layout.schema.serialize().size

    def write(self, batch: RowBatch) -> None:
        self._check(batch)
        per_batch, row = self.layout.rows_per_batch, 0
        while row < batch.rows:
            end = min(batch.rows, row + per_batch - self._pending.rows)
            rows = batch.slice(row, end)
            if end - row == per_batch:
                self._write_batch(rows.compact())
            else:
                self._pending.add(rows.compact())
                if self._pending.rows == per_batch:
                    self._write_batch(self._pending.take())
            row = end
        self.rows += batch.rows
        self.tokens += int(batch.offsets[-1] - batch.offsets[0])

    def _finish(self) -> ShardInfo:
        if self._pending.rows:
            self._write_batch(self._pending.take())
        self._stream.close()
        tokens = None if self.layout.fixed else self.tokens
        return self._file.commit(self.rows, tuple(self._batches), tokens)

    def _abort(self) -> None:
        self._file.abort()

    def _write_batch(self, rows: RowBatch) -> None:
        batch = record_batch(rows, self.layout)
        self._batches.append(self._file.tell() or self._first_batch)
        self._stream.write_batch(batch)

    def _check(self, batch: RowBatch) -> None:
        layout, widths = self.layout, np.diff(batch.offsets)
        if batch.tokens.dtype != layout.dtype or batch.tokens.ndim != 1:
            raise ValueError(f"tokens must be flat {layout.dtype}, not {batch.tokens.dtype}")
        if layout.labels != (batch.labels is not None):
            raise ValueError("there must be labels if the layout has them, and else none")
        if layout.fixed and (widths != layout.sequence_len).any():
            raise ValueError(f"every row must have {layout.sequence_len} tokens")
        if (widths < 1).any() or (widths > layout.sequence_len).any():
            raise ValueError(f"a row must have between 1 and {layout.sequence_len} tokens")
        starts = batch.seq_offsets
        if starts.dtype != np.int32 or batch.seq_lengths.dtype != np.int32 or len(starts) != batch.rows + 1:
            raise ValueError("seq_lengths must be int32, with one int32 offset more than there are rows")
        total = batch.seq_lengths[starts[0] : starts[-1]].sum(dtype=np.int64)
        if total != widths.sum():
            raise ValueError(f"seq_lengths add up to {total}, not to {widths.sum()} tokens")


class _PendingRows:
    """Rows that do not fill a record batch yet, copied so that the caller's arrays can go."""

    def __init__(self) -> None:
        self.rows = 0
        self._held: list[RowBatch] = []

    def add(self, rows: RowBatch) -> None:
        labels = None if rows.labels is None else rows.labels.copy()
        self._held.append(
            RowBatch(rows.tokens.copy(), rows.offsets, rows.seq_lengths.copy(), rows.seq_offsets, labels)
        )
        self.rows += rows.rows

    def take(self) -> RowBatch:
        held, self._held, self.rows = self._held, [], 0
        return RowBatch(
            np.concatenate([part.tokens for part in held]),
            _joined([part.offsets for part in held]),
            np.concatenate([part.seq_lengths for part in held]),
            _joined([part.seq_offsets for part in held]),
            joined_labels(held),
        )


def joined_labels(parts: Sequence[RowBatch]) -> npt.NDArray[np.int32] | None:
    """The labels of all parts one after the other; None if they have none."""
    found = [part.labels for part in parts if part.labels is not None]
    return np.concatenate(found) if found else None


def _joined(parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Offsets that each begin at 0, as those of all parts one after the other."""
    counts = np.concatenate([np.diff(part) for part in parts])
    offsets = np.zeros(len(counts) + 1, dtype=parts[0].dtype)
    np.cumsum(counts, out=offsets[1:])
    return offsets
