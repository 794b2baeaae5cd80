"""`columns: "*"`: which columns a source has besides its text.

In: the source's files. Out: the names of the first one that says: a table's schema, the header of a CSV file,
the keys of the first JSON object. Held in memory: up to a document's worth of the file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from krill.corpus.delimited import DelimitedText
from krill.corpus.formats import COLUMNAR, CorpusFile, Format
from krill.corpus.hub import HubDataset
from krill.corpus.opening import Openers
from krill.corpus.readers import Limits
from krill.corpus.streams import CHUNK_BYTES, DecodedStream
from krill.errors import InputError

ALL = ("*",)
_OWN = ("text", "position")


def all_columns(files: Sequence[CorpusFile], openers: Openers, limits: Limits) -> tuple[str, ...]:
    """Every column but the text, and but those whose names are Krill's own."""
    for file in files:
        names = _names(file, openers, limits)
        if names is not None:
            taken = {file.source.text_column, *_OWN}
            return tuple(name for name in dict.fromkeys(names) if name not in taken)
    return ()


def _names(file: CorpusFile, openers: Openers, limits: Limits) -> Sequence[str] | None:
    """The columns of one file; None if it is empty."""
    if file.format in COLUMNAR:
        return list(openers.columnar(file).schema.names)
    if file.format is Format.HUB:
        return HubDataset(file, limits).columns()
    if file.format is Format.TEXT:
        return ()
    if file.format in (Format.CSV, Format.TSV):
        return DelimitedText(file, limits).names()
    head = _head(file, limits)
    if not head.strip():
        return None
    return _keys(file, head.lstrip().removeprefix("[") if file.format is Format.JSON_ARRAY else head)


def _head(file: CorpusFile, limits: Limits) -> str:
    """The beginning of a file: a record of the largest size is in it."""
    read = b""
    with DecodedStream(file) as stream:
        while len(read) <= limits.max_document_bytes and (chunk := stream.read(CHUNK_BYTES)):
            read += chunk
    return read.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")


def _left_out(_: str) -> None:
    """No value."""


def _keys(file: CorpusFile, head: str) -> list[str]:
    try:
        # Only the keys are wanted: a million numbers need not be a million objects.
        decoder = json.JSONDecoder(parse_float=_left_out, parse_int=_left_out)
        record, _ = decoder.raw_decode(head.lstrip())
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise InputError(
            f"the first record of `{file.path}` is no JSON object, so there is no telling its columns",
            hint='name them in `columns:` instead of "*"',
        )
    return list(record)
