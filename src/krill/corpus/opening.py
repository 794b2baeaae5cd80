"""The right reader for each file.

Held in memory: for each columnar file, what its chunks are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from krill.corpus.arrow_ipc import ArrowReader
from krill.corpus.blocks import RangedFile, SequentialFile
from krill.corpus.byte_files import JsonArray, RangedBytes, StreamedBytes
from krill.corpus.columnar import RangedRows, StreamedRows
from krill.corpus.decoders import decoder_bytes
from krill.corpus.delimited import DelimitedText, longest_row_bytes
from krill.corpus.formats import COLUMNAR, CorpusFile, DatasetSource, Format
from krill.corpus.html import HtmlFile, RangedHtml
from krill.corpus.hub import HubDataset
from krill.corpus.page_blocks import PageFile
from krill.corpus.parquet import Footers, ParquetReader
from krill.corpus.readers import Limits
from krill.corpus.streams import input_errors
from krill.corpus.tar_pages import TarFile
from krill.corpus.warc import WarcFile
from krill.corpus.zip_pages import ZipFile
from krill.storage.outputs import ListedFiles

PAGE_FILES: Final[Mapping[Format, type[PageFile]]] = {
    Format.WARC: WarcFile,
    Format.ZIP: ZipFile,
    Format.TAR: TarFile,
}
"""Formats of which a file has many pages."""


class Openers:
    """Opens the files of one corpus. Safe to use from any thread."""

    def __init__(self, limits: Limits, *, verify: bool = True) -> None:
        """With `verify`, files that Krill wrote are checked against their checksums before they are read."""
        self._limits = limits
        self._listed = ListedFiles() if verify else None
        self._footers = Footers()
        self._columnar: dict[tuple[str, DatasetSource], ParquetReader | ArrowReader] = {}

    @property
    def verify(self) -> bool:
        return self._listed is not None

    def check(self, file: CorpusFile) -> None:
        """Before documents are read: an InputError if it is a file of Krill's, and not what was written."""
        if self._listed is not None and not file.remote:
            self._listed.check(file.location, file.path)

    def columnar(self, file: CorpusFile) -> ParquetReader | ArrowReader:
        """A Parquet or Arrow file, whose layout is read once."""
        key = file.location, file.source
        with input_errors(file):
            if key not in self._columnar:
                self._columnar[key] = (
                    ArrowReader(file, self._limits)
                    if file.format is Format.ARROW
                    else ParquetReader(file, self._limits, self._footers)
                )
            return self._columnar[key]

    def whole_bytes(self, file: CorpusFile) -> int:
        """What of a file is too large for a block and has to be held as a whole, at the most; of a compressed
        one, the decoder's window."""
        if file.format in COLUMNAR:
            return self.columnar(file).whole_bytes
        rows = longest_row_bytes(file, self._limits) if file.format in (Format.CSV, Format.TSV) else 0
        with input_errors(file):
            return rows + decoder_bytes(file)

    def ranged(self, file: CorpusFile) -> RangedFile:
        if file.format in COLUMNAR:
            return RangedRows(file, self._limits, self.columnar(file))
        if file.format is Format.HTML:
            return RangedHtml(file, self._limits)
        return RangedBytes(file, self._limits)

    def sequential(self, file: CorpusFile) -> SequentialFile:
        match file.format:
            case Format.PARQUET | Format.ARROW:
                return StreamedRows(file, self._limits, self.columnar(file))
            case Format.CSV | Format.TSV:
                return DelimitedText(file, self._limits)
            case Format.JSON_ARRAY:
                return JsonArray(file, self._limits)
            case Format.HUB:
                return HubDataset(file, self._limits)
            case Format.WARC | Format.ZIP | Format.TAR:
                return PAGE_FILES[file.format](file, self._limits)
            case Format.HTML:
                return HtmlFile(file, self._limits)
            case Format.TEXT | Format.JSON_LINES:
                return StreamedBytes(file, self._limits)

    def carried_types(self, file: CorpusFile) -> list[pa.DataType] | None:
        """The types of the columns carried along; None if only reading tells."""
        if file.format is Format.HUB:
            return None
        if file.format in COLUMNAR:
            schema = self.columnar(file).schema
            return [schema.field(name).type for name in file.source.columns]
        return [pa.large_string() for _ in file.source.columns]
