"""The input of a training cut into tasks, and a task's part of it read.

In: a corpus. Out: for each task some files and stretches of them, as JSON; where the tasks are read, blocks
of them. What a task is follows from the input alone, so a later life finds what an earlier one has counted.
Held in memory: one task's files.

Plain text is cut at any byte: its blocks move to where no word is cut. Records are cut where they end. What
can only be read from its beginning is never cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any, Final

from krill.corpus import Corpus, CorpusFile, DatasetSource, FileRange, Start, Unit
from krill.corpus.formats import Compression, Format
from krill.tokenizer.pieces import DocumentsPiece, Piece, streamed_pieces, text_pieces
from krill.tokenizer.plain_text import Cuts, bounds

# Beyond so many the tasks get longer: each leaves a file that all tasks that merge have to read from.
MOST_TASKS: Final = 4096
# Of small files, so that a task's payload stays small.
MOST_FILES: Final = 256
# Text is about so many times as long as its compressed file.
_UNPACKED: Final = 4


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a task's file, by bytes or rows; without an end, a file that is read from its beginning."""

    file: int
    start: int
    end: int | None


@dataclass(slots=True)
class Portion:
    """What one task counts: files, numbered as they stand here, and stretches of them."""

    files: list[CorpusFile] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)
    ordinals: list[int] = field(default_factory=list)
    """What number each file has in the whole corpus."""
    size: int = 0
    """Bytes of input, about."""

    @property
    def name(self) -> str:
        """Where it begins, for people."""
        first = self.stretches[0]
        more = f" and {len(self.files) - 1} more files" if len(self.files) > 1 else ""
        return f"`{self.files[first.file].path}` from {first.start:,}{more}"

    def to_json(self) -> dict[str, Any]:
        return {
            "files": [asdict(file) for file in self.files],
            "stretches": [[stretch.file, stretch.start, stretch.end] for stretch in self.stretches],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Portion:
        files = [_file_from_json(file) for file in value["files"]]
        return cls(files, [Stretch(*stretch) for stretch in value["stretches"]])

    def add(self, file: CorpusFile, start: int, end: int | None) -> None:
        """One more stretch, of the file that was added last or of the next."""
        if not self.ordinals or self.ordinals[-1] != file.ordinal:
            self.ordinals.append(file.ordinal)
            self.files.append(replace(file, ordinal=len(self.files)))
        self.stretches.append(Stretch(len(self.files) - 1, start, end))


def cut_portions(corpus: Corpus, unit_bytes: int) -> Iterator[Portion]:
    """The whole corpus, in as many portions as there will be tasks."""
    wanted = unit_bytes * max(1, corpus.input_bytes // (unit_bytes * MOST_TASKS))
    portion = Portion()
    for part in chain(_text_parts(corpus, unit_bytes), _document_parts(corpus, unit_bytes)):
        for file, start, end in part.stretches:
            portion.add(file, start, end)
        portion.size += part.size
        if portion.size >= wanted or len(portion.files) >= MOST_FILES:
            yield portion
            portion = Portion()
    if portion.stretches:
        yield portion


@dataclass(frozen=True, slots=True)
class _Part:
    """Stretches that go together."""

    stretches: list[tuple[CorpusFile, int, int | None]]
    size: int


def _text_parts(corpus: Corpus, unit_bytes: int) -> Iterator[_Part]:
    for file in corpus.files:
        if file.format is not Format.TEXT:
            continue
        if file.sequential:
            yield _Part([(file, file.start, None)], _text_bytes(file))
            continue
        first, last = bounds(file)
        for start in range(first, last, unit_bytes):
            end = min(last, start + unit_bytes)
            yield _Part([(file, start, end)], end - start)


def _document_parts(corpus: Corpus, unit_bytes: int) -> Iterator[_Part]:
    documents = corpus.only(lambda file: file.format is not Format.TEXT)
    files = [file for file in corpus.files if file.format is not Format.TEXT]
    for start in documents.starts():
        if start.unit is None:
            run = [files[number] for number in start.files]
            for file in run:
                yield _Part([(file, file.start, None)], _text_bytes(file))
        else:
            parts = start.unit.parts
            size = sum(files[number].bytes for number in {part.file for part in parts})
            yield _Part([(files[part.file], part.start, part.end) for part in parts], min(size, unit_bytes))


def _text_bytes(file: CorpusFile) -> int:
    return file.bytes * (_UNPACKED if file.compression else 1)


def portion_pieces(portion: Portion, corpus: Corpus, cuts: Cuts, block_bytes: int) -> Iterator[Piece]:
    """The blocks of a portion; `corpus` is that of its files."""
    ranged: list[FileRange] = []
    sequential: list[int] = []
    for stretch in portion.stretches:
        file = portion.files[stretch.file]
        if file.format is not Format.TEXT:
            if stretch.end is None:
                sequential.append(stretch.file)
            else:
                ranged.append(FileRange(stretch.file, stretch.start, stretch.end))
        elif stretch.end is None:
            yield from streamed_pieces(file, cuts, block_bytes, stretch.start)
        else:
            yield from text_pieces(file, stretch.start, stretch.end, cuts, block_bytes)
    yield from _documents(corpus, ranged, sequential)


def _documents(corpus: Corpus, ranged: Sequence[FileRange], sequential: Sequence[int]) -> Iterator[Piece]:
    starts = [Start(0, (), Unit(tuple(ranged)))] if ranged else []
    if sequential:
        starts.append(Start(0, tuple(sequential)))
    for _, blocks in corpus.walk(lambda position: None, starts):
        yield from map(DocumentsPiece, blocks)


def _file_from_json(value: Mapping[str, Any]) -> CorpusFile:
    compression = value["compression"]
    source = value["source"]
    return CorpusFile(
        **{
            **value,
            "format": Format(value["format"]),
            "compression": None if compression is None else Compression(compression),
            "source": DatasetSource(**{**source, "columns": tuple(source["columns"])}),
        }
    )
