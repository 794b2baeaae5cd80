"""The corpus: all files of all sources, cut into units, and units into blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, groupby
from pathlib import Path

import pyarrow as pa

from krill.budget import Need
from krill.corpus.blocks import SizedBlock, gathered
from krill.corpus.documents import MAX_FILES, Block, FileRange, Start, Unit, UnitEnd
from krill.corpus.file_table import FileTable, Fingerprints
from krill.corpus.fingerprint import content_digest
from krill.corpus.formats import PAGES, CorpusFile, DatasetSource, Format
from krill.corpus.long_records import LongRecords, gather_long
from krill.corpus.opening import Openers
from krill.corpus.readers import Limits
from krill.corpus.sources import differing_types, source_files
from krill.errors import ConfigError, InputError

# Of a page, with the heap's own unevenness, which grows with the size of what it is asked for; beside a large
# one up to 34 MB were held, whatever its size.
_EXPECTED_COPIES = 2
LARGE_PIECE = 20 * 10**6
_BESIDE = 40 * 10**6
# Places at which records are looked for that are longer than a block.
_PROBES = 2048
# Of rows as long as documents are, what reading CSV holds besides blocks.
_CSV_BUFFERS = 6 * 10**6


class Corpus:
    """What `open_corpus` found. Units and blocks come in input order and depend on nothing but the input and
    the arguments of `open_corpus`."""

    def __init__(self, files: Sequence[CorpusFile], limits: Limits, openers: Openers) -> None:
        self.files = files if isinstance(files, FileTable) else FileTable(files)
        self._limits = limits
        self._openers = openers

    def only(self, wanted: Callable[[CorpusFile], bool]) -> Corpus:
        """A corpus of some of the files, numbered anew."""
        return Corpus(FileTable(filter(wanted, self.files)), self._limits, self._openers)

    @property
    def verify(self) -> bool:
        """Whether files that Krill wrote are checked against their checksums."""
        return self._openers.verify

    @property
    def block_bytes(self) -> int:
        """Of input: a block has more only if one record does."""
        return self._limits.block_bytes

    @property
    def input_bytes(self) -> int:
        """On disk, as far as known."""
        return self.files.input_bytes

    @property
    def sequential(self) -> bool:
        """Whether a file can only be read from its beginning: then units are known only once read."""
        return self.files.sequential

    @property
    def held_bytes(self) -> int:
        """The most that reading one file holds besides blocks: compressed Arrow batches larger than one,
        Parquet's pages and dictionaries, the window of a decoder."""
        return self._most_held[0]

    def held_need(self) -> Need | None:
        """The same for the plan, with what can be done about it."""
        held, file = self._most_held
        if file is None or not held:
            return None
        if file.format in (Format.CSV, Format.TSV):
            remedy = "set preprocess.max_document_bytes lower (a row of CSV may be twice as long)"
            return Need("a row of CSV", held, expected=_CSV_BUFFERS, remedy=remedy)
        filled = sum(file.decoded_bytes for file in self.files)
        if file.compression is None:
            remedy = f"write `{file.path}` in smaller pages or batches"
            expected = max(
                min(_EXPECTED_COPIES * held, 4 * filled), held + (_BESIDE if held > LARGE_PIECE else 0)
            )
            return Need("a page or batch read whole", held, useful=expected, expected=expected, remedy=remedy)
        remedy = f"compress `{file.path}` again, with a smaller window"
        return Need("the window of a decoder", held, expected=min(held, 4 * filled), remedy=remedy)

    @cached_property
    def _most_held(self) -> tuple[int, CorpusFile | None]:
        most: tuple[int, CorpusFile | None] = 0, None
        for file in self.files:
            held = self._openers.whole_bytes(file)
            if held > most[0]:
                most = held, file
        return most

    @property
    def each_batch_bytes(self) -> int:
        """What every batch in flight holds besides its rows: the dictionaries of an Arrow file."""
        arrow = (self._openers.columnar(file) for file in self.files if file.format is Format.ARROW)
        return max((reader.each_batch_bytes for reader in arrow), default=0)

    @property
    def largest_page(self) -> int:
        """Bytes of the largest page; 0 if there are no files of pages."""
        return max((file.source.max_page_bytes for file in self.files if file.format in PAGES), default=0)

    def long_records(self) -> LongRecords:
        """Records of plain text, JSON lines and Arrow that are longer than a block, as far as two thousand
        places show them; those of files that can't be read from any place are not known."""
        block = self._limits.block_bytes
        step = max(block, sum(file.bytes for file in self.files if not file.sequential) // _PROBES)
        return gather_long(self._long_records(step), step, block, self._limits.max_document_bytes)

    def _long_records(self, step: int) -> Iterator[tuple[int, int]]:
        """Their places, counted over all files."""
        before = 0
        for file in self.files:
            if not file.sequential and file.bytes > self._limits.block_bytes:
                for start, end in self._openers.ranged(file).long_records(step):
                    yield before + start, before + end
            before += file.bytes

    @property
    def longest_mapped(self) -> int:
        """Bytes of the longest row of Arrow files, if it is not copied as a whole."""
        whole = self.long_records().whole
        return whole if whole > self._limits.block_bytes + self._limits.max_document_bytes else 0

    @property
    def columns(self) -> int:
        """The largest number of columns that a source carries along."""
        return max((len(source.columns) for source in self.files.sources()), default=0)

    def carried(self) -> pa.Schema:
        """The columns that are carried along, of all sources together, in their order.

        Empty where all sources carry the same, and the types of a hub dataset are known only once it is read.
        """
        fields: dict[str, tuple[pa.Field, CorpusFile]] = {}
        firsts = [next(files) for _, files in groupby(self.files, key=lambda file: file.dataset)]
        for file in firsts:
            types = self._openers.carried_types(file)
            if types is None:
                if any(other.source.columns != file.source.columns for other in firsts):
                    raise ConfigError(
                        f"`{file.path}` is on the hub, and carries other `columns` than the other datasets",
                        hint="name the same `columns` for all datasets, or prepare it on its own",
                    )
                return pa.schema([])
            for name, kind in zip(file.source.columns, types, strict=True):
                known, first = fields.setdefault(name, (pa.field(name, kind), file))
                if known.type != kind:
                    raise differing_types(name, first, known.type, file, kind)
        return pa.schema([field for field, _ in fields.values()])

    def fingerprints(self, progress: Callable[[int], None] = lambda _: None) -> Fingerprints:
        """One per file, in order: what a run that resumes compares, see `changed`.

        `progress` is called with the size of each file that was fingerprinted.
        """
        found = Fingerprints(self.files)
        for file in self.files:
            found.append(content_digest(file))
            progress(file.bytes)
        return found

    def units(self) -> list[Unit]:
        """All units; only if the corpus is not sequential."""
        if self.sequential:
            raise ValueError("the units of a sequential corpus are only known when they are read: walk it")
        return [unit for files in self._file_groups() for unit in self._ranged_units(files)]

    def blocks(self, unit: Unit) -> Iterator[Block]:
        """A unit of ranged files in blocks; units in any order, from any thread."""
        return gathered(self._ranged_blocks(unit), self._limits.block_bytes, self.files)

    def _ranged_blocks(self, unit: Unit) -> Iterator[SizedBlock]:
        for part in unit.parts:
            file = self.files[part.file]
            self._openers.check(file)
            yield from self._openers.ranged(file).blocks(part)

    def starts(self) -> Iterator[Start]:
        """Where reading can begin, in order, so that several readers share the input: each start is read by
        one of them, and together they are all of it."""
        for files in self._file_groups():
            if files[0].sequential:
                yield Start(files[0].position(files[0].start), tuple(file.ordinal for file in files))
            else:
                for unit in self._ranged_units(files):
                    yield Start(unit.position, tuple(part.file for part in unit.parts), unit)

    def walk(
        self, committed: Callable[[int], UnitEnd | None], starts: Iterable[Start] | None = None
    ) -> Iterator[tuple[Unit, Iterator[Block]]]:
        """All units that are not committed, each with its blocks; with `starts`, only what these are of.

        `committed` is asked with a unit's position and says where it ended, if it is done. A unit's blocks
        have to be used before the next unit is asked for; what is left of them then is skipped.
        """
        for start in self.starts() if starts is None else starts:
            if start.unit is None:
                files = [self.files[ordinal] for ordinal in start.files]
                yield from self._sequential_units(files, committed)
            elif committed(start.position) is None:
                yield start.unit, self.blocks(start.unit)

    def _file_groups(self) -> Iterator[list[CorpusFile]]:
        """Neighbouring files that may share units: of one source, and of one kind.

        Those that are read from their beginning share units only as far as they are small together, so that
        others can be read at the same time.
        """
        for (_, sequential), group in groupby(self.files, key=lambda file: (file.dataset, file.sequential)):
            if not sequential:
                yield list(group)
                continue
            small: list[CorpusFile] = []
            size = 0
            for file in group:
                if small and size + file.decoded_bytes > self._limits.unit_bytes:
                    yield small
                    small, size = [], 0
                small.append(file)
                size += file.decoded_bytes
            yield small

    def _ranged_units(self, files: Iterable[CorpusFile]) -> Iterator[Unit]:
        """Small files together, large ones in parts."""
        small: list[FileRange] = []
        size = 0
        for file in files:
            ranged = self._openers.ranged(file)
            whole = ranged.whole()
            if whole.start == whole.end:
                continue
            if small and size + ranged.size > self._limits.unit_bytes:
                yield Unit(tuple(small))
                small, size = [], 0
            if ranged.size > self._limits.unit_bytes:
                yield from (Unit((wanted,)) for wanted in ranged.ranges())
            else:
                small.append(whole)
                size += ranged.size
        if small:
            yield Unit(tuple(small))

    def _sequential_units(
        self, files: Sequence[CorpusFile], committed: Callable[[int], UnitEnd | None]
    ) -> Iterator[tuple[Unit, Iterator[Block]]]:
        cursor = _Cursor(files, self._openers, self._limits.unit_bytes)
        while (next_start := cursor.next_start()) is not None:
            file, start = next_start
            done = committed(file.position(start))
            if done is not None:
                cursor.jump(done)
                continue
            pieces = cursor.unit_blocks()
            first = next(pieces, None)
            if first is None:
                return
            blocks = gathered(chain([first], pieces), self._limits.block_bytes, self.files)
            yield Unit((FileRange(file.ordinal, start, None),)), blocks
            for _ in blocks:
                pass


class _Cursor:
    """How far some sequential files are read. A file stays open from one unit to the next."""

    def __init__(self, files: Sequence[CorpusFile], openers: Openers, unit_bytes: int) -> None:
        self._files = files
        self._openers = openers
        self._unit_bytes = unit_bytes
        self._blocks: Iterator[SizedBlock] | None = None
        self._index = 0
        self._offset = files[0].start

    def next_start(self) -> tuple[CorpusFile, int] | None:
        return None if self._index == len(self._files) else (self._files[self._index], self._offset)

    def jump(self, end: UnitEnd) -> None:
        """Continue after a unit that is done."""
        self._blocks = None
        if end.file is not None:
            self._index = end.file - self._files[0].ordinal
        if end.end is None:
            self._next_file()
        else:
            self._offset = end.end

    def unit_blocks(self) -> Iterator[SizedBlock]:
        """Blocks until they make a unit; a unit ends with a record, and goes on from one file to the next."""
        size, whole = 0, True
        while self._index < len(self._files) and (size < self._unit_bytes or not whole):
            if self._blocks is None:
                file = self._files[self._index]
                self._openers.check(file)
                self._blocks = self._openers.sequential(file).blocks(self._offset)
            block = next(self._blocks, None)
            if block is None:
                self._next_file()
                continue
            self._offset = block.end
            if block.last:
                self._next_file()
            size, whole = size + block.size, block.whole
            yield block

    def _next_file(self) -> None:
        self._index += 1
        self._blocks = None
        if self._index < len(self._files):
            self._offset = self._files[self._index].start


def open_corpus(
    datasets: Sequence[DatasetSource],
    *,
    unit_bytes: int,
    max_document_bytes: int,
    drop_oversize: bool = False,
    skip_malformed: bool = False,
    default_separator: str = "",
    batch_rows: int | None = None,
    exclude: Sequence[Path] = (),
    verify: bool = True,
    pages: bool = False,
) -> Corpus:
    """Find the files of all sources, in order, and resolve slices.

    `batch_rows` bounds the rows that columnar formats are asked for at once; it never changes what comes out.
    Folders to `exclude`, such as the output's own, are skipped when a folder is searched or a glob matched.
    With `verify`, each local file that an output of Krill's lists is checked against its checksum when the
    first of its documents is read; that takes one more pass over it, as threads read it from many places.
    Files of web pages are refused unless the caller extracts their text, and says so by `pages`.
    """
    limits = Limits(
        unit_bytes, max_document_bytes, drop_oversize, skip_malformed, default_separator, batch_rows
    )
    openers = Openers(limits, verify=verify)
    files = FileTable()
    for dataset, source in enumerate(datasets):
        files.extend(source_files(source, dataset, openers, limits, exclude, pages=pages))
    if len(files) > MAX_FILES:
        raise InputError(
            f"{len(files):,} files are too many: at most {MAX_FILES:,} can be read", hint="join small files"
        )
    return Corpus(files, limits, openers)
