"""Training data from any source: endless batches, and a state to continue from.

In: the config. Out: a `TrainData`: over prepared rows (`prepared_data.py`) or over text that is tokenised on
the fly (`streamed_data.py`). Held in memory: what the source says it holds, in `held_bytes`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from krill.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from krill.config import KrillConfig
    from krill.loading.loader import Loader
    from krill.loading.stream.loader import StreamingDataLoader
    from krill.threads.progress import Progress
    from krill.training.vocabulary import Vocabulary

Batch = dict[str, "NDArray[Any]"]


class BatchSource(ABC):
    """Batches that a run can continue from."""

    held_bytes: int
    """The most that reading holds."""
    expected_bytes: int
    """What it will hold of that, for the prediction."""

    @abstractmethod
    def batches(self) -> Iterator[Batch]:
        """Epoch after epoch, endless."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """The position after the last batch that was yielded, as JSON."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...

    def close(self) -> None:  # noqa: B027  files that are mapped close with the process
        """Free what reading holds."""


class TrainData(BatchSource):
    """Batches of `input_ids`, `labels`, `segment_ids` and `position_ids`: int32, one line a row."""

    name: str
    """The path, for messages."""
    rows: int
    """Rows in a batch: those of one step of the optimizer."""
    length: int
    """Tokens in a row."""
    _loader: Loader | StreamingDataLoader

    @property
    @abstractmethod
    def vocabulary(self) -> Vocabulary: ...

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """What decides the batches and their order, as JSON."""

    @abstractmethod
    def steps_per_epoch(self, progress: Progress) -> int:
        """Batches in an epoch; text has to be read once to know."""

    def validation(self, rows: int, most: int | None) -> list[Batch]:
        """Up to `most` rows that are not trained on, in batches of `rows`; empty without a validation split.

        The last batch is padded with rows whose labels are ignored.
        """
        return []

    def state_dict(self) -> dict[str, Any]:
        return self._loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._loader.load_state_dict(state)

    def close(self) -> None:
        self._loader.close()


def open_data(config: KrillConfig, limit: int) -> TrainData:
    """The data of a config. Streaming plans within `limit` bytes, and takes no more than it needs."""
    if config.train.streaming:
        from krill.training.streamed_data import StreamedData

        return StreamedData(config, limit)
    from krill.training.prepared_data import PreparedData

    return PreparedData(config)


def check_ids(batch: Mapping[str, NDArray[Any]], vocab_size: int, name: str) -> None:
    """Refuse ids that the model has no embedding for: JAX would silently use another one's."""
    highest = int(batch["input_ids"].max(initial=0))
    if highest >= vocab_size:
        raise InputError(
            f"`{name}` has the token id `{highest}`, and the vocabulary only {vocab_size:,} ids",
            hint="set `tokenizer` to the one that made the dataset",
        )


def padded_rows(batch: Batch, rows: int) -> Batch:
    """The batch with empty rows up to `rows`, in which nothing is predicted."""
    missing = rows - len(batch["labels"])
    if missing == 0:
        return batch
    fill = {name: -100 if name == "labels" else 0 for name in batch}
    return {
        name: np.concatenate((column, np.full((missing, column.shape[1]), fill[name], column.dtype)))
        for name, column in batch.items()
    }
