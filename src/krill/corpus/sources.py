"""From an entry of `datasets:` to its files, checked as far as can be without reading them.

In: the entry. Out: its files in order, their formats known, the columns to carry along named, a slice
resolved; a `ConfigError` or `InputError` for what can't be read so. Held in memory: the table of files, and
up to a document's worth of the file that names the columns.

`columns: "*"` stands for the columns of the first file that has any: a table's schema, the header of a CSV
file, the keys of the first JSON object. Of a sparse file, as an incomplete download leaves it, only the file
system is asked, nothing is read: a few microseconds a file, and none for files that are too small for such a
hole.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from krill.budget import format_size
from krill.corpus.delimited import DelimitedText
from krill.corpus.discovery import discover
from krill.corpus.documents import MAX_FILE_BYTES
from krill.corpus.file_table import FileTable
from krill.corpus.formats import COLUMNAR, PAGES, CorpusFile, DatasetSource, Format
from krill.corpus.hub import HubDataset
from krill.corpus.opening import Openers
from krill.corpus.pages import PAGE_COLUMNS
from krill.corpus.readers import Limits, missing_column
from krill.corpus.slices import sliced
from krill.corpus.splits import parse_split
from krill.corpus.streams import CHUNK_BYTES, DecodedStream, input_errors
from krill.errors import ConfigError, InputError

ALL = ("*",)
_OWN = ("text", "position")

# Cutting text takes time by the length of what it is cut at, and no text is cut at a page.
_LONGEST_SEPARATOR: Final = 1000

LARGEST_HOLE = 10 * 10**9
"""Bytes of zeros in a row that are read as they are; no text has as many."""

# Ranges of data that are looked at: files have few, unless they were written at random.
_MOST_DATA_RANGES = 1000


def source_files(
    source: DatasetSource,
    dataset: int,
    openers: Openers,
    limits: Limits,
    exclude: Sequence[Path],
    *,
    pages: bool,
) -> Sequence[CorpusFile]:
    """Files of pages are refused unless somebody extracts their text: `pages`."""
    _check_columns(source)
    _check_separator(source, limits)
    split = parse_split(source.split)
    files = FileTable()
    for file in discover(source, dataset, split, exclude):
        if file.bytes > MAX_FILE_BYTES:
            raise InputError(f"`{file.path}` is larger than {MAX_FILE_BYTES:,} bytes", hint="split it")
        refuse_sparse(file)
        _check_kind(file, pages=pages)
        files.append(_as_json_lines(file))
    if not any(file.bytes or file.remote for file in files):
        raise InputError(f"`{source.path}` is empty", hint="there is nothing in it to read: check the path")
    if source.columns == ALL:
        names = _all_columns(files.with_source(replace(source, columns=())), openers, limits)
        files = files.with_source(replace(source, columns=names))
    if files[0].source.columns:
        _check_carried(files, openers)
    return sliced(files, split, openers, limits) if split.sliced else files


def _check_kind(file: CorpusFile, *, pages: bool) -> None:
    if file.source.row_columns and file.format in (Format.TEXT, *PAGES):
        kind = "a page" if file.format in PAGES else "plain text"
        raise InputError(
            f"`{file.path}` is {kind}, and a conversation is a row of JSON or of a table",
            hint="set `type: completion`, or convert it to JSON lines",
        )
    if file.format in PAGES and not pages:
        raise InputError(
            f"`{file.path}` holds web pages, whose text only `krill preprocess` extracts",
            hint="prepare it with `preprocess.output: text`, and give that folder here",
        )


def _check_columns(source: DatasetSource) -> None:
    if "*" in source.columns and source.columns != ALL:
        raise ConfigError(f'`columns` of `{source.path}` names "*", which is all of them, and others besides')
    for name in source.columns:
        if name == source.text_column:
            raise ConfigError(f"the column `{name}` of `{source.path}` is its text: it is carried anyway")
        if name in _OWN:
            raise ConfigError(
                f"the column `{name}` of `{source.path}` can't be carried: the name is Krill's own"
            )
    if len(set(source.columns)) < len(source.columns):
        raise ConfigError(f"a column of `{source.path}` is named twice in `columns:`")


def _check_separator(source: DatasetSource, limits: Limits) -> None:
    """Of plain text; where the source has none, it is the first special token."""
    separator = limits.default_separator if source.separator is None else source.separator
    size = len(separator.encode("utf-8", "surrogatepass"))
    if size > _LONGEST_SEPARATOR:
        key = "tokenizer.special_tokens" if source.separator is None else "separator"
        raise ConfigError(
            f"the separator of `{source.path}` (`{key}`) has {size:,} bytes: at most {_LONGEST_SEPARATOR:,}",
            hint="set `separator:` to a shorter text, or to an empty one if each file is one document",
        )


def _as_json_lines(file: CorpusFile) -> CorpusFile:
    """A `.json` file that does not begin an array holds JSON lines."""
    if file.format is not Format.JSON_ARRAY:
        return file
    with DecodedStream(file) as stream:
        for _, head in stream.chunks():
            head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
            if head:
                return replace(file, format=Format.JSON_LINES) if head.startswith(b"{") else file
    return replace(file, format=Format.JSON_LINES)


def _all_columns(files: Sequence[CorpusFile], openers: Openers, limits: Limits) -> tuple[str, ...]:
    """Every column but the text, and but those whose names are Krill's own."""
    for file in files:
        names = _column_names(file, openers, limits)
        if names is not None:
            taken = {file.source.text_column, *_OWN}
            return tuple(name for name in dict.fromkeys(names) if name not in taken)
    return ()


def _column_names(file: CorpusFile, openers: Openers, limits: Limits) -> Sequence[str] | None:
    """The columns of one file; None if it is empty."""
    if file.format in COLUMNAR:
        return list(openers.columnar(file).schema.names)
    if file.format is Format.HUB:
        return HubDataset(file, limits).columns()
    if file.format is Format.TEXT:
        return ()
    if file.format in PAGES:
        return PAGE_COLUMNS
    if file.format in (Format.CSV, Format.TSV):
        return DelimitedText(file, limits).names()
    head = _head(file, limits)
    if not head.strip():
        return None
    return _json_keys(file, head.lstrip().removeprefix("[") if file.format is Format.JSON_ARRAY else head)


def _head(file: CorpusFile, limits: Limits) -> str:
    """The beginning of a file: a record of the largest size is in it."""
    read = b""
    with DecodedStream(file) as stream:
        while len(read) <= limits.max_document_bytes and (chunk := stream.read(CHUNK_BYTES)):
            read += chunk
    return read.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")


def _json_keys(file: CorpusFile, head: str) -> list[str]:
    try:
        # Only the keys are wanted: a million numbers need not be a million objects.
        decoder = json.JSONDecoder(parse_float=lambda _: None, parse_int=lambda _: None)
        record, _ = decoder.raw_decode(head.lstrip())
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise InputError(
            f"the first record of `{file.path}` is not a JSON object, so its columns are unknown",
            hint='name them in `columns:` instead of "*"',
        )
    return list(record)


def _check_carried(files: Sequence[CorpusFile], openers: Openers) -> None:
    """Columns are carried in the type they have, so all files of a source have to agree on it."""
    first: tuple[CorpusFile, list[Any]] | None = None
    for file in files:
        if file.format is Format.TEXT:
            raise InputError(
                f"`{file.path}` is plain text: it has no columns to carry", hint="remove `columns:`"
            )
        if file.format in PAGES:
            for name in file.source.columns:
                if name not in PAGE_COLUMNS:
                    raise missing_column(file, name, PAGE_COLUMNS)
        types = openers.carried_types(file)
        if types is None:
            continue
        if first is None:
            first = file, types
        for name, kind, other in zip(file.source.columns, types, first[1], strict=True):
            if kind != other:
                raise differing_types(name, first[0], other, file, kind)


def differing_types(
    name: str, first: CorpusFile, kind: pa.DataType, file: CorpusFile, other: pa.DataType
) -> InputError:
    return InputError(
        f"the column `{name}` is `{kind}` in `{first.path}`, but `{other}` in `{file.path}`",
        hint="make them the same, or take it out of `columns:`",
    )


def refuse_sparse(file: CorpusFile) -> None:
    """An InputError if more than `LARGEST_HOLE` in a row of a local file was never written.

    Other formats than text, JSON and CSV, and compressed files, are damaged by a hole and say so themselves.
    """
    size = file.bytes
    if file.remote or size <= LARGEST_HOLE or not hasattr(os, "SEEK_DATA"):
        return
    if file.format in COLUMNAR or file.compression is not None:
        return
    with input_errors(file):
        descriptor = os.open(file.location, os.O_RDONLY)
        try:
            start = _large_hole(descriptor, size)
        finally:
            os.close(descriptor)
    if start is not None:
        raise InputError(
            f"`{file.path}` has {format_size(size)}, but from byte {start:,} on more than"
            f" {format_size(LARGEST_HOLE)} in a row were never written: the file has a hole",
            hint="get the file again, its copy or download is not complete; if zeros are meant, write them by"
            " `cp --sparse=never`",
        )


def _large_hole(descriptor: int, size: int) -> int | None:
    hole = 0
    for _ in range(_MOST_DATA_RANGES):
        try:
            data = os.lseek(descriptor, hole, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:  # a file system that does not tell
                return None
            data = size  # nothing but a hole
        if data - hole > LARGEST_HOLE:
            return hole
        if data >= size:
            return None
        hole = os.lseek(descriptor, data, os.SEEK_HOLE)
    return None
