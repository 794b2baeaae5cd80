"""Datasets for torch.

In: a loaded dataset. Out: a map-style dataset of rows, or an iterable one of ready batches that any number of
`DataLoader` workers share, the batches coming in the same order whatever that number is. Tensors are int64
and take over the memory that the batch was made in. Held in memory, in each worker: the batch being made and
what reading holds; nothing grows with the dataset.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from krill.errors import ConfigError, MissingExtra
from krill.loading.columns import Batch, ColumnMaker, Columns
from krill.loading.loader import Loader

try:
    import torch
    from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
except ImportError as error:
    raise MissingExtra("loading for torch", "torch") from error

if TYPE_CHECKING:
    from krill.dataset.rows import RowSource
    from krill.loading.dataset import LoadedDataset

Tensors = dict[str, torch.Tensor]

# What `labels` and `ids_dtype` are unless the caller says otherwise: what Hugging Face models expect.
_DEFAULTS = {"labels": "hf", "ids_dtype": "int64"}
_WORKER_BATCHES = "worker_batches"

# Options of torch's that a count of batches relies on: what they must be, and why.
_FIXED: dict[str, tuple[Any, str]] = {
    "batch_size": (None, "batches are made by `torch(batch_size=...)`"),
    "persistent_workers": (False, "workers begin each epoch at the state, which older ones don't know"),
    "in_order": (True, "batches come in the order that the state counts"),
}


def torch_dataset(
    dataset: LoadedDataset, *, batch_size: int | None = None, **options: Any
) -> TorchRows | TorchBatches:
    """With `batch_size` ready batches, and the options of `loader()`; without it single rows, and the options
    that choose columns."""
    options = _DEFAULTS | options
    if batch_size is None:
        return TorchRows(dataset.source, Columns(**options))
    return TorchBatches(dataset.loader(batch_size=batch_size, **options))


def _tensors(batch: Batch) -> Tensors:
    """The same memory, which is used again when the last tensor of it is gone."""
    return {name: torch.from_numpy(column) for name, column in batch.items()}


class TorchRows(Dataset[Tensors]):
    """Rows by number, each padded to the dataset's width: for torch's own samplers and batching."""

    def __init__(self, source: RowSource, columns: Columns) -> None:
        self._source = source
        self._maker = ColumnMaker(columns, source.width, spare_bytes=0)

    def __len__(self) -> int:
        return self._source.rows

    def __getitem__(self, row: int) -> Tensors:
        return self.__getitems__([row])[0]

    def __getitems__(self, rows: Sequence[int]) -> list[Tensors]:
        """Several at once, which is what a `DataLoader` asks for: one read instead of many."""
        numbers = np.asarray(rows, np.int64)
        numbers = np.where(numbers < 0, numbers + len(self), numbers)
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(self):
            raise IndexError(f"a row of {list(rows)} is out of range: there are {len(self)} rows")
        batch = _tensors(self._maker.read(self._source, numbers))
        return [{name: column[place] for name, column in batch.items()} for place in range(len(numbers))]


class TorchBatches(IterableDataset[Tensors]):
    """Ready batches from the loader's state on: `DataLoader(batches, batch_size=None, num_workers=4)`.

    Of N workers, worker w makes batches w, w + N, w + 2N and so on, and a `DataLoader` takes one from each in
    turn: so they come in the loader's order. The state of a worker's copy also counts the batches that it has
    made, for torchdata's `StatefulDataLoader`, which keeps one state for each worker.
    """

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self._made = 0
        self._restored = False
        self._ended = False

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Tensors]:
        worker = get_worker_info()
        if worker is None:
            return map(_tensors, self.loader)
        if not self._restored:
            if self._ended:  # a worker that lives on: this is its next epoch
                self.loader.set_epoch(self.loader.epoch + 1)
            self._made = 0
        self._restored = self._ended = False
        # Of a forked worker, all that is there now is its parent's: a full collection would write into each
        # object, and so give every worker a copy of torch's 40 MB of them.
        gc.freeze()
        return self._share_of(worker.id, worker.num_workers)

    def _share_of(self, worker: int, workers: int) -> Iterator[Tensors]:
        first, step, batches = self.loader.samples, self.loader.global_batch, len(self.loader)
        while (number := worker + self._made * workers) < batches:
            batch = self.loader.batch_at(first + number * step)
            self._made += 1
            yield _tensors(batch)
        self._ended = True

    def dataloader(self, num_workers: int = 0, **options: Any) -> TorchLoader:
        """A torch `DataLoader` over these batches that knows where it is; the options are torch's."""
        return TorchLoader(self, num_workers, **options)

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch, unless it is the one that the state is in."""
        self.loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """The loader's state; in a worker, with the batches that it has made since."""
        made = {_WORKER_BATCHES: self._made} if get_worker_info() is not None else {}
        return self.loader.state_dict() | made

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.loader.load_state_dict(state)
        self._made = int(state.get(_WORKER_BATCHES, 0))
        self._restored, self._ended = True, False


class TorchLoader(DataLoader[Tensors]):
    """A `DataLoader` that counts the batches it hands out, so that its state is exact however far workers
    have read ahead, and holds for any number of them. After an epoch's end the next one begins."""

    dataset: TorchBatches

    def __init__(self, batches: TorchBatches, num_workers: int = 0, **options: Any) -> None:
        for name, (value, reason) in _FIXED.items():
            if options.get(name, value) != value:
                raise ConfigError(f"`{name}` is `{options[name]}`: {reason}", hint=f"leave `{name}` out")
        super().__init__(batches, batch_size=None, num_workers=num_workers, **options)

    def __len__(self) -> int:
        """Batches from the state to the end of the epoch: fewer after each, of which torch's would warn."""
        return len(self.dataset)

    def __iter__(self) -> Iterator[Tensors]:  # type: ignore[override]  # torch's class of it is private
        if self.num_workers == 0:  # the loader counts by itself what is made in this process
            yield from super().__iter__()
            return
        loader = self.dataset.loader
        for batch in super().__iter__():
            loader.advance()
            yield batch
        loader.set_epoch(loader.epoch + 1)

    def state_dict(self) -> dict[str, Any]:
        """After the batch that was last handed out."""
        return self.dataset.loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.dataset.loader.load_state_dict(state)

    def set_epoch(self, epoch: int) -> None:
        self.dataset.set_epoch(epoch)
