"""Batches, in a computed order, from any place of it.

Comes in: a source of rows, an order, the columns wanted. Goes out: dictionaries of NumPy arrays. Held in
memory: the batches that are being made ahead, within the bytes given, and what the source holds.

All ranks together take one *global batch* a step, `batch_size * world` rows that follow each other in the
order; rank `r` takes the `r`-th `batch_size` of them. So the order does not depend on the number of ranks,
and a step's rows don't either while the global batch stays the same.
"""

from __future__ import annotations

import weakref
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from krill import _native
from krill.errors import InputError
from krill.loading.columns import Batch, ColumnMaker
from krill.loading.order import Order
from krill.loading.source import RowSource
from krill.loading.state import Identity, make_state, read_state
from krill.threads.ordered import ordered_map


@dataclass(frozen=True)
class Shape:
    """Who takes what of each step, and how far ahead batches are made."""

    batch_size: int
    rank: int
    world: int
    drop_last: bool
    prefetch: int
    batch_bytes: int
    bytes_ahead: int


class Loader:
    """Iterates over this rank's batches, from its state to the end of the epoch; then the next epoch begins.

    An iterator that is left early leaves the loader where it is, and the next one goes on from there.
    `len(loader)` is the number of batches that iterating now would give, the same on every rank. Of a last
    global batch that is not full (`drop_last=False`), each rank takes an equal part, give or take a row: a
    batch may then have no row at all, so that every rank takes as many steps. One iterator at a time: a new
    one ends the one before.
    """

    def __init__(
        self,
        source: RowSource,
        order: Order,
        maker: ColumnMaker,
        shape: Shape,
        identity: Identity,
        epoch: int = 0,
    ) -> None:
        self.epoch = epoch
        self.samples = 0
        self._source = source
        self._order = order
        self._maker = maker
        self._shape = shape
        self._identity = identity
        self._iterator: weakref.ref[Generator[Batch, None, None]] | None = None

    @property
    def batch_size(self) -> int:
        return self._shape.batch_size

    @property
    def rank(self) -> int:
        return self._shape.rank

    @property
    def world(self) -> int:
        return self._shape.world

    @property
    def global_batch(self) -> int:
        """Rows that all ranks together take in a step."""
        return self._shape.batch_size * self._shape.world

    @property
    def steps(self) -> int:
        """Steps of a whole epoch."""
        return self._steps_from(0)

    def __len__(self) -> int:
        return self._steps_from(self.samples)

    def __iter__(self) -> Iterator[Batch]:
        self.close()
        iterator = self._batches()
        self._iterator = weakref.ref(iterator)
        return iterator

    def batch(self, step: int) -> Batch:
        """This rank's batch of any step of the epoch, without the ones before; the state stays as it is."""
        if not 0 <= step < self.steps:
            raise IndexError(f"step {step} is out of range: an epoch has {self.steps} steps")
        return self.batch_at(step * self.global_batch)

    def batch_at(self, sample: int) -> Batch:
        """This rank's part of the global batch that begins at row `sample` of the epoch."""
        return self._make(self.epoch, sample)

    def advance(self, steps: int = 1) -> None:
        """Count steps as taken, as iterating does: for those who call `batch_at` themselves."""
        if not 0 <= steps <= len(self):
            raise IndexError(f"{steps} steps are more than epoch {self.epoch} has left, {len(self)}")
        self.samples = min(self.samples + steps * self.global_batch, self._order.samples)

    def set_epoch(self, epoch: int) -> None:
        """Begin another epoch. Nothing changes if it is the current one, so that a resumed run goes on."""
        if epoch != self.epoch:
            self.close()
            self.epoch, self.samples = epoch, 0

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is, after the last batch that it handed out; JSON can hold it."""
        return make_state(self._identity, self.epoch, self.samples)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was made, by a loader of any rank, world size or batch size."""
        place = read_state(state, self._identity, self._order.samples, self._source.name)
        self.close()
        self.epoch, self.samples = place

    def close(self) -> None:
        """End the iterator and its threads; the loader can still be used."""
        iterator = self._iterator() if self._iterator is not None else None
        self._iterator = None
        if iterator is not None:
            iterator.close()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_iterator": None}

    def _batches(self) -> Generator[Batch, None, None]:
        shape, epoch = self._shape, self.epoch
        starts = range(self.samples, self._order.samples, self.global_batch)[: len(self)]
        made: Generator[Batch, None, None]
        if shape.prefetch == 0:
            made = (self._make(epoch, start) for start in starts)
        else:
            made = ordered_map(
                partial(self._make, epoch),
                starts,
                threads=shape.prefetch,
                bytes_in_flight=shape.bytes_ahead,
                size=lambda _: shape.batch_bytes,
            )
        with closing(made):
            for batch in made:
                self.advance()
                yield batch
                del batch  # so that its memory can be used again while the next one is made
        self.epoch, self.samples = epoch + 1, 0

    def _make(self, epoch: int, sample: int) -> Batch:
        rows = self._rows_at(epoch, sample)
        try:
            return self._maker.make(self._source.read(rows))
        except _native.BadRow as error:
            row, reason = error.args
            raise InputError(
                f"`{self._source.name}`: row {rows[row]} {reason}",
                hint="the data was changed after it was written; `krill validate` finds every such place",
            ) from None

    def _steps_from(self, sample: int) -> int:
        left = self._order.samples - sample
        return left // self.global_batch if self._shape.drop_last else -(-left // self.global_batch)

    def _rows_at(self, epoch: int, sample: int) -> npt.NDArray[np.int64]:
        total, shape = self._order.samples, self._shape
        size = min(self.global_batch, total - sample)
        start, stop = (sample + size * rank // shape.world for rank in (shape.rank, shape.rank + 1))
        return self._order.rows((self._identity.seed, epoch), start, stop)
