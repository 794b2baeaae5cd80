"""Which format and compression a file has, by its name, and what that means for reading it.

Nothing is held in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from krill.corpus.documents import position_of
from krill.errors import InputError


class Format(StrEnum):
    """How records lie in a file, once it is decompressed."""

    TEXT = "text"
    JSON_LINES = "jsonl"
    JSON_ARRAY = "json"
    CSV = "csv"
    TSV = "tsv"
    PARQUET = "parquet"
    ARROW = "arrow"
    WARC = "warc"
    HTML = "html"
    ZIP = "zip"
    TAR = "tar"
    HUB = "hub"


class Compression(StrEnum):
    """How a byte format may be compressed."""

    GZIP = "gzip"
    ZSTD = "zstd"
    BZ2 = "bz2"
    XZ = "xz"


FORMATS = {
    ".txt": Format.TEXT,
    ".text": Format.TEXT,
    ".md": Format.TEXT,
    ".jsonl": Format.JSON_LINES,
    ".ndjson": Format.JSON_LINES,
    ".json": Format.JSON_ARRAY,
    ".csv": Format.CSV,
    ".tsv": Format.TSV,
    ".parquet": Format.PARQUET,
    ".arrow": Format.ARROW,
    ".arrows": Format.ARROW,
    ".feather": Format.ARROW,
    ".ipc": Format.ARROW,
    ".warc": Format.WARC,
    ".wet": Format.WARC,
    ".wat": Format.WARC,
    ".html": Format.HTML,
    ".htm": Format.HTML,
    ".xhtml": Format.HTML,
    ".zip": Format.ZIP,
    ".tar": Format.TAR,
}

COMPRESSIONS = {
    ".gz": Compression.GZIP,
    ".zst": Compression.ZSTD,
    ".bz2": Compression.BZ2,
    ".xz": Compression.XZ,
}

ARCHIVES = frozenset({Format.ZIP, Format.TAR})
"""Formats whose documents are the pages among their members."""
PAGES = frozenset({Format.WARC, Format.HTML, *ARCHIVES})
"""Formats whose documents are pages, of which the text has to be extracted."""
FRAMED = frozenset({Format.WARC, Format.TAR})
"""Formats of which compressed members, or frames, are read one by one."""
# Formats whose files have an index or a layout of their own, compressed inside if at all.
COLUMNAR = frozenset({Format.PARQUET, Format.ARROW})
# Formats that are read from any record on, where they are not compressed.
_ANY_PLACE = frozenset({Format.TEXT, Format.JSON_LINES, Format.PARQUET, Format.ARROW, Format.HTML})
# Formats of which more than one place is looked at, so that a server has to give ranges.
SEEKING = COLUMNAR | {Format.ZIP}
# A compressed file is taken to hold this many times its size.
_EXPANSION = 4


@dataclass(frozen=True, slots=True)
class DatasetSource:
    """One entry of `datasets:` in the config."""

    path: str
    """A file, glob, folder (also a `save_to_disk` or Krill output folder), URL, or `org/name[:config]`."""
    split: str = "train"
    """A split, or a slice of it as in Hugging Face datasets: `train[:10%]`, `train[1000:2000]`."""
    text_column: str = "text"
    """Where the text is, in formats that have columns."""
    separator: str | None = None
    """What stands between the documents of a plain text file; empty = the file is one document; None = the
    corpus' default."""
    columns: tuple[str, ...] = ()
    """Other columns to carry along."""
    row_columns: tuple[str, ...] = ()
    """Where a document is a whole row, as JSON: the columns of a table that it has, as far as they are there.
    A record of JSON is taken as it is."""
    format: Format | None = None
    """Of all its files, whatever they are called; None = by their names."""
    paths_file: str | None = None
    """A file that names those to read, one a line, below `path`."""
    max_page_bytes: int = 10**7
    """Larger pages are dropped without being held."""


@dataclass(frozen=True, slots=True)
class CorpusFile:
    """One file of the corpus, and the range of it that is wanted."""

    ordinal: int
    """Its place in the order of input, over all sources."""
    path: str
    """As shown to users: as configured, relative if it was."""
    location: str
    """What to open: the same path with `~` expanded, a URL, or a hub id."""
    format: Format
    compression: Compression | None
    bytes: int
    """On disk; 0 if not known before reading."""
    source: DatasetSource
    dataset: int
    """Which entry of `datasets:` it belongs to."""
    remote: bool = False
    start: int = 0
    """The first wanted record: its decoded byte offset or row."""
    stop: int | None = None
    """Where to stop, likewise; None = at the end."""
    version: str = ""
    """ETag, checksum or date of a remote file, where its server gives one."""

    @property
    def sequential(self) -> bool:
        """Whether the file can only be read from its beginning."""
        if self.remote or self.compression is not None:
            return True
        return self.format not in _ANY_PLACE

    @property
    def decoded_bytes(self) -> int:
        """About how much it holds, estimated before it is read."""
        return self.bytes * (_EXPANSION if self.compression or self.format is Format.ZIP else 1)

    def position(self, offset: int) -> int:
        """The position of the record at a decoded byte offset or row of this file."""
        return position_of(self.ordinal, offset)


def recognise(name: str) -> tuple[Format, Compression | None] | None:
    """Format and compression by a file's name; None if its extension is unknown."""
    suffix = suffix_of(name)
    if suffix == ".tgz":
        return Format.TAR, Compression.GZIP
    compression = COMPRESSIONS.get(suffix)
    if compression is not None:
        suffix = suffix_of(name[: -len(suffix)])
    known = FORMATS.get(suffix)
    if known is None:
        return None
    if known in SEEKING and compression is not None:
        raise InputError(
            f"`{name}` is compressed as a whole (`{compression}`), which its format can't be read from",
            hint="decompress it; Parquet, Arrow and zip files are compressed inside",
        )
    return known, compression


def given(name: str, format: Format) -> tuple[Format, Compression | None]:
    """A file whose format the config states; its name tells how it is compressed, and whether it is an
    archive of pages."""
    if format is Format.HTML and (known := recognise(name)) is not None and known[0] in ARCHIVES:
        return known
    return format, None if format in SEEKING else COMPRESSIONS.get(suffix_of(name))


def as_plain_text(name: str) -> tuple[Format, Compression | None]:
    """What a file of no known extension is taken for when it was asked for by name or glob."""
    return Format.TEXT, COMPRESSIONS.get(suffix_of(name))


def suffix_of(name: str) -> str:
    """As `PurePath(name).suffix.lower()`, for tens of thousands of files."""
    base = name.rpartition("/")[2]
    dot = base.rfind(".")
    return base[dot:].lower() if 0 < dot < len(base) - 1 else ""


def known_extensions() -> str:
    return f"{', '.join(FORMATS)}, byte formats also with {', '.join(COMPRESSIONS)}"
