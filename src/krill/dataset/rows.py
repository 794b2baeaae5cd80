"""Rows in memory: flat arrays with offsets, the same for fixed and for variable rows; and rows by number.

In: row numbers, or what is used as an index. Out: a `RowBatch`, or the dictionary of arrays that users see.
Held in memory: the rows asked for.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, SupportsIndex, overload

import numpy as np
import numpy.typing as npt

RowKey = SupportsIndex | slice | Sequence[int] | npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class RowBatch:
    """Row `i` is `tokens[offsets[i]:offsets[i + 1]]`, and the documents' pieces in it have the lengths
    `seq_lengths[seq_offsets[i]:seq_offsets[i + 1]]`, which add up to the row's. Rows of conversations have a
    label for each token: the token itself, or -100 where nothing is learned."""

    tokens: npt.NDArray[Any]
    offsets: npt.NDArray[np.int64]
    seq_lengths: npt.NDArray[np.int32]
    seq_offsets: npt.NDArray[np.int32]
    labels: npt.NDArray[np.int32] | None = None

    @property
    def rows(self) -> int:
        return len(self.offsets) - 1

    def learned(self) -> npt.NDArray[np.int32]:
        """The labels; where none are stored, all tokens but the first of each document."""
        if self.labels is not None:
            return self.labels
        labels = self.tokens.astype(np.int32)
        labels[np.cumsum(self.seq_lengths) - self.seq_lengths] = -100
        return labels

    def slice(self, first: int, end: int) -> RowBatch:
        """Some of the rows, without copying; their offsets don't begin at 0."""
        offsets, seq_offsets = self.offsets[first : end + 1], self.seq_offsets[first : end + 1]
        return RowBatch(self.tokens, offsets, self.seq_lengths, seq_offsets, self.labels)

    def compact(self) -> RowBatch:
        """The same rows with offsets that begin at 0, over exactly what belongs to them."""
        own = slice(self.offsets[0], self.offsets[-1])
        return RowBatch(
            self.tokens[own],
            self.offsets - self.offsets[0],
            self.seq_lengths[self.seq_offsets[0] : self.seq_offsets[-1]],
            self.seq_offsets - self.seq_offsets[0],
            None if self.labels is None else self.labels[own],
        )


class RowSource(Protocol):
    """Rows of tokens in storage, in a fixed order.

    A source is safe to use from several threads, works on after a fork, and can be pickled: a spawned worker
    opens the files again instead of inheriting what was read.
    """

    @property
    def name(self) -> str:
        """The path or URL, for messages."""

    @property
    def fingerprint(self) -> str:
        """A hash of everything that decides the rows; states are bound to it."""

    @property
    def rows(self) -> int:
        """How many rows there are."""

    @property
    def tokens(self) -> int:
        """How many tokens all rows have together; an estimate where counting would read them all."""

    @property
    def width(self) -> int:
        """The most tokens that a row can have."""

    @property
    def fixed(self) -> bool:
        """Whether every row has exactly `width` tokens."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the tokens."""

    @property
    def block_rows(self) -> int:
        """Rows that lie together on disk, such as a record batch or a row group: shuffling keeps them near
        each other."""

    @property
    def held_bytes(self) -> int:
        """The most that reading holds in memory besides what it returns, for the plan."""

    def read(self, rows: npt.NDArray[np.int64]) -> RowBatch:
        """Rows in the order asked for, each below `rows`, repeats allowed; the caller owns them."""

    def close(self) -> None:
        """Close files and drop caches; the source can still be used and opens them again."""


class ArrayList(Sequence[npt.NDArray[Any]]):
    """`arrays[i]` is `values[offsets[i]:offsets[i + 1]]`; a slice is a list.

    Each array is made when it is looked at: making all of a batch took as long as reading its rows.
    """

    __slots__ = ("_offsets", "_values")

    def __init__(self, values: npt.NDArray[Any], offsets: npt.NDArray[Any]) -> None:
        self._values = values
        self._offsets = offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, key: SupportsIndex) -> npt.NDArray[Any]: ...
    @overload
    def __getitem__(self, key: slice) -> list[npt.NDArray[Any]]: ...
    def __getitem__(self, key: SupportsIndex | slice) -> Any:
        if isinstance(key, slice):
            return [self[index] for index in range(*key.indices(len(self)))]
        index = operator.index(key)
        if not -len(self) <= index < len(self):
            raise IndexError(f"there are {len(self)} arrays, and none at {index}")
        index %= len(self)
        return self._values[self._offsets[index] : self._offsets[index + 1]]

    def __repr__(self) -> str:
        return repr(list(self))


def select_rows(source: RowSource, key: RowKey) -> dict[str, Any]:
    """`source[key]`: one row as `{"input_ids": array, "seq_lengths": array}`, or several of them, where
    `input_ids` is a matrix if all rows are equally long, and `seq_lengths` is an `ArrayList`. Rows of
    conversations have `labels` as well."""
    # The commonest first: asking whether something is a Sequence takes a tenth of a batch's time.
    if isinstance(key, np.ndarray | list) or (isinstance(key, Sequence) and not isinstance(key, str)):
        rows = _checked(_row_numbers(key), source)
    elif isinstance(key, slice):
        rows = np.arange(*key.indices(source.rows), dtype=np.int64)
    else:
        found = source.read(_checked(np.array([operator.index(key)], np.int64), source))
        one = {"input_ids": found.tokens, "seq_lengths": found.seq_lengths}
        return one if found.labels is None else {**one, "labels": found.labels}
    found = source.read(rows)
    tokens: Any = (
        found.tokens.reshape(len(rows), source.width)
        if source.fixed
        else ArrayList(found.tokens, found.offsets)
    )
    several = {"input_ids": tokens, "seq_lengths": ArrayList(found.seq_lengths, found.seq_offsets)}
    return several if found.labels is None else {**several, "labels": ArrayList(found.labels, found.offsets)}


def _row_numbers(key: Sequence[int] | npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """A list or array of rows as one of int64; TypeError for anything but integers."""
    rows = np.asarray(key)
    if rows.size == 0:
        return np.empty(0, dtype=np.int64)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise TypeError(f"rows are chosen by integers, slices or lists of integers, not by {rows.dtype}")
    return rows.astype(np.int64, copy=False)


def _checked(rows: npt.NDArray[np.int64], source: RowSource) -> npt.NDArray[np.int64]:
    """Row numbers with negative ones counted from the end."""
    count = source.rows
    numbers = rows.tolist()  # for a batch, Python's own min and max take a third of NumPy's time
    if not numbers or (min(numbers) >= 0 and max(numbers) < count):
        return rows
    outside = (rows < -count) | (rows >= count)
    if outside.any():
        row = int(rows[outside][0])
        raise IndexError(f"row {row} is out of range: `{source.name}` has {count} rows")
    return np.where(rows < 0, rows + count, rows)
