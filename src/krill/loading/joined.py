"""Several sources as one: their rows follow each other.

Comes in: row numbers among all. Goes out: rows, each read from its own source. Held in memory: what the
sources hold, and a batch twice while it is put together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from krill.dataset.manifest import SourceRows
from krill.dataset.row_batch import RowBatch
from krill.errors import ConfigError
from krill.loading.source import RowSource


class JoinedRows:
    """A `RowSource` over others. Their widths may differ: rows are padded to the largest."""

    def __init__(self, parts: Sequence[RowSource], weights: Sequence[float]) -> None:
        if not parts:
            raise ConfigError("there is nothing to mix", hint="give at least one dataset")
        self._parts = tuple(parts)
        self._starts = np.array([0, *accumulate(part.rows for part in parts)], np.int64)
        self.sources = _weighted(parts, weights)
        self.name = ", ".join(part.name for part in parts)
        self.fingerprint = hashlib.sha256("\0".join(p.fingerprint for p in parts).encode()).hexdigest()[:16]
        self.rows = int(self._starts[-1])
        self.tokens = sum(part.tokens for part in parts)
        self.width = max(part.width for part in parts)
        self.fixed = all(part.fixed and part.width == self.width for part in parts)
        self.dtype: np.dtype[Any] = np.result_type(*(part.dtype for part in parts))
        self.block_rows = max(part.block_rows for part in parts)

    @property
    def held_bytes(self) -> int:
        return sum(part.held_bytes for part in self._parts)

    def read(self, rows: npt.NDArray[np.int64]) -> RowBatch:
        """Rows in the order asked for."""
        owners = np.searchsorted(self._starts, rows, side="right") - 1
        picked = [np.flatnonzero(owners == number) for number in range(len(self._parts))]
        read = [
            (places, part.read(rows[places] - start))
            for places, part, start in zip(picked, self._parts, self._starts, strict=False)
            if len(places)
        ]
        if len(read) == 1 and read[0][1].tokens.dtype == self.dtype:
            return read[0][1]
        places = np.concatenate([np.empty(0, np.int64), *(places for places, _ in read)])
        return _in_order(places, [batch for _, batch in read], self.dtype)

    def close(self) -> None:
        for part in self._parts:
            part.close()


def _weighted(parts: Sequence[RowSource], weights: Sequence[float]) -> tuple[SourceRows, ...]:
    """The rows and weight of each part; of a part that is itself weighted, those of its sources."""
    if len(weights) != len(parts):
        raise ConfigError(f"there are {len(parts)} datasets and {len(weights)} weights")
    if any(not 0 <= weight < float("inf") for weight in weights) or not sum(weights) > 0:
        raise ConfigError(f"`weights` are `{list(weights)}`", hint="give numbers from 0 on, not all 0")
    sources: list[SourceRows] = []
    first = 0
    for number, (part, weight) in enumerate(zip(parts, weights, strict=True)):
        inner: tuple[SourceRows, ...] = getattr(part, "sources", ())
        total = sum(source.weight for source in inner)
        for source in inner:
            share = weight * source.weight / total
            sources.append(SourceRows(number, share, first + source.first, source.rows, source.tokens))
        if not inner:
            sources.append(SourceRows(number, weight, first, part.rows, part.tokens))
        first += part.rows
    return tuple(sources)


def _in_order(places: npt.NDArray[np.int64], batches: list[RowBatch], dtype: np.dtype[Any]) -> RowBatch:
    """One batch out of several; row `i` of all of them together goes to `places[i]`."""
    back = np.argsort(places)
    tokens, offsets = _picked([(b.tokens, b.offsets) for b in batches], back, dtype)
    lengths, seq_offsets = _picked(
        [(b.seq_lengths, b.seq_offsets) for b in batches], back, np.dtype(np.int32)
    )
    return RowBatch(tokens, offsets, lengths, seq_offsets.astype(np.int32))


def _picked(
    runs: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]], order: npt.NDArray[np.int64], dtype: np.dtype[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Runs of values, given by their offsets, in another order."""
    parts = [values[start:end] for values, at in runs for start, end in pairwise(at.tolist())]
    offsets = np.zeros(len(parts) + 1, np.int64)
    if parts:
        np.cumsum([len(parts[place]) for place in order], out=offsets[1:])
    values = np.concatenate(
        [np.empty(0, dtype), *(parts[place] for place in order)], dtype=dtype, casting="unsafe"
    )
    return values, offsets
