"""Blocks of any source as the counter takes them: offsets of documents, and their bytes.

In: stretches of plain text, local or streamed, and blocks of the corpus. Out: the same by one interface.
Held in memory: streamed text; the others are read by the thread that counts them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from krill.corpus import Block, UnitEnd
from krill.corpus.buffers import text_buffers
from krill.corpus.formats import CorpusFile
from krill.tokenizer.plain_text import Cuts, TextBlock, stream_blocks


class Piece(Protocol):
    """A block, however it is read."""

    @property
    def held(self) -> int:
        """What it holds in memory while it is counted."""
        ...

    @property
    def size(self) -> int:
        """Bytes of input that it stands for."""
        ...

    def read(self) -> tuple[Any, Any]:
        """Offsets of documents, and their bytes."""
        ...

    def unit_end(self) -> dict[str, Any]:
        """Where the unit ends if this is its last block."""
        ...


@dataclass(frozen=True, slots=True)
class TextPiece:
    block: TextBlock

    @property
    def held(self) -> int:
        return 2 * self.block.size

    @property
    def size(self) -> int:
        return self.block.size

    def read(self) -> tuple[Any, Any]:
        return _one_document(self.block.read())

    def unit_end(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True, slots=True)
class BytesPiece:
    text: bytes
    end: int
    """The decoded offset after it."""

    @property
    def held(self) -> int:
        return len(self.text)

    @property
    def size(self) -> int:
        return len(self.text)

    def read(self) -> tuple[Any, Any]:
        return _one_document(self.text)

    def unit_end(self) -> dict[str, Any]:
        return {"end": self.end}


@dataclass(frozen=True, slots=True)
class DocumentsPiece:
    block: Block

    @property
    def held(self) -> int:
        return self.block.nbytes

    @property
    def size(self) -> int:
        return self.block.size

    def read(self) -> tuple[Any, Any]:
        return text_buffers(self.block.documents().batch.column("text"))

    def unit_end(self) -> dict[str, Any]:
        return UnitEnd.after(self.block).to_json()


def text_pieces(file: CorpusFile, start: int, end: int, cuts: Cuts, block_bytes: int) -> Iterator[TextPiece]:
    """A stretch of a local file, in blocks."""
    for at in range(start, end, block_bytes):
        yield TextPiece(TextBlock(file, at, min(end, at + block_bytes), cuts))


def streamed_pieces(file: CorpusFile, cuts: Cuts, block_bytes: int, start: int) -> Iterator[BytesPiece]:
    for text in stream_blocks(file, cuts, block_bytes, start):
        start += len(text)
        yield BytesPiece(text, start)


def _one_document(text: bytes) -> tuple[Any, Any]:
    return np.array([0, len(text)], np.int64), text
