"""Batches in a computed order, from any step on.

In: a source of rows, an order, the columns wanted. Out: dictionaries of NumPy arrays. Held in memory: the
batches that are being made ahead, within the bytes given, and what the source holds.

All ranks together take one *global batch* a step, `batch_size * world` rows that follow each other in the
order; rank `r` takes the `r`-th `batch_size` of them. So the order does not depend on the number of ranks,
and a step's rows don't either while the global batch stays the same.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from krill.dataset.rows import RowSource
from krill.errors import ConfigError, InputError
from krill.loading.columns import Batch, ColumnMaker
from krill.loading.order import Order
from krill.threads.ordered import ordered_map

VERSION = 1
_HINT = "load a state with the dataset and the arguments that it was made with"


def read_state(
    state: Mapping[str, Any], identity: Mapping[str, Any], most: int, name: str
) -> tuple[int, int]:
    """The epoch and the samples of a state, which must be of `identity`; `name` is the dataset's."""
    if not isinstance(state, Mapping) or "version" not in state:
        raise ConfigError("this is not a loader's state: it has no `version`", hint=_HINT)
    if state["version"] != VERSION:
        raise ConfigError(f"the state has version `{state['version']}`, and this Krill reads {VERSION}")
    if state.get("fingerprint") != identity["fingerprint"]:
        raise InputError(
            f"the state belongs to another dataset than `{name}`: its fingerprint is"
            f" `{state.get('fingerprint')}`, not `{identity['fingerprint']}`",
            hint=_HINT,
        )
    differing = [key for key, value in identity.items() if state.get(key) != value]
    if differing:
        shown = ", ".join(f"`{key}` is `{state.get(key)}`, not `{identity[key]}`" for key in differing)
        raise ConfigError(f"the state belongs to another order: {shown}", hint=_HINT)
    return _count(state, "epoch", 2**63), _count(state, "samples", most)


def _count(state: Mapping[str, Any], name: str, most: int) -> int:
    value = state.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ConfigError(f"the state's `{name}` is `{value}`", hint=f"it must be from 0 to {most}")
    return value


@dataclass(frozen=True)
class LoaderOptions:
    """Each rank's part of a step, and how far ahead batches are made."""

    batch_size: int
    rank: int
    world: int
    drop_last: bool
    prefetch: int
    batch_bytes: int
    bytes_ahead: int


class Loader:
    """Iterates over this rank's batches, from its state to the end of the epoch; then the next epoch begins.

    Leaving an iterator early keeps the loader where it is, and the next one continues from there.
    `len(loader)` is the number of batches that iterating now would give, the same on every rank. Of a last
    global batch that is not full (`drop_last=False`), each rank takes an equal part, plus or minus a row: a
    batch may then have no row at all, so that every rank takes as many steps. One iterator at a time: a new
    one ends the one before. `identity` is everything that shapes the order of rows: a state of another order
    would repeat some and miss others.
    """

    def __init__(
        self,
        source: RowSource,
        order: Order,
        maker: ColumnMaker,
        options: LoaderOptions,
        identity: Mapping[str, Any],
        epoch: int = 0,
    ) -> None:
        self.epoch = epoch
        self.samples = 0
        self.batch_size, self.rank, self.world = options.batch_size, options.rank, options.world
        self.global_batch = options.batch_size * options.world
        """Rows that all ranks together take in a step."""
        self._source = source
        self._order = order
        self._maker = maker
        self._options = options
        self._identity = identity
        self._iterator: weakref.ref[Generator[Batch, None, None]] | None = None

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
        """Begin another epoch. Nothing changes if it is the current one, so that a resumed run continues."""
        if epoch != self.epoch:
            self.close()
            self.epoch, self.samples = epoch, 0

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is, after the last batch that it handed out; JSON can hold it."""
        return {"version": VERSION, "epoch": self.epoch, "samples": self.samples, **self._identity}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state` was made, by a loader of any rank, world size or batch size."""
        position = read_state(state, self._identity, self._order.samples, self._source.name)
        self.close()
        self.epoch, self.samples = position

    def close(self) -> None:
        """End the iterator and its threads; the loader can still be used."""
        iterator = self._iterator() if self._iterator is not None else None
        self._iterator = None
        if iterator is not None:
            iterator.close()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_iterator": None}

    def _batches(self) -> Generator[Batch, None, None]:
        options, epoch = self._options, self.epoch
        starts = range(self.samples, self._order.samples, self.global_batch)[: len(self)]
        made: Generator[Batch, None, None]
        if options.prefetch == 0:
            made = (self._make(epoch, start) for start in starts)
        else:
            made = ordered_map(
                partial(self._make, epoch),
                starts,
                threads=options.prefetch,
                bytes_in_flight=options.bytes_ahead,
                size=lambda _: options.batch_bytes,
            )
        with closing(made):
            for batch in made:
                self.advance()
                yield batch
                del batch  # so that its memory can be used again while the next one is made
        self.epoch, self.samples = epoch + 1, 0

    def _make(self, epoch: int, sample: int) -> Batch:
        return self._maker.read(self._source, self._rows_at(epoch, sample))

    def _steps_from(self, sample: int) -> int:
        left = self._order.samples - sample
        return left // self.global_batch if self._options.drop_last else -(-left // self.global_batch)

    def _rows_at(self, epoch: int, sample: int) -> npt.NDArray[np.int64]:
        size = min(self.global_batch, self._order.samples - sample)
        start, stop = (sample + size * rank // self.world for rank in (self.rank, self.rank + 1))
        return self._order.rows((self._identity["seed"], epoch), start, stop)


def find_world(rank: int | None, world: int | None) -> tuple[int, int]:
    """What is given; else torch.distributed's if it is initialised, else JAX's if it is there, else 0 of
    1."""
    if (rank is None) != (world is None):
        raise ConfigError("`rank` and `world` belong together", hint="give both, or neither")
    if rank is None or world is None:
        rank, world = _torch_world() or _jax_world() or (0, 1)
    if world < 1 or not 0 <= rank < world:
        raise ConfigError(
            f"`rank` is `{rank}` and `world` is `{world}`", hint="ranks count from 0 to below `world`"
        )
    return rank, world


def _torch_world() -> tuple[int, int] | None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return int(distributed.get_rank()), int(distributed.get_world_size())


def _jax_world() -> tuple[int, int] | None:
    jax = sys.modules.get("jax")
    # Asking makes JAX open its devices, unless several processes were joined, which opens them anyhow.
    if jax is None or not getattr(jax.distributed, "is_initialized", lambda: False)():
        return None
    return int(jax.process_index()), int(jax.process_count())
