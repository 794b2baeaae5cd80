"""What the reader keeps of a record batch: where its rows' tokens begin, and their `seq_lengths`.

Comes in: an open shard and the number of a batch. Goes out: a `BatchIndex`, from a few small reads that leave
the tokens alone. Held in memory: twelve bytes for each row and four for each document of the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from krill.dataset.layout import Layout
from krill.dataset.message import PREFIX_BYTES, Buffer, header_bytes, parse_batch_header
from krill.dataset.shard_file import ShardFile

_FIRST_READ = 512  # the header of the dataset's schema takes 280 bytes: one read instead of two
# Buffers of the two columns. Each list has a validity buffer (empty here), one of offsets if its width
# varies, and those of its values: again validity, then the values themselves.
_FIXED_BUFFERS = 7
_VARIABLE_BUFFERS = 8


@dataclass(frozen=True, slots=True)
class BatchIndex:
    """`tokens_at` is the file position of the batch's first token, which `token_offsets` count from."""

    tokens_at: int
    token_offsets: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int32]
    seq_lengths: npt.NDArray[np.int32]

    @property
    def rows(self) -> int:
        return len(self.offsets) - 1

    @property
    def nbytes(self) -> int:
        return self.token_offsets.nbytes + self.offsets.nbytes + self.seq_lengths.nbytes

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
    expected = _FIXED_BUFFERS if layout.fixed else _VARIABLE_BUFFERS
    if header.rows != rows or header.nulls or header.compressed or len(header.buffers) != expected:
        raise ValueError(f"it is not an uncompressed batch of {rows} rows of `input_ids` and `seq_lengths`")
    *first_offsets, _, tokens, _, offsets, _, lengths = header.buffers[1:]
    _check_buffers((*first_offsets, tokens, offsets, lengths), body, end)
    if offsets.length != 4 * (rows + 1) or lengths.length % 4:
        raise ValueError("its buffers have the wrong size")
    seq_lengths = _read_int32(file, body, lengths)
    return BatchIndex(
        tokens_at=body + tokens.offset,
        token_offsets=_token_offsets(file, layout, body, rows, first_offsets, tokens),
        offsets=_ascending(_read_int32(file, body, offsets), len(seq_lengths), "seq_lengths"),
        seq_lengths=seq_lengths,
    )


def _check_buffers(buffers: Sequence[Buffer], body: int, end: int) -> None:
    """They lie in the message, one after the other."""
    before = 0
    for buffer in buffers:
        if buffer.offset < before or buffer.length < 0:
            raise ValueError("its buffers overlap")
        before = buffer.end
    if body + before > end:
        raise ValueError("its buffers lie outside the message")


def _token_offsets(
    file: ShardFile, layout: Layout, body: int, rows: int, stored: Sequence[Buffer], tokens: Buffer
) -> npt.NDArray[np.int64]:
    """Where each row begins: stored for variable rows, known for fixed ones."""
    width = layout.dtype.itemsize
    if not stored:
        if tokens.length != rows * layout.row_bytes:
            raise ValueError("its buffers have the wrong size")
        return np.arange(rows + 1, dtype=np.int64) * layout.sequence_len
    (buffer,) = stored
    if buffer.length != 4 * (rows + 1) or tokens.length % width:
        raise ValueError("its buffers have the wrong size")
    offsets = _ascending(_read_int32(file, body, buffer), tokens.length // width, "input_ids")
    if (np.diff(offsets) > layout.sequence_len).any():
        raise ValueError(f"a row is longer than {layout.sequence_len} tokens")
    return offsets.astype(np.int64)


def _read_int32(file: ShardFile, body: int, buffer: Buffer) -> npt.NDArray[np.int32]:
    values = np.empty(buffer.length // 4, dtype=np.int32)
    file.read_into(values, body + buffer.offset)
    return values


def _ascending(offsets: npt.NDArray[np.int32], most: int, column: str) -> npt.NDArray[np.int32]:
    # Neighbours are compared, not subtracted: a difference may wrap around.
    if offsets[0] < 0 or (offsets[1:] < offsets[:-1]).any() or offsets[-1] > most:
        raise ValueError(f"the offsets of `{column}` are not ascending")
    return offsets
