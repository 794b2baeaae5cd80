"""Several sources mixed by weight: which source gives the n-th row is arithmetic.

In: the row ranges of sources, their weights in tokens, a rule for when one runs out. Out: an order over all
their rows. Held in memory: a few numbers for each source (times their number, for `drop`).

Weights are shares of tokens; divided by a source's tokens per row they are shares of rows, rounded to 2^-30.
The first source takes a row whenever its due, its share of the rows so far, passes a whole number; what it
leaves is offered to the second source in the same way, and so on. So every part of the epoch has the stated
mixture, plus or minus a row for each source, and how many rows a source has given after n is known without
counting. The slow version is `reference.reference_schedule`.

When a source runs out: `stop` ends the epoch, so that nothing repeats and the mixture holds to its end;
`repeat` begins that source again in another order, until every source was read to its end once; `drop` goes
on with the others in their proportions, until every row was read once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from krill.dataset.manifest import SourceRows
from krill.dataset.rows import RowBatch, RowSource
from krill.errors import ConfigError
from krill.loading.order import Key, Order

OnExhausted = Literal["stop", "repeat", "drop"]
RULES = ("stop", "repeat", "drop")

WHOLE = 2**30
_MOST_SAMPLES = 2**33  # a number of rows times a share must fit 63 bits


@dataclass(frozen=True)
class WeightedRows:
    """One source: its rows among all, its tokens (for the mean length of a row), its weight and its order."""

    first: int
    rows: int
    tokens: int
    weight: float
    order: Order


@dataclass(frozen=True)
class Schedule:
    """Who gives which row, for sources with `shares` of `WHOLE`."""

    shares: tuple[int, ...]

    def counts(self, samples: int) -> list[int]:
        """How many of the first `samples` rows each source gives."""
        counts, left = [], WHOLE
        for share in self.shares:
            taken = samples * share // left if left else 0
            counts.append(taken)
            samples -= taken
            left -= share
        return counts

    def sources(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Which source gives each of the rows `start` to `stop`."""
        offered = np.arange(start, stop, dtype=np.int64)
        chosen = np.full(stop - start, -1, np.int64)
        left = WHOLE
        for source, share in enumerate(self.shares):
            if share == 0:
                continue
            taken = offered * share // left
            takes = (offered + 1) * share // left > taken
            chosen[takes & (chosen < 0)] = source
            offered -= taken
            left -= share
        return chosen

    def most(self, fits: Callable[[list[int]], bool], below: int) -> int:
        """The most samples, at most `below`, whose counts fit; more never fit again."""
        low, high = 0, below
        while low < high:
            middle = (low + high + 1) // 2
            if fits(self.counts(middle)):
                low = middle
            else:
                high = middle - 1
        return low


@dataclass(frozen=True)
class _Phase:
    """A part of the epoch with one schedule: where it begins, and what each source has given before."""

    start: int
    before: tuple[int, ...]
    schedule: Schedule


class Mixed:
    """An `Order` over the rows of several sources."""

    def __init__(self, parts: Sequence[WeightedRows], on_exhausted: OnExhausted = "stop") -> None:
        if on_exhausted not in RULES:
            raise ConfigError(f"`on_exhausted` is `{on_exhausted}`", hint=f"give one of {', '.join(RULES)}")
        self.on_exhausted = on_exhausted
        self._parts = tuple(parts)
        self.shares = row_shares(self._parts)
        self._phases, self.samples = self._plan()

    @property
    def identity(self) -> dict[str, Any]:
        """What a state is bound to."""
        return {"shares": list(self.shares), "on_exhausted": self.on_exhausted}

    def rows(self, key: Key, start: int, stop: int) -> npt.NDArray[np.int64]:
        found = np.empty(stop - start, np.int64)
        for number, phase in enumerate(self._phases):
            end = self._phases[number + 1].start if number + 1 < len(self._phases) else self.samples
            first, last = max(start, phase.start), min(stop, end)
            if first < last:
                found[first - start : last - start] = self._phase_rows(phase, key, first, last)
        return found

    def _phase_rows(self, phase: _Phase, key: Key, start: int, stop: int) -> npt.NDArray[np.int64]:
        start, stop = start - phase.start, stop - phase.start
        chosen = phase.schedule.sources(start, stop)
        found = np.empty(stop - start, np.int64)
        counts = zip(phase.schedule.counts(start), phase.schedule.counts(stop), strict=True)
        for source, (first, last) in enumerate(counts):
            if first < last:
                before = phase.before[source]
                found[chosen == source] = self._part_rows(source, key, before + first, before + last)
        return found

    def _part_rows(self, source: int, key: Key, start: int, stop: int) -> npt.NDArray[np.int64]:
        """The rows that a source gives as its `start`-th to `stop`-th, over as many passes as that takes."""
        part, pieces = self._parts[source], []
        while start < stop:
            turn, first = divmod(start, part.rows)
            last = min(part.rows, first + stop - start)
            pieces.append(part.order.rows((*key, source, turn), first, last))
            start += last - first
        return part.first + np.concatenate(pieces)

    def _plan(self) -> tuple[list[_Phase], int]:
        schedule, rows = Schedule(self.shares), [part.rows for part in self._parts]
        nothing = (0,) * len(rows)
        if self.on_exhausted == "drop":
            return self._phases_until_all_are_read(rows)
        if self.on_exhausted == "stop":
            whole = schedule.most(partial(_none_above, limits=rows), min(sum(rows), _MOST_SAMPLES))
            return [_Phase(0, nothing, schedule)], whole
        short = schedule.most(lambda counts: not _none_above(rows, counts), _MOST_SAMPLES)
        if short == _MOST_SAMPLES:
            raise ConfigError(
                "with `on_exhausted` = `repeat`, an epoch of this mixture has more than 2^33 rows",
                hint="give the source that lasts longest more weight, or use `stop`",
            )
        return [_Phase(0, nothing, schedule)], short + 1

    def _phases_until_all_are_read(self, rows: list[int]) -> tuple[list[_Phase], int]:
        phases: list[_Phase] = []
        start, given = 0, [0] * len(rows)
        while True:
            left = [total - done for total, done in zip(rows, given, strict=True)]
            if not any(left):
                return phases, start
            schedule = Schedule(row_shares(self._parts, [count > 0 for count in left]))
            phases.append(_Phase(start, tuple(given), schedule))
            samples = schedule.most(partial(_none_above, limits=left), sum(left))
            given = [done + more for done, more in zip(given, schedule.counts(samples), strict=True)]
            start += samples


def row_shares(parts: Sequence[WeightedRows], active: Sequence[bool] | None = None) -> tuple[int, ...]:
    """Each part's share of the rows, out of `WHOLE`; 0 for those that are not active."""
    rates = [
        part.weight * part.rows / part.tokens if is_active and part.rows else 0.0
        for part, is_active in zip(parts, active or [True] * len(parts), strict=True)
    ]
    total = sum(rates)
    shares = [max(1, round(rate / total * WHOLE)) if rate else 0 for rate in rates]
    shares[shares.index(max(shares))] += WHOLE - sum(shares)
    return tuple(shares)


def _none_above(counts: Sequence[int], limits: Sequence[int]) -> bool:
    return all(count <= limit for count, limit in zip(counts, limits, strict=True))


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
        self.token_bytes = max(getattr(part, "token_bytes", part.dtype.itemsize) for part in parts)
        self.block_rows = max(part.block_rows for part in parts)

    @property
    def held_bytes(self) -> int:
        return sum(part.held_bytes for part in self._parts)

    def read(self, rows: npt.NDArray[np.int64]) -> RowBatch:
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
    labels = None
    if any(batch.labels is not None for batch in batches):
        labels, _ = _picked([(b.learned(), b.offsets) for b in batches], back, np.dtype(np.int32))
    return RowBatch(tokens, offsets, lengths, seq_offsets.astype(np.int32), labels)


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
