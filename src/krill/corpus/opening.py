"""The right reader for each file.

Held in memory: for each columnar file, what its chunks are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from krill.corpus.arrow_ipc import ArrowReader
from krill.corpus.blocks import SizedBlock
from krill.corpus.decoders import decoder_bytes
from krill.corpus.delimited import DelimitedText, longest_row_bytes
from krill.corpus.documents import Part
from krill.corpus.formats import COLUMNAR, CorpusFile, DatasetSource, Format
from krill.corpus.hub import HubDataset
from krill.corpus.json_array import JsonArray
from krill.corpus.parquet import Footers, ParquetReader
from krill.corpus.ranged_bytes import RangedBytes
from krill.corpus.ranged_rows import RangedRows, StreamedRows
from krill.corpus.readers import Limits
from krill.corpus.record_starts import record_starts
from krill.corpus.streamed_bytes import StreamedBytes
from krill.corpus.streams import input_errors, read_in_order
from krill.storage.checksums import ListedFiles

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class RangedFile(Protocol):
    """A file that can be read from any record on."""

    @property
    def size(self) -> int:
        """Bytes of input that are wanted."""
        ...

    def whole(self) -> Part:
        """All that is wanted."""
        ...

    def parts(self) -> Iterator[Part]:
        """The same in pieces of about `unit_bytes`, none empty."""
        ...

    def blocks(self, part: Part) -> Iterator[SizedBlock]:
        """A part in blocks."""
        ...


class SequentialFile(Protocol):
    """A file that can only be read from its beginning."""

    def blocks(self, start: int) -> Iterator[SizedBlock]:
        """All blocks from `start`, a block's end, on; what precedes is passed by."""
        ...


class _NamedSequential:
    """A file whose every error has its name, whatever reads it."""

    def __init__(self, file: CorpusFile, opened: SequentialFile) -> None:
        self._file = file
        self._opened = opened

    def blocks(self, start: int) -> Iterator[SizedBlock]:
        return read_in_order(self._file, self._opened.blocks(start))


class _NamedRanged:
    """The same for a file that can be read from any record on."""

    def __init__(self, file: CorpusFile, opened: RangedFile) -> None:
        self._file = file
        self._opened = opened

    @property
    def size(self) -> int:
        return self._opened.size

    def whole(self) -> Part:
        with input_errors(self._file):
            return self._opened.whole()

    def parts(self) -> Iterator[Part]:
        return read_in_order(self._file, self._opened.parts())

    def blocks(self, part: Part) -> Iterator[SizedBlock]:
        return read_in_order(self._file, self._opened.blocks(part))


class Openers:
    """Opens the files of one corpus. Safe to use from any thread."""

    def __init__(self, limits: Limits, *, verify: bool = True) -> None:
        """With `verify`, files that Krill wrote are held against their checksums before they are read."""
        self._limits = limits
        self._listed = ListedFiles() if verify else None
        self._footers = Footers()
        self._parquets: dict[tuple[str, DatasetSource], ParquetReader] = {}
        self._arrows: dict[tuple[str, DatasetSource], ArrowReader] = {}

    @property
    def verify(self) -> bool:
        return self._listed is not None

    def check(self, file: CorpusFile) -> None:
        """Before documents are read: an InputError if it is a file of Krill's, and not what was written."""
        if self._listed is not None and not file.remote:
            self._listed.check(file.location, file.path)

    def columnar(self, file: CorpusFile) -> ParquetReader | ArrowReader:
        """A Parquet or Arrow file, whose layout is looked at once."""
        with input_errors(file):
            return self._arrow(file) if file.format is Format.ARROW else self._parquet(file)

    def _parquet(self, file: CorpusFile) -> ParquetReader:
        key = file.location, file.source
        if key not in self._parquets:
            self._parquets[key] = ParquetReader(file, self._limits, self._footers)
        return self._parquets[key]

    def _arrow(self, file: CorpusFile) -> ArrowReader:
        key = file.location, file.source
        if key not in self._arrows:
            self._arrows[key] = ArrowReader(file, self._limits)
        return self._arrows[key]

    def whole_bytes(self, file: CorpusFile) -> int:
        """What of a file is too large for a block and has to be held as a whole, at the most; of a compressed
        one, the decoder's window."""
        if file.format in COLUMNAR:
            return self.columnar(file).whole_bytes
        rows = longest_row_bytes(file, self._limits) if file.format in (Format.CSV, Format.TSV) else 0
        with input_errors(file):
            return rows + decoder_bytes(file)

    def each_batch_bytes(self, file: CorpusFile) -> int:
        """What every batch of an Arrow file in flight holds besides its rows."""
        return self._arrow(file).each_batch_bytes

    def ranged(self, file: CorpusFile) -> RangedFile:
        """A file that is not sequential."""
        if file.format in COLUMNAR:
            return _NamedRanged(file, RangedRows(file, self._limits, self.columnar(file)))
        return _NamedRanged(file, RangedBytes(file, self._limits))

    def sequential(self, file: CorpusFile) -> SequentialFile:
        """A file that is."""
        return _NamedSequential(file, self._sequential(file))

    def _sequential(self, file: CorpusFile) -> SequentialFile:
        match file.format:
            case Format.PARQUET | Format.ARROW:
                return StreamedRows(file, self._limits, self.columnar(file))
            case Format.CSV | Format.TSV:
                return DelimitedText(file, self._limits)
            case Format.JSON_ARRAY:
                return JsonArray(file, self._limits)
            case Format.HUB:
                return HubDataset(file, self._limits)
            case Format.TEXT | Format.JSON_LINES:
                return StreamedBytes(file, self._limits)

    def count(self, file: CorpusFile) -> int:
        """How many records a file has; a pass over it, unless it says so itself."""
        match file.format:
            case Format.PARQUET | Format.ARROW:
                return int(self.columnar(file).chunks.rows[-1])
            case Format.HUB:
                return HubDataset(file, self._limits).rows()
            case _:
                return sum(len(starts) for starts in self._record_starts(file))

    def locate(self, file: CorpusFile, record: int) -> int:
        """The row or decoded offset of a record, given by its number."""
        if file.format in COLUMNAR or file.format is Format.HUB:
            return record
        passed = 0
        for starts in self._record_starts(file):
            if record < passed + len(starts):
                return int(starts[record - passed])
            passed += len(starts)
        raise IndexError(record)

    def _record_starts(self, file: CorpusFile) -> Iterator[NDArray[np.int64]]:
        return read_in_order(file, record_starts(file, self._limits))

    def carried_types(self, file: CorpusFile) -> list[pa.DataType] | None:
        """The types of the columns carried along; None if only reading tells."""
        if file.format is Format.HUB:
            return None
        if file.format in COLUMNAR:
            schema = self.columnar(file).schema
            return [schema.field(name).type for name in file.source.columns]
        return [pa.large_string() for _ in file.source.columns]
