"""Documents to train a reader on: batches of all their segments, endless, and a state to continue from.

In: a cache of features and the settings. Out: for each step the columns of some documents, (documents,
segments, tokens), always of the same size: what a document lacks in segments is masked. Held in memory: the
units of the cache that are mapped, and two batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from krill.errors import InputError
from krill.loading.order import Shuffled
from krill.qa.batches import BLOCK_ROWS, WINDOW_ROWS, choose_begins
from krill.qa.stored import StoredFeatures
from krill.qa.tables import NOWHERE
from krill.training.data import Batch, BatchSource
from krill.training.qa.settings import ReaderSettings

Numbers = npt.NDArray[np.int64]
# Mapped units of the cache: enough that a shuffled window does not read them repeatedly.
MAPPED_BYTES: Final = 64_000_000
# Batches in memory: the one in training, the next one, and what the allocator keeps of earlier ones.
_BATCHES: Final = 4
_COLUMN_BYTES: Final = 4


class ReaderData(BatchSource):
    """Batches over a cache of features; the documents of a step follow from seed and step alone."""

    def __init__(self, folder: Path, settings: ReaderSettings, *, verify: bool = True) -> None:
        self.stored = StoredFeatures(folder, MAPPED_BYTES, verify=verify)
        self.documents = settings.batch_size
        self._settings = settings
        self._taken = 0
        _check(self.stored, folder)
        longest = most_segments(self.stored)
        self.segments = min(longest, settings.max_segments or longest)
        self.held_bytes = self.expected_bytes = self._most_held()
        self._order = Shuffled(self.stored.documents, BLOCK_ROWS, WINDOW_ROWS)

    @property
    def length(self) -> int:
        return self.stored.width

    @property
    def steps_per_epoch(self) -> int:
        """Batches of an epoch; the last is filled up from the next one."""
        return -(-self.stored.documents // self.documents)

    def _most_held(self) -> int:
        rows = self.documents * self.segments
        units = np.array(self.stored.manifest["units"], np.int64).reshape(-1, 4)[:, 3]
        mapped = min(int(units.sum()), max(MAPPED_BYTES, 2 * int(units.max(initial=0))))
        return mapped + _BATCHES * rows * (3 * self.length + 4) * _COLUMN_BYTES

    def batches(self) -> Iterator[Batch]:
        while True:
            batch = self._batch(self._taken)
            self._taken += 1
            yield batch

    def state_dict(self) -> dict[str, Any]:
        return {"batches": self._taken}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._taken = int(state["batches"])

    def _batch(self, number: int) -> Batch:
        """The documents at their places in the endless row of epochs, with what is drawn for each epoch."""
        places = np.arange(number * self.documents, (number + 1) * self.documents)
        epochs = places // self.stored.documents
        chosen = []
        for epoch in np.unique(epochs).tolist():
            own = places[epochs == epoch] - epoch * self.stored.documents
            key = self._settings.seed, epoch
            documents = self._order.rows(key, int(own[0]), int(own[-1]) + 1)
            chosen.append(self._features(documents, key))
        return columns_of(self.stored, np.concatenate(chosen))

    def _features(self, documents: Numbers, key: tuple[int, int]) -> Numbers:
        """Which features are read of each document, (documents, segments); -1 where it has ended."""
        firsts, counts = self.stored.document_features(documents)
        begins = choose_begins(
            self._settings.segment_selection,
            counts,
            self.segments,
            answered=lambda place: self._answered(int(firsts[place]), int(counts[place])),
            documents=documents,
            key=key,
        )
        segment = np.arange(self.segments)
        return np.where(segment < counts[:, None], (firsts + begins)[:, None] + segment, -1)

    def _answered(self, first: int, count: int) -> list[int]:
        unit, row = self.stored.unit_of_feature(first)
        return [int(found) for found in np.flatnonzero(unit.features.first[row : row + count] != NOWHERE)]


def columns_of(stored: StoredFeatures, features: Numbers) -> Batch:
    """Features as a reader takes them: columns (documents, segments, …)."""
    rows = stored.rows(features.reshape(-1), offsets=False)
    return {
        "input_ids": rows.input_ids.reshape(*features.shape, -1),
        "attention_mask": rows.attention_mask.reshape(*features.shape, -1),
        "token_type_ids": rows.token_type_ids.reshape(*features.shape, -1),
        "start_positions": rows.start_positions.reshape(features.shape),
        "end_positions": rows.end_positions.reshape(features.shape),
        "cls_index": rows.cls_index.reshape(features.shape),
        "document_mask": features >= 0,
    }


def most_segments(stored: StoredFeatures) -> int:
    """The segments of the longest document."""
    return max(
        int(np.bincount(stored.unit(number).features.example).max(initial=0))
        for number in range(len(stored.first_example) - 1)
    )


def _check(stored: StoredFeatures, folder: Path) -> None:
    """Refuse features without documents or answers."""
    if stored.documents == 0:
        raise InputError(f"`{folder}` has no features", hint="prepare it from a source with questions")
    units = range(len(stored.first_example) - 1)
    if not any((stored.unit(number).features.first != NOWHERE).any() for number in units):
        raise InputError(
            f"no feature of `{folder}` has an answer: there is nothing to learn",
            hint="prepare it from questions with `answers`; see what `krill qa prepare` counted",
        )
