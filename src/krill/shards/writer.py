"""Rows of tokens -> one Arrow IPC stream file.

Comes in: packed rows, any number at a time. Goes out: a shard whose record batches all hold exactly
`rows_per_batch` rows (the last may be short), and the offset of each, so that a row is found by arithmetic.
The bytes depend on the rows and the layout, never on how the rows were cut into calls.
Held in memory: one record batch.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from krill.corpus.arrays import as_arrow
from krill.shards.hashing import HashingFile
from krill.shards.layout import Layout
from krill.shards.shard import ShardInfo

_OPTIONS = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V5, use_threads=False)


class ShardWriter:
    """Writes one shard. Use it in a `with`: if the body raises, no file is left."""

    def __init__(self, path: str | Path, layout: Layout) -> None:
        self.layout = layout
        self.rows = 0
        self._info: ShardInfo | None = None
        self._batches: list[int] = []
        self._pending = _PendingRows(layout)
        self._file = HashingFile(Path(path))
        self._stream = pa.ipc.new_stream(self._file, layout.schema, options=_OPTIONS)
        # The stream writes its schema only together with the first batch, which then begins here, not at 0.
        self._first_batch = layout.schema.serialize().size

    def write(
        self,
        input_ids: npt.NDArray[Any],
        seq_lengths_offsets: npt.NDArray[np.int32],
        seq_lengths: npt.NDArray[np.int32],
    ) -> None:
        """Append rows; row `i` has the documents' lengths `seq_lengths[offsets[i]:offsets[i + 1]]`."""
        self._check(input_ids, seq_lengths_offsets, seq_lengths)
        per_batch, rows, row = self.layout.rows_per_batch, len(input_ids), 0
        while row < rows:
            end = min(rows, row + per_batch - self._pending.rows)
            counts = np.diff(seq_lengths_offsets[row : end + 1])
            lengths = seq_lengths[seq_lengths_offsets[row] : seq_lengths_offsets[end]]
            if end - row == per_batch:
                self._write_batch(input_ids[row:end], counts, lengths)
            else:
                self._pending.add(input_ids[row:end], counts, lengths)
                if self._pending.rows == per_batch:
                    self._write_batch(*self._pending.take())
            row = end
        self.rows += rows

    def close(self) -> ShardInfo:
        """Write what is pending, sync, and give the file its name. A second call returns the same."""
        if self._info is None:
            try:
                if self._pending.rows:
                    self._write_batch(*self._pending.take())
                self._stream.close()
            except BaseException:
                self._file.abort()
                raise
            self._info = self._file.commit(self.rows, tuple(self._batches))
        return self._info

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif self._info is None:
            self._file.abort()

    def _write_batch(
        self, input_ids: npt.NDArray[Any], counts: npt.NDArray[np.int32], seq_lengths: npt.NDArray[np.int32]
    ) -> None:
        offsets = np.zeros(len(counts) + 1, dtype=np.int32)
        np.cumsum(counts, out=offsets[1:])
        batch = pa.RecordBatch.from_arrays(
            [
                pa.FixedSizeListArray.from_arrays(as_arrow(input_ids), self.layout.sequence_len),
                pa.ListArray.from_arrays(as_arrow(offsets), as_arrow(seq_lengths)),
            ],
            schema=self.layout.schema,
        )
        self._batches.append(self._file.tell() or self._first_batch)
        self._stream.write_batch(batch)

    def _check(
        self,
        input_ids: npt.NDArray[Any],
        offsets: npt.NDArray[np.int32],
        seq_lengths: npt.NDArray[np.int32],
    ) -> None:
        expected, shape = (self.layout.dtype, self.layout.sequence_len), input_ids.shape
        if len(shape) != 2 or (input_ids.dtype, shape[1]) != expected:
            raise ValueError(
                f"input_ids must be {expected[0]}[rows, {expected[1]}], not {input_ids.dtype}{shape}"
            )
        if offsets.dtype != np.int32 or seq_lengths.dtype != np.int32 or len(offsets) != len(input_ids) + 1:
            raise ValueError("seq_lengths must be int32, with one int32 offset more than there are rows")
        total = seq_lengths[offsets[0] : offsets[-1]].sum(dtype=np.int64)
        if total != input_ids.size:
            raise ValueError(f"seq_lengths add up to {total}, not to {input_ids.size} tokens")


class _PendingRows:
    """Rows that do not fill a record batch yet, copied so that the caller's arrays can go."""

    def __init__(self, layout: Layout) -> None:
        self.rows = 0
        self._layout = layout
        self._tokens: npt.NDArray[Any] | None = None
        self._counts: list[npt.NDArray[np.int32]] = []
        self._lengths: list[npt.NDArray[np.int32]] = []

    def add(
        self, input_ids: npt.NDArray[Any], counts: npt.NDArray[np.int32], seq_lengths: npt.NDArray[np.int32]
    ) -> None:
        if self._tokens is None:
            shape = (self._layout.rows_per_batch, self._layout.sequence_len)
            self._tokens = np.empty(shape, dtype=self._layout.dtype)
        self._tokens[self.rows : self.rows + len(input_ids)] = input_ids
        self._counts.append(counts)
        self._lengths.append(seq_lengths.copy())
        self.rows += len(input_ids)

    def take(self) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """All pending rows. The tokens are a view: write them before the next `add`."""
        assert self._tokens is not None, "nothing is pending"
        taken = self._tokens[: self.rows], np.concatenate(self._counts), np.concatenate(self._lengths)
        self.rows, self._counts, self._lengths = 0, [], []
        return taken
