"""What every step on text looks like, and the one way in which it leaves documents out.

In: documents and, for each row, 0 or the number of the reason why it is dropped. Out: the other rows, the
reasons counted, and the dropped rows gathered if they are wanted. Held in memory: what is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from krill.corpus.arrays import pick_rows
from krill.corpus.buffers import offsets_of, text_column
from krill.corpus.documents import Documents

STATISTIC = {b"krill": b"statistic"}
"""Metadata of a column that a step has measured; the other columns came with the input."""

TRAINED_SPANS = "trained_spans"
CONTROL_SPANS = "control_spans"
"""Columns of conversations, lists of places in bytes of the text as JSON: `[start, end]` of what is learned,
and `[start, end, level]` where a control token came from the row and stays text. Where they are, no later
step may change the text."""


class Step(Protocol):
    """One transformation of a batch of documents.

    A step holds its settings and nothing that changes, so that any thread may apply it to any batch in any
    order. Each row that it drops is counted in the result's `counts` under the reason's name, beside what
    was counted before.
    """

    def apply(self, documents: Documents) -> Documents: ...


@runtime_checkable
class Fingerprinted(Protocol):
    """A step whose result depends on more than the config says."""

    def fingerprint(self) -> str: ...


@runtime_checkable
class NamesReasons(Protocol):
    """A step that names why it drops documents, in the order in which it looks at them."""

    @property
    def reasons(self) -> Sequence[str]: ...


@runtime_checkable
class Releases(Protocol):
    """A step that has worker processes: they end until it is applied again."""

    def release(self) -> None: ...


def drop(documents: Documents, codes: NDArray[np.uint8], reasons: Sequence[str]) -> Documents:
    """The rows whose code is 0; a code of `k` drops a row for `reasons[k - 1]`."""
    numbers = np.bincount(codes, minlength=len(reasons) + 1)[1:].tolist()
    if not any(numbers):
        return documents
    counts = Counter(documents.counts)
    for reason, number in zip(reasons, numbers, strict=True):
        if number:
            counts[reason] += number
    rejected = documents.rejected
    if rejected is not None:
        rejected = (*rejected, rejected_rows(documents.batch, codes, reasons))
    return Documents(pick_rows(documents.batch, codes == 0), dict(counts), rejected)


def with_statistics(documents: Documents, columns: Sequence[tuple[str, pa.Array]]) -> Documents:
    """The documents with columns of what was measured, one value a row, after those they have.

    One that came with the input under the same name, as from an earlier run's output, is replaced.
    """
    batch = with_columns(documents.batch, columns, STATISTIC)
    return Documents(batch, documents.counts, documents.rejected)


def with_columns(
    batch: pa.RecordBatch,
    columns: Sequence[tuple[str, pa.Array]],
    metadata: Mapping[bytes, bytes] | None = None,
) -> pa.RecordBatch:
    """The batch with these columns at its end, in place of any that have their names."""
    names = {name for name, _ in columns}
    batch = batch.select([name for name in batch.schema.names if name not in names])
    schema = batch.schema
    for name, column in columns:
        schema = schema.append(pa.field(name, column.type, nullable=False, metadata=metadata))
    return pa.RecordBatch.from_arrays([*batch.columns, *(column for _, column in columns)], schema=schema)


def rejected_rows(batch: pa.RecordBatch, codes: NDArray[np.uint8], reasons: Sequence[str]) -> pa.RecordBatch:
    """The rows with a code, as they came but for what steps had measured, and a column `reason`."""
    given = [field.name for field in batch.schema if (field.metadata or {}).get(b"krill") != b"statistic"]
    rows = pick_rows(batch.select(given), codes != 0)
    names = [reason.encode() for reason in reasons]
    chosen = codes[codes != 0] - 1
    lengths = np.array([len(name) for name in names], np.int64)[chosen]
    data = np.frombuffer(b"".join(names[code] for code in chosen), np.uint8)
    schema = rows.schema.append(pa.field("reason", pa.large_string(), nullable=False))
    return pa.RecordBatch.from_arrays([*rows.columns, text_column(offsets_of(lengths), data)], schema=schema)
