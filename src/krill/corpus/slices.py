"""A slice of a split, such as `train[:10%]`, as bounds of each file: resolved once, before reading.

Parquet and Arrow files say how many rows they have; other files are read through once to find where their
records begin, without gathering text, no further than the slice's end if that is given in records. Held in
memory: a count per file; while a file is read, a chunk and the offsets of the records in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from krill import _native
from krill.corpus.delimited import DelimitedText
from krill.corpus.formats import COLUMNAR, CorpusFile, Format
from krill.corpus.hub import HubDataset
from krill.corpus.opening import PAGE_FILES, Openers
from krill.corpus.readers import Limits, malformed_records, separator_of
from krill.corpus.splits import SplitSlice
from krill.corpus.streams import DecodedStream, read_in_order
from krill.errors import InputError

_INK = np.ones(256, np.bool_)
_INK[list(b" \t\r\n")] = False


def sliced(
    files: Sequence[CorpusFile], split: SplitSlice, openers: Openers, limits: Limits
) -> list[CorpusFile]:
    """The files of a source that have records in the slice, bounded to them."""
    if split.needs_total:
        counts = [_count(file, openers, limits) for file in files]
        first, end = split.bounds(sum(counts))
    else:
        counts = []
        first, end = split.start or 0, split.stop or 0
    wanted = []
    passed = 0
    for index, file in enumerate(files):
        if passed >= end:
            break
        # The hub may not know; there is but one such file in a source, so the slice is its own bound.
        unknown = file.format is Format.HUB and not counts
        count = end if unknown else counts[index] if counts else _count(file, openers, limits)
        start, stop = max(first - passed, 0), min(end - passed, count)
        if start < stop:
            begin = _locate(file, start, limits) if start else 0
            behind = None if stop == count and not unknown else _locate(file, stop, limits)
            wanted.append(replace(file, start=begin, stop=behind))
        passed += count
    if not wanted:
        source = files[0].source
        raise InputError(
            f"the split `{source.split}` of `{source.path}` has no records",
            hint="give `split:` a start below its end and below the number of records",
        )
    return wanted


def _count(file: CorpusFile, openers: Openers, limits: Limits) -> int:
    """How many records a file has; a pass over it, unless it says so itself."""
    if file.format in COLUMNAR:
        return int(openers.columnar(file).chunks.rows[-1])
    if file.format is Format.HUB:
        return HubDataset(file, limits).rows()
    return sum(len(starts) for starts in record_starts(file, limits))


def _locate(file: CorpusFile, record: int, limits: Limits) -> int:
    """The row or decoded offset of a record, given by its number."""
    if file.format in COLUMNAR or file.format is Format.HUB:
        return record
    passed = 0
    for starts in record_starts(file, limits):
        if record < passed + len(starts):
            return int(starts[record - passed])
        passed += len(starts)
    raise IndexError(record)


def record_starts(file: CorpusFile, limits: Limits) -> Iterator[NDArray[np.int64]]:
    """Decoded offsets of all records, in order, in pieces. Malformed ones count too, except in an array."""
    if file.format is Format.JSON_LINES:
        starts = _line_starts(file)
    elif file.format is Format.JSON_ARRAY:
        starts = _element_starts(file, limits)
    elif file.format in (Format.CSV, Format.TSV):
        starts = DelimitedText(file, limits).row_starts()
    elif file.format in PAGE_FILES:
        starts = PAGE_FILES[file.format](file, limits).record_starts()
    elif file.format is Format.HTML:
        starts = iter([np.zeros(1, np.int64)])
    else:
        starts = _document_starts(file, separator_of(file, limits))
    return read_in_order(file, starts)


def _chunks(file: CorpusFile) -> Iterator[tuple[int, bytes]]:
    with DecodedStream(file) as stream:
        yield from stream.chunks()


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


def _document_starts(file: CorpusFile, separator: bytes) -> Iterator[NDArray[np.int64]]:
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
    with malformed_records(file):
        for offset, chunk in _chunks(file):
            reader.feed(chunk, offset)
            yield reader.take()[3].astype(np.int64)
        reader.finish()
    yield reader.take()[3].astype(np.int64)
