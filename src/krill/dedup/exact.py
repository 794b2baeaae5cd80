"""Exact dedup within a share of memory: of documents with equal hashes, the first one is kept.

In: the hashes of each unit's documents, in input order. Out: a keep bit for each document. Held in memory:
while the hashes of all documents fit the share's table, that table; beyond, see `tables.py`.

Lines and paragraphs are compared in the same way, by `line_hashes`; `keep_lines` leaves those that are not
kept out of their documents. Held in memory: 16 bytes for each, and the new column. A line ends with its
newline. A paragraph is a sequence of lines that are not blank, with the blank ones after it. Either is
compared without the whitespace at its ends. Blank lines are neither counted nor dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from krill import _native
from krill.corpus.buffers import text_buffers, text_column
from krill.dedup.spill import Partition
from krill.dedup.streams import HASH_BYTES, HashStream, UnitHashes, write_keep_files
from krill.dedup.tables import HASH_TABLES, TableLayout, answered_partitions, keys_in, table_bytes_for

Level = Literal["line", "paragraph"]

MIN_SHARE = HASH_TABLES.min_share
"""The least share that takes any number of documents."""


def dedup_exact(
    hash_files: Sequence[Path],
    keep_files: Sequence[Path],
    *,
    share: int | TableLayout,
    spill: Path,
    threads: int,
    prior: Sequence[Path] = (),
) -> int:
    """Write the keep bits of each unit; returns the number of duplicates.

    `hash_files` holds 16 bytes for each document, one file per unit in input order; `prior` such files of
    documents that count as seen before. `share` is the most that is held in memory, `MIN_SHARE` at least;
    what doesn't fit goes to unnamed files in `spill`.
    """
    layout = HASH_TABLES.layout(share, threads)
    stream = UnitHashes(hash_files, prior)
    if stream.count <= keys_in(layout.whole_table_bytes):
        flags = flags_in_memory(stream, layout.whole_table_bytes, layout)
    else:
        flags = flags_on_disk(stream, 0, layout, spill)
    return write_keep_files(flags, stream.counts, keep_files, skip=stream.prior)


def table_bytes(documents: int) -> int:
    """The share with which so many documents fit in memory."""
    return HASH_TABLES.share_for(documents)


def spill_bytes(documents: int) -> int:
    """Disk that so many documents take at most if they don't fit: hash and flag, twice if split twice."""
    return 2 * documents * (HASH_BYTES + 1)


def flag_partition(
    partition: HashStream,
    store: Callable[[Iterator[NDArray[np.uint8]]], None],
    shift: int,
    layout: TableLayout,
    folder: Path,
) -> None:
    """Store the flags of one partition, whose hashes agree in all bits below `shift`. `store` is called again
    from the beginning if a table is too small."""
    try:
        store(flags_in_memory(partition, layout.table_bytes, layout))
        return
    except _native.TableFull:
        pass  # and leave this clause first: the error's traceback holds the table, whose memory is needed
    store(flags_on_disk(partition, shift, layout, folder))


def flags_in_memory(stream: HashStream, capacity: int, layout: TableLayout) -> Iterator[NDArray[np.uint8]]:
    """Flags of a stream whose distinct hashes fit a table of `capacity` bytes; else raises `TableFull`."""
    table = _native.HashSet(min(capacity, table_bytes_for(stream.count)))
    for block in stream.blocks(layout.read_records):
        yield table.insert(block)


def flags_on_disk(
    stream: HashStream, shift: int, layout: TableLayout, folder: Path
) -> Iterator[NDArray[np.uint8]]:
    def answer(partition: Partition, shift: int) -> None:
        flag_partition(partition, partition.write_flags, shift, layout, folder)

    with answered_partitions(stream, shift, layout, folder, answer) as spill:
        yield from spill.join()


def line_hashes(text: pa.Array, level: Level) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """The hashes of all lines or paragraphs, shape (n, 2), and how many each document has."""
    return _native.piece_hashes(*text_buffers(text), level)


def keep_lines(text: pa.Array, flags: NDArray[np.uint8], level: Level) -> pa.Array:
    """The documents without the lines or paragraphs whose flag is 0. No document is dropped, though some may
    become empty."""
    return text_column(*_native.keep_pieces(*text_buffers(text), level, flags))
