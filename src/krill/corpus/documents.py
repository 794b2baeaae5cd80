"""What travels from the corpus to the rest of Krill: documents, units, and blocks.

A *document* is a row of an Arrow batch with its text and its position. A *unit* is a fixed piece of the
input, the grain in which work is committed: it depends on the input and on `unit_bytes` alone. A *block* is
a bounded piece of a unit, the grain in which threads take turns: parsing it gives one batch.

Nothing here holds more than the batches it is given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

OFFSET_BITS = 40
"""A position is `file ordinal << OFFSET_BITS | offset`: files up to 1 TiB, decoded, and 16M files."""

BLOCKS_PER_UNIT = 32
"""A block of a default unit is a megabyte: small enough that its buffers are reused from the heap (measured:
a fifth of the system time of 4 MB blocks), large enough that Python's share of the work is lost in it."""

MAX_FILE_BYTES = 1 << OFFSET_BITS
MAX_FILES = 1 << (64 - OFFSET_BITS)


def position_of(file: int, offset: int) -> int:
    """The position of the record that begins at a decoded byte offset, or is the row, `offset` of a file."""
    return file << OFFSET_BITS | offset


def file_and_offset(position: int) -> tuple[int, int]:
    """What `position_of` was given."""
    return position >> OFFSET_BITS, position & (MAX_FILE_BYTES - 1)


@dataclass(frozen=True, slots=True)
class Documents:
    """One bounded batch of documents, in input order.

    Columns: `text` (large_string, null where the input has no string; may hold invalid UTF-8 until cleaned),
    `position` (uint64, rising; the pieces of one oversize row of a table, CSV too, share theirs), then the
    columns carried along.
    """

    batch: pa.RecordBatch
    counts: Mapping[str, int] = field(default_factory=dict)
    """What the reader saw: `records`, `key_seen`, `not_text`, `malformed`, `oversize`, `oversize_split`,
    `surrogates_removed`; a missing name is zero."""
    rejected: tuple[pa.RecordBatch, ...] | None = None
    """Rows that were dropped on the way, each with its `reason`; None if they are not wanted."""
    hashes: NDArray[np.uint64] | None = None
    """The 128-bit hash of each text, where cleaning has computed them on the way."""


def concat(pieces: Sequence[Documents]) -> Documents:
    """Several batches of one schema as one, with their counts added up."""
    if len(pieces) == 1:
        return pieces[0]
    counts: Counter[str] = Counter()
    for piece in pieces:
        counts.update(piece.counts)
    return Documents(pa.concat_batches([piece.batch for piece in pieces]), dict(counts))


@dataclass(frozen=True, slots=True)
class FileRange:
    """A range of one file, by decoded byte offsets or rows; an end of None is found out by reading."""

    file: int
    start: int
    end: int | None


@dataclass(frozen=True, slots=True)
class Unit:
    """A fixed piece of the input: what is committed, or done again, as a whole."""

    parts: tuple[FileRange, ...]

    @property
    def position(self) -> int:
        """The unit's identity: the position at which it begins."""
        return position_of(self.parts[0].file, self.parts[0].start)

    def to_json(self) -> dict[str, Any]:
        return {"parts": [[part.file, part.start, part.end] for part in self.parts]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        return cls(tuple(FileRange(file, start, end) for file, start, end in value["parts"]))


@dataclass(frozen=True, slots=True)
class Start:
    """Where reading a part of the input can begin: a unit or, where units are known only once they are
    read, some files with all of theirs."""

    position: int
    files: tuple[int, ...]
    unit: Unit | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "position": self.position,
            "files": list(self.files),
            "unit": None if self.unit is None else self.unit.to_json(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        unit = None if value["unit"] is None else Unit.from_json(value["unit"])
        return cls(value["position"], tuple(value["files"]), unit)


class Block(Protocol):
    """A bounded piece of a unit, ready to be parsed by any thread.

    A block may hold several small files; `file`, `start`, `end` and `last` are then those of the last one.
    """

    @property
    def nbytes(self) -> int:
        """What the block will hold in memory while it is parsed: input and batch together."""

    @property
    def size(self) -> int:
        """Bytes of decoded input."""

    @property
    def file(self) -> int: ...

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...

    @property
    def last(self) -> bool:
        """Whether nothing of `file` comes after this block."""

    def documents(self) -> Documents:
        """Read and parse: the heavy work, in the calling thread. To be called once."""


@dataclass(frozen=True, slots=True)
class UnitEnd:
    """Where a committed unit of sequential files ended. It is stored with the unit and given back on
    resume."""

    end: int | None
    """The decoded offset or row after its last record; None = its last file is finished."""

    file: int | None = None
    """The file in which it ended, for a unit may run through several small ones; None = that of its start."""

    @classmethod
    def after(cls, block: Block) -> Self:
        """The end of the unit whose last block this is."""
        return cls(None if block.last else block.end, block.file)

    def to_json(self) -> dict[str, Any]:
        return {"end": self.end, "file": self.file}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        return cls(value["end"], value.get("file"))
