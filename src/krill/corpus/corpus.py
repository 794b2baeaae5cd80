"""The corpus: all files of all sources, cut into units, and units into blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from krill.corpus.all_columns import ALL, all_columns
from krill.corpus.blocks import SizedBlock, gathered
from krill.corpus.discovery import discover
from krill.corpus.documents import MAX_FILE_BYTES, MAX_FILES, Block, Part, Start, Unit, UnitEnd
from krill.corpus.fingerprint import fingerprint
from krill.corpus.formats import CorpusFile, DatasetSource, Format
from krill.corpus.opening import Openers
from krill.corpus.readers import Limits
from krill.corpus.slices import sliced
from krill.corpus.splits import parse_split
from krill.corpus.streams import CHUNK_BYTES, DecodedStream
from krill.errors import ConfigError, InputError


class Corpus:
    """What `open_corpus` found. Units and blocks come in input order and depend on nothing but the input and
    the arguments of `open_corpus`."""

    def __init__(self, files: Sequence[CorpusFile], limits: Limits, openers: Openers) -> None:
        self.files = tuple(files)
        self._limits = limits
        self._openers = openers

    def only(self, wanted: Callable[[CorpusFile], bool]) -> Corpus:
        """A corpus of some of the files, numbered anew."""
        kept = [file for file in self.files if wanted(file)]
        return Corpus(
            [replace(file, ordinal=at) for at, file in enumerate(kept)], self._limits, self._openers
        )

    @property
    def input_bytes(self) -> int:
        """On disk, as far as known."""
        return sum(file.bytes for file in self.files)

    @property
    def sequential(self) -> bool:
        """Whether a file can only be read from its beginning: then units are known only once read."""
        return any(file.sequential for file in self.files)

    @property
    def held_bytes(self) -> int:
        """The most that reading one file holds besides blocks: compressed Arrow batches larger than one, and
        Parquet's pages and dictionaries."""
        return max((self._openers.whole_bytes(file) for file in self.files), default=0)

    def carried(self) -> pa.Schema:
        """The columns that are carried along, of all sources together, in their order.

        Empty where all sources carry the same, and only reading a hub's dataset tells their types.
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
                    raise _differ(name, first, known.type, file, kind)
        return pa.schema([field for field, _ in fields.values()])

    def fingerprints(self) -> list[dict[str, Any]]:
        """One per file, in order: what a run that resumes compares, see `changed`."""
        return [fingerprint(file) for file in self.files]

    def units(self) -> list[Unit]:
        """All units; only if the corpus is not sequential."""
        if self.sequential:
            raise ValueError("the units of a sequential corpus are only known when they are read: walk it")
        return [unit for files in self._runs() for unit in self._ranged_units(files)]

    def blocks(self, unit: Unit) -> Iterator[Block]:
        """A unit of ranged files in blocks; units in any order, from any thread."""
        pieces = (
            block for part in unit.parts for block in self._openers.ranged(self.files[part.file]).blocks(part)
        )
        return gathered(pieces, self._limits.block_bytes)

    def starts(self) -> Iterator[Start]:
        """Where reading can begin, in order, so that several readers share the input: each start is read by
        one of them, and together they are all of it."""
        for files in self._runs():
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
        have to be used before the next unit is asked for; what is left of them then is passed by.
        """
        for start in self.starts() if starts is None else starts:
            if start.unit is None:
                files = [self.files[ordinal] for ordinal in start.files]
                yield from self._sequential_units(files, committed)
            elif committed(start.position) is None:
                yield start.unit, self.blocks(start.unit)

    def _runs(self) -> Iterator[list[CorpusFile]]:
        """Neighbouring files that may share units: of one source, and of one kind.

        Those that are read from their beginning share units only as far as they are small together, so that
        others can be read at the same time.
        """
        for (_, sequential), group in groupby(self.files, key=lambda file: (file.dataset, file.sequential)):
            if not sequential:
                yield list(group)
                continue
            run: list[CorpusFile] = []
            size = 0
            for file in group:
                if run and size + file.decoded_bytes > self._limits.unit_bytes:
                    yield run
                    run, size = [], 0
                run.append(file)
                size += file.decoded_bytes
            yield run

    def _ranged_units(self, files: Iterable[CorpusFile]) -> Iterator[Unit]:
        """Small files together, large ones in parts."""
        small: list[Part] = []
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
                yield from (Unit((part,)) for part in ranged.parts())
            else:
                small.append(whole)
                size += ranged.size
        if small:
            yield Unit(tuple(small))

    def _sequential_units(
        self, files: Sequence[CorpusFile], committed: Callable[[int], UnitEnd | None]
    ) -> Iterator[tuple[Unit, Iterator[Block]]]:
        cursor = _Cursor(files, self._openers, self._limits.unit_bytes)
        while (place := cursor.place()) is not None:
            file, start = place
            done = committed(file.position(start))
            if done is not None:
                cursor.jump(done)
                continue
            pieces = cursor.unit_blocks()
            first = next(pieces, None)
            if first is None:
                return
            blocks = gathered(chain([first], pieces), self._limits.block_bytes)
            yield Unit((Part(file.ordinal, start, None),)), blocks
            for _ in blocks:
                pass


class _Cursor:
    """How far the sequential files of a run are read. A file stays open from one unit to the next."""

    def __init__(self, files: Sequence[CorpusFile], openers: Openers, unit_bytes: int) -> None:
        self._files = files
        self._openers = openers
        self._unit_bytes = unit_bytes
        self._blocks: Iterator[SizedBlock] | None = None
        self._index = 0
        self._offset = files[0].start

    def place(self) -> tuple[CorpusFile, int] | None:
        """Where the next unit begins; None at the end."""
        return None if self._index == len(self._files) else (self._files[self._index], self._offset)

    def jump(self, end: UnitEnd) -> None:
        """Go on behind a unit that is done."""
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
                self._blocks = self._openers.sequential(self._files[self._index]).blocks(self._offset)
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
    drop_oversize: bool,
    skip_malformed: bool,
    default_separator: str,
    batch_rows: int | None,
    exclude: Sequence[Path] = (),
) -> Corpus:
    """Find the files of all sources, in order, and resolve slices.

    `batch_rows` bounds the rows that columnar formats are asked for at once; it never changes what comes out.
    Folders to `exclude`, such as the output's own, are passed by when a folder is searched or a glob matched.
    """
    limits = Limits(
        unit_bytes, max_document_bytes, drop_oversize, skip_malformed, default_separator, batch_rows
    )
    openers = Openers(limits)
    files: list[CorpusFile] = []
    for dataset, source in enumerate(datasets):
        for file in _source_files(source, dataset, openers, limits, exclude):
            files.append(replace(file, ordinal=len(files)))
    if len(files) > MAX_FILES:
        raise InputError(
            f"{len(files):,} files are too many: at most {MAX_FILES:,} can be read", hint="join small files"
        )
    return Corpus(files, limits, openers)


def _source_files(
    source: DatasetSource, dataset: int, openers: Openers, limits: Limits, exclude: Sequence[Path]
) -> list[CorpusFile]:
    """The files of one source, checked as far as can be without reading them."""
    _check_columns(source)
    split = parse_split(source.split)
    files = []
    for found in discover(source, split, exclude):
        if found.bytes > MAX_FILE_BYTES:
            raise InputError(f"`{found.path}` is larger than {MAX_FILE_BYTES:,} bytes", hint="split it")
        file = CorpusFile(
            ordinal=0,
            path=found.path,
            location=found.location,
            format=found.format,
            compression=found.compression,
            bytes=found.bytes,
            source=source,
            dataset=dataset,
            remote=found.remote,
        )
        files.append(_as_lines_if_so(file))
    if not any(file.bytes or file.remote for file in files):
        raise InputError(f"`{source.path}` is empty", hint="there is nothing in it to read: check the path")
    if source.columns == ALL:
        named = replace(source, columns=())
        named = replace(
            source, columns=all_columns([replace(file, source=named) for file in files], openers, limits)
        )
        files = [replace(file, source=named) for file in files]
    if files[0].source.columns:
        _check_carried(files, openers)
    return sliced(files, split, openers) if split.sliced else files


def _as_lines_if_so(file: CorpusFile) -> CorpusFile:
    """A `.json` file that does not begin an array holds JSON lines."""
    if file.format is not Format.JSON_ARRAY:
        return file
    with DecodedStream(file) as stream:
        while head := stream.read(CHUNK_BYTES):
            head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
            if head:
                return replace(file, format=Format.JSON_LINES) if head.startswith(b"{") else file
    return replace(file, format=Format.JSON_LINES)


def _check_columns(source: DatasetSource) -> None:
    if "*" in source.columns and source.columns != ALL:
        raise ConfigError(f'`columns` of `{source.path}` names "*", which is all of them, and others besides')
    for name in source.columns:
        if name == source.text_column:
            raise ConfigError(f"the column `{name}` of `{source.path}` is its text: it is carried anyway")
        if name in ("text", "position"):
            raise ConfigError(
                f"the column `{name}` of `{source.path}` can't be carried: the name is Krill's own"
            )
    if len(set(source.columns)) < len(source.columns):
        raise ConfigError(f"a column of `{source.path}` is named twice in `columns:`")


def _check_carried(files: Sequence[CorpusFile], openers: Openers) -> None:
    """Columns are carried in the type they have, so all files of a source have to agree on it."""
    first: tuple[CorpusFile, list[Any]] | None = None
    for file in files:
        if file.format is Format.TEXT:
            raise InputError(
                f"`{file.path}` is plain text: it has no columns to carry", hint="remove `columns:`"
            )
        types = openers.carried_types(file)
        if types is None:
            continue
        if first is None:
            first = file, types
        for name, kind, other in zip(file.source.columns, types, first[1], strict=True):
            if kind != other:
                raise _differ(name, first[0], other, file, kind)


def _differ(
    name: str, first: CorpusFile, kind: pa.DataType, file: CorpusFile, other: pa.DataType
) -> InputError:
    return InputError(
        f"the column `{name}` is `{kind}` in `{first.path}`, but `{other}` in `{file.path}`",
        hint="make them the same, or take it out of `columns:`",
    )
