"""What the reader keeps of a record batch: where its tokens begin, and its rows' `seq_lengths`.

Comes in: an open shard and the number of a batch. Goes out: a `BatchIndex`, from two small reads that leave
the tokens alone. Held in memory: four bytes for each row and each document of the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from krill.shards.layout import Layout
from krill.shards.message import PREFIX_BYTES, Buffer, header_bytes, parse_batch_header
from krill.shards.shard_file import ShardFile

_FIRST_READ = 512  # the header of the dataset's schema takes 280 bytes: one read instead of two


@dataclass(frozen=True, slots=True)
class BatchIndex:
    """`tokens_at` is the file position of the batch's first token."""

    tokens_at: int
    offsets: npt.NDArray[np.int32]
    seq_lengths: npt.NDArray[np.int32]

    @property
    def rows(self) -> int:
        return len(self.offsets) - 1

    @property
    def nbytes(self) -> int:
        return self.offsets.nbytes + self.seq_lengths.nbytes

    def row(self, row: int) -> npt.NDArray[np.int32]:
        """The lengths of the documents in one row; a copy, so that it outlives the index."""
        return self.seq_lengths[self.offsets[row] : self.offsets[row + 1]].copy()


def rows_in_batch(layout: Layout, shard_rows: int, batch: int) -> int:
    return min(layout.rows_per_batch, shard_rows - batch * layout.rows_per_batch)


def read_batch_index(file: ShardFile, layout: Layout, batch: int) -> BatchIndex:
    try:
        return _read_batch_index(file, layout, batch)
    except ValueError as error:
        file.fail(f"is damaged at record batch {batch} (byte {file.shard.batches[batch]}): {error}")


def _read_batch_index(file: ShardFile, layout: Layout, batch: int) -> BatchIndex:
    start, end = file.shard.batches[batch], file.batch_end(batch)
    first = file.read(start, min(_FIRST_READ, end - start))
    if len(first) < PREFIX_BYTES:
        raise ValueError("the message is cut short")
    body = start + PREFIX_BYTES + header_bytes(first)
    if body > end:
        raise ValueError("the message's header is longer than the message")
    if body - start > len(first):
        first += file.read(start + len(first), body - start - len(first))
    header = parse_batch_header(first[PREFIX_BYTES : body - start])

    rows = rows_in_batch(layout, file.shard.rows, batch)
    if header.rows != rows or header.nulls or header.compressed or len(header.buffers) != 7:
        raise ValueError(f"it is not an uncompressed batch of {rows} rows of `input_ids` and `seq_lengths`")
    # Each list has a validity buffer (empty here), `seq_lengths` also one of offsets; then come the values.
    _, _, tokens, _, offsets, _, lengths = header.buffers
    if tokens.length != rows * layout.row_bytes or offsets.length != 4 * (rows + 1) or lengths.length % 4:
        raise ValueError("its buffers have the wrong size")
    ends = [0, tokens.end, offsets.end, lengths.end]
    if any(buffer.offset < before for buffer, before in zip((tokens, offsets, lengths), ends, strict=False)):
        raise ValueError("its buffers overlap")
    if body + lengths.end > end:
        raise ValueError("its buffers lie outside the message")
    return _checked(
        BatchIndex(
            tokens_at=body + tokens.offset,
            offsets=_read_int32(file, body, offsets),
            seq_lengths=_read_int32(file, body, lengths),
        )
    )


def _read_int32(file: ShardFile, body: int, buffer: Buffer) -> npt.NDArray[np.int32]:
    values = np.empty(buffer.length // 4, dtype=np.int32)
    file.read_into(values, body + buffer.offset)
    return values


def _checked(index: BatchIndex) -> BatchIndex:
    offsets = index.offsets
    if offsets[0] < 0 or (np.diff(offsets) < 0).any() or offsets[-1] > len(index.seq_lengths):
        raise ValueError("the offsets of `seq_lengths` are not ascending")
    return index
