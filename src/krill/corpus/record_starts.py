"""Where the records of a byte format begin, found without gathering text: for slices like `train[:10%]`.

Held in memory: a chunk, and the offsets of the records in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from krill import _native
from krill.corpus.delimited import DelimitedText
from krill.corpus.formats import CorpusFile, Format
from krill.corpus.readers import Limits, malformed_record, separator_of
from krill.corpus.streams import CHUNK_BYTES, DecodedStream

if TYPE_CHECKING:
    from numpy.typing import NDArray

_INK = np.ones(256, np.bool_)
_INK[list(b" \t\r\n")] = False


def record_starts(file: CorpusFile, limits: Limits) -> Iterator[NDArray[np.int64]]:
    """Decoded offsets of all records, in order, in pieces. Malformed ones count too, except in an array."""
    if file.format is Format.JSON_LINES:
        return _line_starts(file)
    if file.format is Format.JSON_ARRAY:
        return _element_starts(file, limits)
    if file.format in (Format.CSV, Format.TSV):
        return DelimitedText(file, limits).row_starts()
    return _piece_starts(file, separator_of(file, limits))


def _chunks(file: CorpusFile) -> Iterator[tuple[int, bytes]]:
    with DecodedStream(file) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield stream.offset - len(chunk), chunk


def _line_starts(file: CorpusFile) -> Iterator[NDArray[np.int64]]:
    """Of lines that are not blank."""
    open_line, open_ink = 0, False
    for offset, chunk in _chunks(file):
        data = np.frombuffer(chunk, np.uint8)
        ends = np.flatnonzero(data == ord("\n")) + 1
        lines = np.concatenate([np.zeros(1, np.int64), ends])
        if lines[-1] == len(data):
            lines = lines[:-1]
        ink = np.logical_or.reduceat(_INK[data], lines)
        ink[0] |= open_ink
        starts = lines + offset
        starts[0] = open_line
        yield starts[: len(ends)][ink[: len(ends)]]
        if len(lines) > len(ends):
            open_line, open_ink = int(starts[-1]), bool(ink[-1])
        else:
            open_line, open_ink = offset + len(data), False
    if open_ink:
        yield np.array([open_line], np.int64)


def _piece_starts(file: CorpusFile, separator: bytes) -> Iterator[NDArray[np.int64]]:
    """Of what stands between separators and is not empty."""
    pattern = re.compile(re.escape(separator))
    piece = window_start = 0
    window = b""
    for _, chunk in _chunks(file):
        window += chunk
        if not separator:  # the file is one piece
            break
        starts = []
        searched = max(0, len(window) - len(separator) + 1)
        for match in pattern.finditer(window):
            if window_start + match.start() > piece:
                starts.append(piece)
            piece = window_start + match.end()
            searched = max(searched, match.end())
        yield np.array(starts, np.int64)
        window = window[searched:]
        window_start += searched
    if window_start + len(window) > piece:
        yield np.array([piece], np.int64)


def _element_starts(file: CorpusFile, limits: Limits) -> Iterator[NDArray[np.int64]]:
    never = b"\0"  # no record has this key, so every one is a row without text
    reader = _native.JsonReader(never, [], limits.max_document_bytes, False, limits.skip_malformed, True)
    try:
        for offset, chunk in _chunks(file):
            reader.feed(chunk, offset)
            yield reader.take()[3].astype(np.int64)
        reader.finish()
    except _native.MalformedRecord as error:
        raise malformed_record(file, error) from None
    yield reader.take()[3].astype(np.int64)
