"""JSON lines: a row, a document's ids, a document's text or a kept document with its columns on each line.

In: rows, documents of ids, or records. Out: one file, UTF-8, one JSON object a line. Held in memory: the
lines of a batch, twice while they are joined.

Lines are made by C functions that `map` calls one after the other: for ids and records the interpreter runs
no code of its own for each of them. Only a tokenizer's `decode` is called once for each document.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice, repeat
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from krill.dataset.export.documents import DocumentBatch
from krill.dataset.export.sink import Content
from krill.dataset.rows import RowBatch

Decode = Callable[[npt.NDArray[Any]], str]

# Lines that are made and joined at once: each takes up to 9 kB of the heap until then.
_LINES_AT_ONCE: Final = 256


def row_lines(batch: RowBatch) -> Content:
    """`{"input_ids": [...], "seq_lengths": [...]}` of each row, of conversations with `labels`."""
    ids = _arrays(batch.tokens, batch.offsets[:-1], batch.offsets[1:])
    lengths = _arrays(batch.seq_lengths, batch.seq_offsets[:-1], batch.seq_offsets[1:])
    parts = [repeat(b'{"input_ids":'), map(_json, ids), repeat(b',"seq_lengths":'), map(_json, lengths)]
    if batch.labels is not None:
        labels = _arrays(batch.labels, batch.offsets[:-1], batch.offsets[1:])
        parts += [repeat(b',"labels":'), map(_json, labels)]
    return Content(_joined(batch.rows, *parts), {"lines": batch.rows, "tokens": len(batch.tokens)})


def id_lines(batch: DocumentBatch) -> Content:
    """`{"input_ids": [...]}` of each document, EOS included."""
    count = len(batch.offsets) - 1
    ids = _arrays(batch.tokens, batch.offsets[:-1], batch.offsets[1:])
    lines = _joined(count, repeat(b'{"input_ids":'), map(_json, ids))
    return Content(lines, {"lines": count, "tokens": len(batch.tokens)})


def text_lines(batch: DocumentBatch, decode: Decode, bos_id: int | None, eos_id: int | None) -> Content:
    """`{"text": "..."}` of each document, without the BOS and EOS around it."""
    begins, ends = batch.offsets[:-1], batch.offsets[1:]
    if eos_id is not None:
        ends = ends - (batch.tokens[ends - 1] == eos_id)
    if bos_id is not None:
        begins = begins + (batch.tokens[begins] == bos_id)
    texts = map(decode, _arrays(batch.tokens, begins, ends))
    count = len(begins)
    lines = _joined(count, repeat(b'{"text":'), map(_json, texts))
    return Content(lines, {"lines": count, "tokens": len(batch.tokens)})


def record_lines(batch: pa.RecordBatch) -> Content:
    """All columns of each record; bytes are written as base64, and what JSON has no form for as text."""
    dumps = partial(orjson.dumps, default=_as_text, option=orjson.OPT_APPEND_NEWLINE)
    slices = (batch.slice(start, _LINES_AT_ONCE) for start in range(0, batch.num_rows, _LINES_AT_ONCE))
    lines = [b"".join(map(dumps, rows.to_pylist())) for rows in slices]
    return Content(lines, {"lines": batch.num_rows})


_json = partial(orjson.dumps, option=orjson.OPT_SERIALIZE_NUMPY)


def _arrays(
    values: npt.NDArray[Any], begins: npt.NDArray[Any], ends: npt.NDArray[Any]
) -> Iterator[npt.NDArray[Any]]:
    starts = range(0, len(begins), _LINES_AT_ONCE)
    return chain.from_iterable(
        map(values.__getitem__, map(slice, *_places(begins, ends, start))) for start in starts
    )


def _places(begins: npt.NDArray[Any], ends: npt.NDArray[Any], start: int) -> tuple[list[int], list[int]]:
    """Of some thousand values, as Python's numbers: of a batch of short rows, those would be most of it."""
    begins, ends = (places[start : start + _LINES_AT_ONCE] for places in (begins, ends))
    return begins.tolist(), np.maximum(begins, ends).tolist()


def _joined(count: int, *parts: Iterable[bytes]) -> list[bytes]:
    """Lines whose parts come one of each at a time, some without end; some thousand are joined at once."""
    pieces = chain.from_iterable(zip(*parts, repeat(b"}\n")))
    per_line = len(parts) + 1
    starts = range(0, count, _LINES_AT_ONCE)
    return [b"".join(islice(pieces, per_line * min(_LINES_AT_ONCE, count - start))) for start in starts]


def _as_text(value: object) -> str:
    return b64encode(value).decode("ascii") if isinstance(value, bytes) else str(value)
