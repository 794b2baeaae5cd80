"""Exact dedup in tasks that need nothing but files: the keep bits are those of `resolve_exact`.

In: the hash files of units, which are cut into groups of consecutive units. Out: a keep bit for each
document. Held in memory by a task: no more than its share, and a path and 16 bytes for each group.

1. Split, a task for each group: its hashes by partition, in one file.
2. Answer, a task for each partition: its hashes of all groups, in input order; one flag for each, in one file
   with a run for each group.
3. Join, a task for each group: its flags of all partitions, back in input order, are the keep bits.

Documents that were seen before form groups of their own, which come first and are not joined.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from krill import _native
from krill.dedup.exact import (
    MIN_SHARE,
    SLACK,
    SPLIT_BYTES_PER_RECORD,
    Layout,
    answer_partition,
    keys_in,
)
from krill.dedup.runs import RunStream, end_runs, find_run, reading
from krill.dedup.shuffle import Shuffle, plan_shuffle, width_of, write_split
from krill.dedup.spill import Digit, read_all, write_all
from krill.dedup.streams import UnitHashes, write_keep_files
from krill.storage.atomic import atomic_writer, storage_errors
from krill.storage.commits import damaged

FLAG_BYTES = 1
COPY_FLAGS = 1 << 16
# A hash while flags are joined: as while it is split, its flag, and the one before, which is being packed.
JOIN_BYTES_PER_RECORD = SPLIT_BYTES_PER_RECORD + 3


def plan_hashes(documents: int, *, share: int, workers: int) -> Shuffle:
    """How so many documents are spread over workers that have `share` each."""
    layout = _layout(share)
    return plan_shuffle(
        documents,
        table_keys=keys_in(layout.table_bytes),
        block_records=_block_records(share),
        workers=workers,
    )


def split_hashes(files: Sequence[Path], out: Path, *, width: int, share: int, spill: Path) -> int:
    """Write the hashes of a group's units by partition, 2^`width` of them; returns how many there are."""
    records = _layout(share).split_records
    stream = UnitHashes(files)
    return write_split(
        stream, out, width, block_records=_block_records(share), spill_records=records, spill=spill
    )


def answer_hashes(split_files: Sequence[Path], partition: int, out: Path, *, share: int, spill: Path) -> int:
    """Write a flag for each hash of a partition, 1 if it is the first of its kind; returns how many there
    are. `split_files` are those of all groups, in input order."""
    return answer_with(_layout(share), split_files, partition, out, spill=spill)


def answer_with(
    layout: Layout, split_files: Sequence[Path], partition: int, out: Path, *, spill: Path
) -> int:
    """`answer_hashes` with the memory laid out by the caller."""
    _native.trim()  # what the task before has freed is not held through this one
    stream = RunStream(split_files, partition)

    def store(flags: Iterator[NDArray[np.uint8]]) -> None:
        with atomic_writer(out) as file:
            for block in flags:
                file.write(block)
            end_runs(file, stream.lengths, FLAG_BYTES)

    shift = width_of(stream.runs) if split_files else 0
    answer_partition(stream, store, shift, layout, spill)
    return stream.count


def join_hashes(
    files: Sequence[Path],
    group: int,
    flag_files: Sequence[Path],
    keep_files: Sequence[Path],
    *,
    share: int,
    spill: Path,
) -> int:
    """Write the keep bits of a group's units; returns the number of duplicates among them.

    `group` is the place of its file among all that were split, `flag_files` are those of all partitions.
    """
    return join_with(_layout(share), files, group, flag_files, keep_files, spill=spill)


def join_with(
    layout: Layout,
    files: Sequence[Path],
    group: int,
    flag_files: Sequence[Path],
    keep_files: Sequence[Path],
    *,
    spill: Path,
) -> int:
    """`join_hashes` with the memory laid out by the caller."""
    _native.trim()  # what the task before has freed is not held through this one
    stream = UnitHashes(files)
    with _GatheredFlags(flag_files, group, spill) as flags:
        if flags.count != stream.count:
            found = f"`{flags.count:,}` flags for {stream.count:,} documents of a group"
            raise damaged(flag_files[0], f"or the file of another partition, is not of these: {found}")
        block_records = max(1, layout.split_records * SPLIT_BYTES_PER_RECORD // JOIN_BYTES_PER_RECORD)
        return write_keep_files(flags.join(stream, block_records), stream.counts, keep_files)


class _GatheredFlags:
    """The flags of one group, partition after partition, in a file without a name: parts of each are needed
    for every block, and whoever wrote them may be far away."""

    def __init__(self, flag_files: Sequence[Path], group: int, folder: Path) -> None:
        self._flag_files = flag_files
        self._digit = Digit(0, width_of(len(flag_files)))
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115  closed by __exit__
        self._begins = np.zeros(len(flag_files) + 1, np.int64)
        try:
            for partition, file in enumerate(flag_files):
                end = self._append(file, group, int(self._begins[partition]), folder)
                self._begins[partition + 1] = end
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> _GatheredFlags:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def count(self) -> int:
        return int(self._begins[-1])

    def join(self, stream: UnitHashes, block_records: int) -> Iterator[NDArray[np.uint8]]:
        """The flags in the order of the stream that was split."""
        next_flags = self._begins[:-1].copy()
        buffer = np.empty(min(block_records, stream.count), np.uint8)
        for block in stream.blocks(block_records):
            counts = _native.partition_hashes(block, *self._digit)[1]
            after = next_flags + counts
            beyond = np.flatnonzero(after > self._begins[1:])
            if len(beyond):
                raise damaged(self._flag_files[beyond[0]], "has too few flags for the documents of a group")
            flags = buffer[: len(block)]
            filled = 0
            for partition in np.flatnonzero(counts):
                piece = flags[filled : filled + int(counts[partition])]
                read_all(self._file.fileno(), piece, int(next_flags[partition]))
                filled += len(piece)
            next_flags = after
            yield _native.join_flags(block, *self._digit, flags)

    def _append(self, file: Path, group: int, end: int, folder: Path) -> int:
        """Copy the group's run of one partition to `end`; returns where it ends."""
        (offset, count), _ = find_run(file, group, FLAG_BYTES)
        buffer = np.empty(min(count, COPY_FLAGS), np.uint8)
        with reading(file) as source:
            while count:
                piece = buffer[:count]
                read_all(source, piece, offset)
                with storage_errors(folder):
                    end = write_all(self._file.fileno(), piece, end)
                offset += len(piece)
                count -= len(piece)
        return end


def _layout(share: int) -> Layout:
    if share < MIN_SHARE:
        raise ValueError(f"a share of {share} bytes is below the least, {MIN_SHARE}")
    return Layout.of(share, threads=1)


def _block_records(share: int) -> int:
    """The documents of a group that is split in memory."""
    return (share - SLACK) // SPLIT_BYTES_PER_RECORD
