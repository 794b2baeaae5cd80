"""The footer of a Parquet file: its row groups and what is stored of each column.

Comes in: a way to read bytes of the file. Goes out: numbers, checked, and Arrow's own form of the footer to
open the file with. Held in memory: both: 48 bytes for each column of each row group, and what Arrow takes.

Arrow reads these numbers too, but its accessors end the process where a footer contradicts itself, and trust
that each row group has every column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from krill import _native

if TYPE_CHECKING:
    import pyarrow.parquet as pq
    from numpy.typing import NDArray

_MAGIC = b"PAR1"
_TAIL_BYTES = 8

BYTE_ARRAY = 6
"""A physical type: strings and binaries."""

Read = Callable[[int, int], bytes]


@dataclass(frozen=True, slots=True)
class Footer:
    """`columns` is the table's column of each leaf; the arrays after `rows` have a row for each row group and
    a number for each leaf. A dictionary page's offset is 0 where there is none."""

    arrow: pq.FileMetaData
    columns: tuple[str, ...]
    rows: NDArray[np.int64]
    types: NDArray[np.int64]
    values: NDArray[np.int64]
    uncompressed: NDArray[np.int64]
    compressed: NDArray[np.int64]
    data_page_offsets: NDArray[np.int64]
    dictionary_page_offsets: NDArray[np.int64]

    def leaves(self, names: list[str]) -> NDArray[np.int64]:
        """The numbers of the leaves that make up these columns of the table."""
        wanted = set(names)
        return np.flatnonzero([column in wanted for column in self.columns])


def read_footer(read: Read, size: int) -> Footer:
    """The footer of a file of `size` bytes; `read(start, end)` gives its bytes. `ArrowInvalid` if it has
    none, or one that contradicts itself."""
    import pyarrow.parquet as pq  # several megabytes, for those who read Parquet

    tail = read(size - _TAIL_BYTES, size) if size >= _TAIL_BYTES + len(_MAGIC) else b""
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or length > size - _TAIL_BYTES - len(_MAGIC):
        raise pa.ArrowInvalid("no Parquet magic bytes at its end: it is cut short, or not Parquet")
    content = read(size - _TAIL_BYTES - length, size - _TAIL_BYTES)
    try:
        columns, rows, *cells = _native.parquet_footer(content)
        names = tuple(column.decode() for column in columns)
    except ValueError as error:
        raise pa.ArrowInvalid(f"its footer is damaged: {error}") from None
    # As the footer of an empty file: what Arrow opens with it is read no second time.
    arrow = pq.read_metadata(pa.BufferReader(b"".join([_MAGIC, content, tail])))
    return Footer(arrow, names, rows, *(cell.reshape(len(rows), len(names)) for cell in cells))
