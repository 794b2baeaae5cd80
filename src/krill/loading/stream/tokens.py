"""Text to tokens, block by block from any position of a corpus on, and to sequences of one length.

In: a corpus, an encoder, and the position to begin at. Out: the tokens of block after block, in input order,
each with the position that it can be read again from; or rows of a matrix, each beginning `stride` tokens
after the one before, and a cursor that says where the next one begins. Held in memory: the blocks in flight,
bounded in bytes, the current block's tokens, and those before it that are in no sequence yet.

Text is taken as it is: what is not UTF-8 is removed, and documents without a character are left out and
counted. Nothing else is changed or dropped.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from krill import _native
from krill.corpus import Block, Corpus, UnitEnd
from krill.corpus.arrays import as_numpy, null_flags
from krill.corpus.buffers import text_buffers, text_column
from krill.corpus.documents import file_and_offset, position_of
from krill.loading.stream.options import encode_cost
from krill.threads import ordered_map
from krill.tokenizer import Encoder
from krill.tokenizer.encoder import naming_document

# What readers and cleaning count besides documents, by the name in `counts`.
_NOTES: Final = ("malformed", "oversize_split", "invalid_utf8")


@dataclass(frozen=True, slots=True)
class BlockPosition:
    """Where a block begins: the position of its unit, blocks of that unit and documents of the corpus before
    it."""

    unit: int
    block: int
    documents: int


BlockTokens = tuple[BlockPosition, NDArray[Any], Mapping[str, int]]
"""The position of a block, the tokens of its documents, and what was counted."""

# The position of a unit, the number of a block in it, the block.
_NumberedBlock = tuple[int, int, Block]


@dataclass(frozen=True, slots=True)
class _Encoded:
    """A block's tokens; `kept` are the rows that had text, and `lengths` their tokens."""

    unit: int
    number: int
    size: int
    ids: NDArray[Any]
    rows: int
    kept: NDArray[np.int64]
    lengths: NDArray[np.uint32]
    notes: Mapping[str, int]

    def tokens(self, documents: int, most: int | None) -> BlockTokens:
        """Of the block after `documents` others; of its first `most` documents, if that is given."""
        rows, kept, ids = self.rows, len(self.kept), self.ids
        if most is not None and rows > most:
            rows, kept = most, int(self.kept.searchsorted(most))
            ids = ids[: int(self.lengths[:kept].sum(dtype=np.int64))]
        counts = {"documents": rows, "empty": rows - kept, "tokens": len(ids), "bytes": self.size}
        return BlockPosition(self.unit, self.number, documents), ids, {**counts, **self.notes}


def text_tokens(
    corpus: Corpus,
    encoder: Encoder,
    dtype: str,
    start: BlockPosition,
    *,
    threads: int,
    in_flight: int,
    max_documents: int | None,
) -> Generator[BlockTokens, None, None]:
    """The tokens of each block from `start` on; documents above `max_documents` are not read."""
    documents = start.documents
    if max_documents is not None and documents >= max_documents:
        return
    encoded = ordered_map(
        partial(_encode, corpus, encoder, dtype),
        _blocks_from(corpus, start),
        threads=threads,
        bytes_in_flight=in_flight,
        size=lambda text: encode_cost(text[2].nbytes),
    )
    with closing(encoded):
        for block in encoded:
            left = None if max_documents is None else max_documents - documents
            yield block.tokens(documents, left)
            documents += block.rows
            if left is not None and block.rows >= left:
                return


def _blocks_from(corpus: Corpus, start: BlockPosition) -> Iterator[_NumberedBlock]:
    """The corpus from a block on. Files before it are not opened."""
    first, offset = file_and_offset(start.unit)
    corpus = corpus.only(lambda file: file.ordinal >= first) if first else corpus

    def passed(position: int) -> UnitEnd | None:
        return None if position >= offset else UnitEnd(offset, 0)

    for unit, blocks in corpus.walk(passed):
        position = unit.position + position_of(first, 0)
        skipped = start.block if position == start.unit else 0
        for number, block in enumerate(blocks):
            if number >= skipped:
                yield position, number, block


def _encode(corpus: Corpus, encoder: Encoder, dtype: str, text_block: _NumberedBlock) -> _Encoded:
    unit, number, block = text_block
    documents = block.documents()
    text = documents.batch.column("text")
    offsets, data, kept, _, cleaned = _native.clean(*text_buffers(text), null_flags(text), False, 1)
    file, _ = file_and_offset(unit)
    positions = as_numpy(documents.batch.column("position"), "uint64")[kept]
    with naming_document((), positions, corpus.files[file]):
        ids, lengths = encoder.encode(text_column(offsets, data))
    counts = {**documents.counts, **cleaned}
    notes = {name: counts[name] for name in _NOTES if counts.get(name)}
    ids = ids.astype(dtype, copy=False)
    return _Encoded(unit, number, block.size, ids, len(text), kept, lengths, notes)


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a sequence begins: so many tokens after a block does, perhaps in one of those that follow it."""

    position: BlockPosition
    tokens: int


BEGINNING: Final = Cursor(BlockPosition(0, 0, 0), 0)


class SequenceStream:
    """Sequences of `length` tokens from a cursor on; `blocks` must begin with the one at its position."""

    def __init__(
        self,
        blocks: Generator[BlockTokens, None, None],
        start: Cursor,
        *,
        length: int,
        stride: int,
        dtype: str,
    ) -> None:
        self.counts: Counter[str] = Counter()
        """What was read so far: `documents`, `empty` ones among them, `tokens`, and what else was noted."""
        self._blocks = blocks
        self._length = length
        self._stride = stride
        self._tokens: NDArray[Any] = np.empty(0, dtype)
        self._begins = 0  # of `_tokens`, counted from the start of the first block
        self._next = start.tokens  # where the next sequence begins, likewise
        self._read = 0  # tokens of all blocks that were read
        self._starts = deque([(0, start.position)])  # of blocks that the next sequence may begin in

    def fill(self, rows: NDArray[Any]) -> int:
        """Write the next sequences into the rows of a matrix; fewer than there are rows only at the end."""
        filled = 0
        while filled < len(rows):
            ready = self._ready()
            if ready == 0:
                if not self._read_block():
                    break
                continue
            take = min(ready, len(rows) - filled)
            sequences = sliding_window_view(self._tokens[self._next - self._begins :], self._length)
            rows[filled : filled + take] = sequences[:: self._stride][:take]
            self._next += take * self._stride
            filled += take
        return filled

    def cursor(self) -> Cursor:
        while len(self._starts) > 1 and self._starts[1][0] <= self._next:
            self._starts.popleft()
        begins, position = self._starts[0]
        return Cursor(position, self._next - begins)

    def close(self) -> None:
        self._blocks.close()

    def _ready(self) -> int:
        """Sequences that are complete in what was read."""
        left = self._begins + len(self._tokens) - self._next - self._length
        return left // self._stride + 1 if left >= 0 else 0

    def _read_block(self) -> bool:
        block = next(self._blocks, None)
        if block is None:
            return False
        position, ids, counts = block
        self._starts.append((self._read, position))
        self._read += len(ids)
        self.counts.update(counts)
        passed = min(self._next - self._begins, len(self._tokens))
        self._tokens = np.concatenate((self._tokens[passed:], ids))
        self._begins += passed
        self.cursor()  # drops blocks that are used up
        return True
