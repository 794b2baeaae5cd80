"""Rows of tables as JSON, for sources whose documents are whole rows: conversations.

In: batches of a Parquet, Arrow, CSV or hub dataset. Out: the same rows, their columns as one JSON object
each, as a line of JSON would have them; nulls inside stay nulls, and bytes, as of images, become null. Held
in memory: the Python objects of a few rows, and the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa

from krill.corpus.buffers import offsets_of, text_column
from krill.corpus.formats import CorpusFile, DatasetSource
from krill.errors import InputError

ROW: Final = "(the row)"
"""The `text_column` of a source whose documents are whole rows, which no table has."""
# Rows that are Python objects at a time: a conversation takes about ten times its text so.
_ROWS_AT_ONCE: Final = 16
_NAMES_SHOWN: Final = 20


def row_names(file: CorpusFile, names: Sequence[str]) -> list[str]:
    """Which of a file's columns make up its rows."""
    known = set(names)
    found = [name for name in file.source.row_columns if name in known]
    if not found:
        there = ", ".join(f"`{name}`" for name in names[:_NAMES_SHOWN])
        raise InputError(
            f"`{file.path}` has no column of conversations; there are: {there}",
            hint="set `field_messages:` to the one that holds the messages",
        )
    return found


def json_rows(source: DatasetSource, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with their JSON in the place of the columns that make it up, if they don't have it yet."""
    if source.text_column in rows.schema.names:
        return rows
    made_of = rows.select([name for name in rows.schema.names if name in set(source.row_columns)])
    texts: list[bytes] = []
    for first in range(0, rows.num_rows, _ROWS_AT_ONCE):
        texts += map(_as_json, made_of.slice(first, _ROWS_AT_ONCE).to_pylist())
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    text = text_column(offsets_of(sizes), np.frombuffer(b"".join(texts), np.uint8))
    carried = [rows.column(name) for name in source.columns]
    return pa.RecordBatch.from_arrays([text, *carried], names=[source.text_column, *source.columns])


def _as_json(row: dict[str, Any]) -> bytes:
    return orjson.dumps(row, default=_other, option=orjson.OPT_NON_STR_KEYS)


def _other(value: Any) -> Any:
    """What JSON has no word for: maps come as pairs, decimals and the like as text."""
    return None if isinstance(value, bytes) else str(value)
