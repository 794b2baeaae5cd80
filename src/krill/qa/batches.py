"""Batches: documents side by side, their segments one time step after the other; or plain features.

In: a dataset, an order. Out: for each batch of documents a list over time steps, each a batch of
the segments at that step, row `i` always of the same document; `document_mask` says which rows are still of
it, and the others are padding. Held in memory: one batch with all its steps, and one more for each worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from krill.errors import ConfigError, MissingExtra
from krill.loading.order import InOrder, Order, Shuffled
from krill.qa.dataset import ARRAYS, METADATA, QaDataset
from krill.qa.stored import FeatureRows
from krill.qa.tables import NOWHERE
from krill.threads import ordered_map

Numbers = npt.NDArray[np.int64]
Batch = dict[str, Any]
Framework = Literal["torch", "numpy", "jax"]
Strategy = Literal["answer_centered", "random_continuous", "first_n"]
"""Which segments of a long document are taught, if not all."""

STRATEGIES: Final = ("answer_centered", "random_continuous", "first_n")
# Neighbours on disk that are shuffled as one, and over how many rows they are spread.
BLOCK_ROWS: Final = 256
WINDOW_ROWS: Final = 8192
_PADDING: Final = -1
_OF_ENDED: Final = {"has_answer": False, "segment_index": _PADDING}


@dataclass(frozen=True, slots=True)
class BatchShape:
    batch_size: int
    time_step_major: bool = True
    max_segments: int | None = None
    strategy: Strategy = "answer_centered"
    framework: Framework = "torch"
    num_workers: int = 0

    def check(self) -> None:
        for name in ("batch_size", "max_segments"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise ConfigError(f"`{name}` is `{number}`", hint="give a number from 1 on")
        if self.num_workers < 0:
            raise ConfigError(f"`num_workers` is `{self.num_workers}`", hint="give a number from 0 on")
        if self.strategy not in STRATEGIES:
            raise ConfigError(
                f"`segment_selection_strategy` is `{self.strategy}`",
                hint=f"give one of {', '.join(STRATEGIES)}",
            )
        if self.framework not in ("torch", "numpy", "jax"):
            raise ConfigError(f"`framework` is `{self.framework}`", hint="give torch, numpy or jax")


class QaLoader:
    """Iterates over a dataset once; each time in the order of the next epoch.

    With `time_step_major` an item is a list of batches, one for each time step, else a batch of features.
    The order and what is drawn follow from `seed` and the epoch, and not from workers, which are threads.
    """

    def __init__(
        self, dataset: QaDataset, shape: BatchShape, *, shuffle: bool = False, seed: int = 0
    ) -> None:
        shape.check()
        self.dataset = dataset
        self.shape = shape
        self.seed = seed
        self.epoch = 0
        rows = dataset.documents if shape.time_step_major else len(dataset)
        self._order: Order = Shuffled(rows, BLOCK_ROWS, WINDOW_ROWS) if shuffle else InOrder(rows)
        self._convert = _converter(shape.framework)

    def __len__(self) -> int:
        return -(-self._order.samples // self.shape.batch_size)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        epoch, self.epoch = self.epoch, self.epoch + 1
        make = self._document_batch if self.shape.time_step_major else self._feature_batch

        def work(number: int) -> Any:
            start = number * self.shape.batch_size
            stop = min(start + self.shape.batch_size, self._order.samples)
            return make(self._order.rows((self.seed, epoch), start, stop), epoch)

        workers = self.shape.num_workers
        if workers == 0:
            return map(work, range(len(self)))
        return ordered_map(
            work, range(len(self)), threads=workers, bytes_in_flight=workers + 1, size=lambda _: 1
        )

    def _feature_batch(self, features: Numbers, epoch: int) -> Batch:
        rows = self.dataset.stored.rows(features)
        return self._batch(rows, slice(None), features, self.dataset.all_metadata(features.tolist()))

    def _document_batch(self, documents: Numbers, epoch: int) -> list[Batch]:
        steps = self._steps(documents, epoch)
        rows = self.dataset.stored.rows(steps.reshape(-1))
        # A document that has ended is described by its last segment.
        described = np.where(steps == _PADDING, steps.max(axis=0), steps)
        known = self.dataset.all_metadata(described.reshape(-1).tolist())
        size = len(documents)
        places = [slice(step * size, (step + 1) * size) for step in range(len(steps))]
        return [self._batch(rows, own, steps[step], known[own]) for step, own in enumerate(places)]

    def _steps(self, documents: Numbers, epoch: int) -> Numbers:
        """Which feature each document has at each step, shape (steps, documents); -1 = it has ended."""
        stored = self.dataset.stored
        firsts, counts = stored.document_features(documents)
        begins = np.zeros(len(documents), np.int64)
        most = self.shape.max_segments
        if most is not None:
            begins = choose_begins(
                self.shape.strategy,
                counts,
                most,
                answered=lambda place: self._answered(int(firsts[place]), int(counts[place])),
                documents=documents,
                key=(self.seed, epoch),
            )
            counts = np.minimum(counts, most)
        step = np.arange(counts.max(initial=0))[:, None]
        return np.where(step < counts, firsts + begins + step, _PADDING)

    def _answered(self, first: int, count: int) -> list[int]:
        unit, row = self.dataset.stored.unit_of_feature(first)
        found = np.flatnonzero(unit.features.first[row : row + count] != NOWHERE)
        return [int(segment) for segment in found]

    def _batch(self, rows: FeatureRows, own: slice, features: Numbers, known: list[dict[str, Any]]) -> Batch:
        mask = features != _PADDING
        for place in np.flatnonzero(~mask).tolist():
            known[place].update(_OF_ENDED)
        convert = self._convert
        batch: Batch = {
            **{name: convert(getattr(rows, name)[own]) for name in (*ARRAYS, "cls_index")},
            "document_mask": convert(mask),
            "offset_mapping": rows.offset_mapping[own] if rows.offset_mapping is not None else None,
            "example_ids": [entry["example_id"] for entry in known],
        }
        return batch | {name: [entry[name] for entry in known] for name in METADATA}


def _converter(framework: Framework) -> Any:
    """From NumPy's arrays to those of a framework; numbers for torch have 64 bits, as its losses want."""
    if framework == "numpy":
        return lambda array: array
    if framework == "jax":
        try:
            import jax.numpy as jnp
        except ImportError:
            raise MissingExtra("batches for JAX", "train") from None
        return jnp.asarray
    try:
        import torch
    except ImportError:
        raise MissingExtra("batches for torch", "torch") from None
    return lambda array: torch.from_numpy(array if array.dtype == bool else array.astype(np.int64))


def choose_begins(
    strategy: Strategy,
    counts: Numbers,
    most: int,
    *,
    answered: Callable[[int], Sequence[int]],
    documents: Numbers,
    key: tuple[int, int],
) -> Numbers:
    """The first segment to take of each document, of which at most `most` are taken in a row.

    `answered` gives the segments with the answer, of the document at a place; `key` is seed and epoch. What
    is drawn depends on these and the document alone, never on which others are in the batch.
    """
    room = np.maximum(counts - most, 0)
    if strategy == "first_n":
        return np.zeros(len(counts), np.int64)
    if strategy == "random_continuous":
        drawn = _mixed(_mixed(np.uint64(key[0] % 2**64), np.uint64(key[1])), documents.astype(np.uint64))
        return (drawn % (room + 1).astype(np.uint64)).astype(np.int64)
    begins = np.zeros(len(counts), np.int64)
    for place in np.flatnonzero(room).tolist():
        segments = answered(place)
        if segments:
            middle = segments[len(segments) // 2]
            begins[place] = min(max(middle - (most - 1) // 2, 0), int(room[place]))
    return begins


def _mixed(
    seed: npt.NDArray[np.uint64] | np.uint64, numbers: npt.NDArray[np.uint64] | np.uint64
) -> npt.NDArray[np.uint64]:
    """The finaliser of SplitMix64: hashes that keep nothing of the order of `numbers`."""
    with np.errstate(over="ignore"):
        mixed = np.asarray(seed + (np.asarray(numbers) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15))
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        return np.asarray(mixed ^ (mixed >> np.uint64(31)), np.uint64)
