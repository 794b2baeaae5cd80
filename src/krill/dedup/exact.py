"""Exact dedup within a share of memory: of documents with equal hashes, the first one is kept.

In: the hashes of each unit's documents, in input order. Out: a keep bit for each document. Held in memory:
while the hashes of all documents fit the share's table, that table; beyond, see `tables.py`.

Lines and paragraphs are compared in the same way, by `line_hashes`; `keep_lines` leaves those that are not
kept out of their documents. Held in memory: 16 bytes for each, and the new column. A line ends with its
newline. A paragraph is a sequence of lines that are not blank, with the blank ones after it. Either is
compared without the whitespace at its ends. Blank lines are neither counted nor dropped.

The same as tasks that need nothing but files, with the same keep bits; units are cut into groups of
consecutive ones. Held in memory by a task: no more than its share, and a path and 16 bytes for each group.

1. Split, a task for each group: its hashes by partition, in one file.
2. Answer, a task for each partition: its hashes of all groups, in input order; one flag for each, in one file
   with a segment for each group.
3. Join, a task for each group: its flags of all partitions, back in input order, are the keep bits.

Documents that were seen before form groups of their own, which come first and are not joined.
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
from krill.dedup.shuffle import (
    SegmentStream,
    ShufflePlan,
    find_segment,
    plan_shuffle,
    width_of,
    write_segment_index,
    write_split,
)
from krill.dedup.spill import KeyBits, Partition, unnamed_file
from krill.dedup.streams import (
    HASH_BYTES,
    HashStream,
    UnitHashes,
    read_all,
    reading,
    write_all,
    write_keep_files,
)
from krill.dedup.tables import HASH_TABLES, TableLayout, answered_partitions, keys_in, table_bytes_for
from krill.storage.atomic import atomic_writer, storage_errors, undo_on_error
from krill.storage.commits import damaged
from krill.storage.input_file import ClosedOnExit

Level = Literal["line", "paragraph"]

MIN_SHARE = HASH_TABLES.min_share
"""The least share that takes any number of documents."""
FLAG_BYTES = 1
COPY_FLAGS = 1 << 16
# A hash while flags are joined: as while it is split, its flag, and the one before, which is being packed.
JOIN_BYTES_PER_RECORD = HASH_TABLES.split_bytes_per_record + 3


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


def plan_hashes(documents: int, *, share: int, workers: int) -> ShufflePlan:
    """How so many documents are spread over workers that have `share` each."""
    return plan_shuffle(documents, HASH_TABLES, share=share, workers=workers)


def split_hashes(files: Sequence[Path], out: Path, *, width: int, share: int, spill: Path) -> int:
    """Write the hashes of a group's units by partition, 2^`width` of them; returns how many there are."""
    return write_split(UnitHashes(files), out, width, **HASH_TABLES.split_sizes(share), spill=spill)


def answer_hashes(
    split_files: Sequence[Path], partition: int, out: Path, *, share: int | TableLayout, spill: Path
) -> int:
    """Write a flag for each hash of a partition, 1 if it is the first of its kind; returns how many there
    are. `split_files` are those of all groups, in input order."""
    _native.trim()  # what the task before has freed is not held through this one
    stream = SegmentStream(split_files, partition)

    def store(flags: Iterator[NDArray[np.uint8]]) -> None:
        with atomic_writer(out) as file:
            for block in flags:
                file.write(block)
            write_segment_index(file, stream.lengths, FLAG_BYTES)

    shift = width_of(stream.segments) if split_files else 0
    flag_partition(stream, store, shift, HASH_TABLES.layout(share), spill)
    return stream.count


def join_hashes(
    files: Sequence[Path],
    group: int,
    flag_files: Sequence[Path],
    keep_files: Sequence[Path],
    *,
    share: int | TableLayout,
    spill: Path,
) -> int:
    """Write the keep bits of a group's units; returns the number of duplicates among them.

    `group` is the place of its file among all that were split, `flag_files` are those of all partitions.
    """
    _native.trim()  # what the task before has freed is not held through this one
    stream = UnitHashes(files)
    with _GatheredFlags(flag_files, group, spill) as flags:
        if flags.count != stream.count:
            found = f"`{flags.count:,}` flags for {stream.count:,} documents of a group"
            raise damaged(flag_files[0], f"or the file of another partition, is not of these: {found}")
        room = HASH_TABLES.layout(share).split_records * HASH_TABLES.split_bytes_per_record
        block_records = max(1, room // JOIN_BYTES_PER_RECORD)
        return write_keep_files(flags.join(stream, block_records), stream.counts, keep_files)


class _GatheredFlags(ClosedOnExit):
    """The flags of one group, partition after partition, in a file without a name: parts of each are needed
    for every block, and the files may be on another machine."""

    def __init__(self, flag_files: Sequence[Path], group: int, folder: Path) -> None:
        self._flag_files = flag_files
        self._bits = KeyBits(0, width_of(len(flag_files)))
        self._file = unnamed_file(folder)
        self._begins = np.zeros(len(flag_files) + 1, np.int64)
        with undo_on_error(self._file.close):
            for partition, file in enumerate(flag_files):
                end = self._append(file, group, int(self._begins[partition]), folder)
                self._begins[partition + 1] = end

    def close(self) -> None:
        self._file.close()

    @property
    def count(self) -> int:
        return int(self._begins[-1])

    def join(self, stream: UnitHashes, block_records: int) -> Iterator[NDArray[np.uint8]]:
        """The flags in the order of the stream that was split."""
        next_flags = self._begins[:-1].copy()
        buffer = np.empty(min(block_records, stream.count), np.uint8)
        for block in stream.blocks(block_records):
            counts = _native.partition_hashes(block, *self._bits)[1]
            after = next_flags + counts
            beyond = np.flatnonzero(after > self._begins[1:])
            if len(beyond):
                raise damaged(self._flag_files[beyond[0]], "has too few flags for the documents of a group")
            flags = buffer[: len(block)]
            filled = 0
            for partition in np.flatnonzero(counts):
                view = flags[filled : filled + int(counts[partition])]
                read_all(self._file.fileno(), view, int(next_flags[partition]))
                filled += len(view)
            next_flags = after
            yield _native.join_flags(block, *self._bits, flags)

    def _append(self, file: Path, group: int, end: int, folder: Path) -> int:
        """Copy the group's segment of one partition to `end`; returns where it ends."""
        (offset, count), _ = find_segment(file, group, FLAG_BYTES)
        buffer = np.empty(min(count, COPY_FLAGS), np.uint8)
        with reading(file) as source:
            while count:
                view = buffer[:count]
                read_all(source, view, offset)
                with storage_errors(folder):
                    end = write_all(self._file.fileno(), view, end)
                offset += len(view)
                count -= len(view)
        return end
