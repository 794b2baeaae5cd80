"""The columns of a training batch.

In: rows of tokens with the lengths of their documents. Out: NumPy arrays of one row a line, padded to the
width. Held in memory: the batch, and up to a few batches' worth of memory that ended batches leave for the
next ones. A batch is yours for as long as you keep any of its arrays: its memory is used again only when the
last of them is gone.

`labels="shifted"` are int32: at each position the token that follows, for models that take labels as they are
(JAX, and loops that don't shift). `labels="hf"` are int64 and unshifted, for Hugging Face models, which shift
by themselves. Both are -100, which losses leave out, wherever the predicted token is padding or the first of
a document, and of conversations where nothing is learned: nothing is predicted from another document. The
slow version is `reference.reference_columns`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from krill import _native
from krill.dataset.rows import RowBatch, RowSource
from krill.errors import ConfigError, InputError

Batch = dict[str, npt.NDArray[Any]]
LabelKind = Literal["shifted", "hf"]

_LABELS = {None: 0, "shifted": 1, "hf": 2}
_WIDTHS = {"int32": 4, "int64": 8}
_NO_LABELS = np.empty(0, np.int32)


@dataclass(frozen=True)
class Columns:
    """Which columns a batch has. All are `ids_dtype`, but for labels, whose kind says what they are."""

    labels: LabelKind | None = "shifted"
    segment_ids: bool = False
    position_ids: bool = False
    attention_mask: bool = False
    pad_id: int = 0
    ids_dtype: Literal["int32", "int64"] = "int32"

    def __post_init__(self) -> None:
        if self.labels not in _LABELS:
            raise ConfigError(f"`labels` is `{self.labels}`", hint='give "shifted", "hf" or None')
        if self.ids_dtype not in _WIDTHS:
            raise ConfigError(f"`ids_dtype` is `{self.ids_dtype}`", hint='give "int32" or "int64"')
        if not 0 <= self.pad_id < 2**31:
            raise ConfigError(f"`pad_id` is `{self.pad_id}`", hint="give a token id; the default is 0")

    @property
    def names(self) -> tuple[str, ...]:
        """In the order that the kernel makes them in."""
        wanted = {
            "input_ids": True,
            "labels": self.labels is not None,
            "segment_ids": self.segment_ids,
            "position_ids": self.position_ids,
            "attention_mask": self.attention_mask,
        }
        return tuple(name for name, is_wanted in wanted.items() if is_wanted)

    @property
    def token_bytes(self) -> int:
        """What a token takes in all columns together."""
        labels = {None: 0, "shifted": 4, "hf": 8}[self.labels]
        return labels + _WIDTHS[self.ids_dtype] * (len(self.names) - (self.labels is not None))


class ColumnMaker:
    """Makes batches; any number of threads may. `spare_bytes` is what it keeps for the next ones."""

    def __init__(self, columns: Columns, width: int, spare_bytes: int) -> None:
        self.columns = columns
        self.width = width
        self._spare_bytes = spare_bytes
        self._pool = _native.BlockPool(spare_bytes)
        self._names = columns.names

    def read(self, source: RowSource, numbers: npt.NDArray[np.int64]) -> Batch:
        try:
            return self.make(source.read(numbers))
        except _native.BadRow as error:
            row, reason = error.args
            raise InputError(
                f"`{source.name}`: row {numbers[row]} {reason}",
                hint="the data was changed after it was written; `krill validate` finds all such rows",
            ) from None

    def make(self, rows: RowBatch) -> Batch:
        """One native pass over the rows, without the GIL; `_native.BadRow` if a row contradicts itself."""
        columns = self.columns
        made = _native.make_columns(
            self._pool,
            rows.tokens,
            _NO_LABELS if rows.labels is None else rows.labels,
            rows.offsets,
            rows.seq_lengths,
            rows.seq_offsets,
            self.width,
            columns.pad_id,
            columns.ids_dtype == "int64",
            _LABELS[columns.labels],
            columns.segment_ids,
            columns.position_ids,
            columns.attention_mask,
        )
        return dict(zip(self._names, made, strict=True))

    def __reduce__(self) -> tuple[type[ColumnMaker], tuple[Columns, int, int]]:
        return ColumnMaker, (self.columns, self.width, self._spare_bytes)
