"""Tasks of distributed counting: the text ranges that each counts, and the file that it leaves.

In: a corpus. Out: for each task some files and ranges of them, as JSON; on the worker, blocks of them; and
files of counts that can be gathered by shard. What a task is follows from the input alone, so a run that goes
on finds what an earlier one has counted. Held in memory: one task's files, and the positions of segments.

Plain text is split at any byte: its blocks move to split points. Records are split where they end. What can
only be read from its beginning is never split.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from krill.corpus import Corpus, CorpusFile, FileRange, Start, Unit
from krill.corpus.formats import Format
from krill.storage.atomic import AtomicFile, storage_errors
from krill.storage.commits import damaged, reading_artifact
from krill.tokenizer.text_blocks import (
    InputBlock,
    SplitPoints,
    bounds,
    document_block,
    file_blocks,
    stream_blocks,
)

# Beyond so many, tasks get longer: each leaves a file that all tasks that merge have to read from.
MOST_TASKS: Final = 4096
# Of small files, so that a task's payload stays small.
MOST_FILES: Final = 256
# Text is about so many times as long as its compressed file.
_UNPACKED: Final = 4

SHARDS: Final = 64
"""Of the native counter's hash of a word; a segment holds words of one."""

COUNTED: Final = "words"
"""The name of the file of counts among a task's artifacts."""

_ROW: Final = 24
_MARK: Final = 0x7364726F772E726B
_COPIED_AT_ONCE: Final = 1 << 20


@dataclass(slots=True)
class TaskInput:
    """What one task counts: files, numbered as they stand here, and ranges of them; without an end, a file
    that is read from its beginning."""

    files: list[CorpusFile] = field(default_factory=list)
    ranges: list[FileRange] = field(default_factory=list)
    ordinals: list[int] = field(default_factory=list)
    """What number each file has in the whole corpus."""
    size: int = 0
    """Bytes of input, about."""

    @property
    def name(self) -> str:
        """Where it begins, for messages."""
        first = self.ranges[0]
        more = f" and {len(self.files) - 1} more files" if len(self.files) > 1 else ""
        return f"`{self.files[first.file].path}` from {first.start:,}{more}"

    def add(self, file: CorpusFile, start: int, end: int | None) -> None:
        """One more range, of the file that was added last or of the next."""
        if not self.ordinals or self.ordinals[-1] != file.ordinal:
            self.ordinals.append(file.ordinal)
            self.files.append(replace(file, ordinal=len(self.files)))
        self.ranges.append(FileRange(len(self.files) - 1, start, end))


task_input: Final = TypeAdapter(TaskInput).validate_python
"""What one task counts, read from the JSON that a commit log keeps of it."""


def split_input(corpus: Corpus, unit_bytes: int) -> Iterator[TaskInput]:
    """The whole corpus, as the inputs of tasks."""
    wanted = unit_bytes * max(1, corpus.input_bytes // (unit_bytes * MOST_TASKS))
    task = TaskInput()
    for ranges, size in chain(_text_ranges(corpus, unit_bytes), _document_ranges(corpus, unit_bytes)):
        for file, start, end in ranges:
            task.add(file, start, end)
        task.size += size
        if task.size >= wanted or len(task.files) >= MOST_FILES:
            yield task
            task = TaskInput()
    if task.ranges:
        yield task


_Ranges = tuple[list[tuple[CorpusFile, int, int | None]], int]
"""Ranges that go together, and their bytes."""


def _text_ranges(corpus: Corpus, unit_bytes: int) -> Iterator[_Ranges]:
    for file in corpus.files:
        if file.format is not Format.TEXT:
            continue
        if file.sequential:
            yield [(file, file.start, None)], _text_bytes(file)
            continue
        first, last = bounds(file)
        for start in range(first, last, unit_bytes):
            end = min(last, start + unit_bytes)
            yield [(file, start, end)], end - start


def _document_ranges(corpus: Corpus, unit_bytes: int) -> Iterator[_Ranges]:
    documents = corpus.only(lambda file: file.format is not Format.TEXT)
    files = [file for file in corpus.files if file.format is not Format.TEXT]
    for start in documents.starts():
        if start.unit is None:
            for file in [files[number] for number in start.files]:
                yield [(file, file.start, None)], _text_bytes(file)
        else:
            parts = start.unit.parts
            size = sum(files[number].bytes for number in {part.file for part in parts})
            yield [(files[part.file], part.start, part.end) for part in parts], min(size, unit_bytes)


def _text_bytes(file: CorpusFile) -> int:
    return file.bytes * (_UNPACKED if file.compression else 1)


def task_blocks(
    task: TaskInput, corpus: Corpus, points: SplitPoints, block_bytes: int
) -> Iterator[InputBlock]:
    """The blocks of a task; `corpus` is that of its files."""
    ranged: list[FileRange] = []
    sequential: list[int] = []
    for each in task.ranges:
        file = task.files[each.file]
        if file.format is not Format.TEXT:
            if each.end is None:
                sequential.append(each.file)
            else:
                ranged.append(each)
        elif each.end is None:
            yield from stream_blocks(file, points, block_bytes, each.start)
        else:
            yield from file_blocks(file, each.start, each.end, points, block_bytes)
    starts = [Start(0, (), Unit(tuple(ranged)))] if ranged else []
    if sequential:
        starts.append(Start(0, tuple(sequential)))
    for _, blocks in corpus.walk(lambda position: None, starts):
        yield from map(document_block, blocks)


# ---- a task's file of counts: words in sorted segments, then the index of the segments. The file describes
# itself, so that a task that was run twice may write it twice: the words are the same, segments may differ.


def append_index(file: AtomicFile, segments: NDArray[np.uint64], size: int) -> int:
    """Finish the file into whose first `size` bytes a counter has spilled `segments`; returns its bytes."""
    tail = np.array([[len(segments), size, _MARK]], np.uint64)
    index = np.concatenate([segments, tail]).astype("<u8").tobytes()
    with storage_errors(file.path), file.temporary.open("r+b") as spilled:
        spilled.truncate(size)
        spilled.seek(size)
        spilled.write(index)
    return size + len(index)


def collect_segments(paths: Iterable[Path], shards: range, out: AtomicFile) -> NDArray[np.uint64]:
    """Copy the segments of some shards from files of counts; returns rows of shard, begin and end."""
    collected = [np.empty((0, 3), np.uint64)]
    for path in paths:
        with reading_artifact(path), path.open("rb", buffering=0) as file:
            segments = _read_index(file, path)
            segments = segments[(segments[:, 0] >= shards.start) & (segments[:, 0] < shards.stop)]
            moved = segments.copy()
            for begin, end, first, last in _adjacent(segments):
                moved[first:last, 1:] = segments[first:last, 1:] - begin + out.tell()
                _copy(file, path, begin, end, out)
        collected.append(moved)
    out.flush()
    return np.concatenate(collected)


def _copy(file: BinaryIO, path: Path, begin: int, end: int, out: AtomicFile) -> None:
    file.seek(begin)
    while begin < end:
        some = file.read(min(_COPIED_AT_ONCE, end - begin))
        if not some:
            raise damaged(path, "is shorter than it was")
        out.write(some)
        begin += len(some)


def _read_index(file: BinaryIO, path: Path) -> NDArray[np.uint64]:
    whole = file.seek(0, os.SEEK_END)
    count, size, mark = _rows(file, whole - _ROW, 1)[0].tolist() if whole >= _ROW else (0, 0, 0)
    if mark != _MARK or whole != size + (count + 1) * _ROW:
        raise damaged(path, "does not end as it was written")
    return _rows(file, size, count)


def _rows(file: BinaryIO, begin: int, count: int) -> NDArray[np.uint64]:
    file.seek(begin)
    return np.fromfile(file, "<u8", 3 * count).reshape(-1, 3).astype(np.uint64)


def _adjacent(segments: NDArray[np.uint64]) -> Iterator[tuple[int, int, int, int]]:
    """Segments that follow each other in the file: where their bytes begin and end, and which they are."""
    breaks = np.flatnonzero(segments[1:, 1] != segments[:-1, 2]) + 1
    edges = [0, *breaks.tolist(), len(segments)]
    for first, last in pairwise(edges):
        if first < last:
            yield int(segments[first, 1]), int(segments[last - 1, 2]), first, last
