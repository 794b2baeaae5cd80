"""Training on text as it is read: tokenised on the fly, shuffled in a buffer.

In: the config's `datasets` and tokenizer. Out: batches in which documents are separated by the token that
ends them. Held in memory: what `StreamingDataLoader` plans, and two batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from krill.config import KrillConfig
from krill.corpus import DatasetSource
from krill.errors import ConfigError
from krill.loading.stream.loader import StreamingDataLoader
from krill.loading.stream.source import StreamState
from krill.threads.progress import Progress
from krill.tokenizer import ByteEncoder
from krill.training.data import Batch, check_ids
from krill.training.vocabulary import DECODED_ROWS, Vocabulary, vocabulary_of_config

if TYPE_CHECKING:
    from numpy.typing import NDArray

_COLUMN_BYTES: Final = 4 * 4
_BATCHES: Final = 4


class StreamedData:
    """A `TrainData` over text. There is no validation split."""

    def __init__(self, config: KrillConfig, limit: int) -> None:
        _check_sources(config)
        self._config = config
        self._limit = limit
        self.rows = config.train.step_rows
        self.length = config.train.seq_len or config.preprocess.sequence_len
        self._found = vocabulary_of_config(config.tokenizer)
        self._loader = self._open(self.rows, config.train.shuffle_buffer_size)
        batches = _BATCHES * self.rows * self.length * _COLUMN_BYTES
        self.held_bytes = self._loader.plan.worst_peak + batches
        self.expected_bytes = self._loader.plan.predicted_peak + batches

    @property
    def name(self) -> str:
        return ", ".join(dataset.path for dataset in self._config.datasets)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        if self._found.bytes is not None:
            return self._found
        with self._open(1, 0) as rows:
            return self._found.with_mean_bytes(batch["input_ids"][0] for batch in islice(rows, DECODED_ROWS))

    def identity(self) -> dict[str, Any]:
        place = StreamState().to_json()
        return {name: value for name, value in self._loader.state_dict().items() if name not in place}

    def steps_per_epoch(self, progress: Progress) -> int:
        """Tokenises all text once, which takes a small part of what training on it does."""
        progress.begin("tokenise", None)
        with self._open(self.rows, 0) as loader:
            steps = 0
            for _ in loader:
                steps += 1
                progress.advance(self.rows * self.length)
        progress.end("tokenise")
        return steps

    def batches(self) -> Iterator[Batch]:
        while True:
            for batch in self._loader:
                check_ids(batch, self._loader.vocab_size, self.name)
                yield with_segments(batch, self._loader.eos_id)

    def validation(self, rows: int, most: int | None) -> list[Batch]:
        return []

    def state_dict(self) -> dict[str, Any]:
        return self._loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._loader.load_state_dict(state)

    def close(self) -> None:
        self._loader.close()

    def _open(self, rows: int, shuffle_buffer_size: int) -> StreamingDataLoader:
        config = self._config
        sources = [
            DatasetSource(dataset.path, dataset.split, dataset.text_column, dataset.separator)
            for dataset in config.datasets
        ]
        return StreamingDataLoader(
            sources,
            self._found.source if isinstance(self._found.source, Path) else ByteEncoder(),
            seq_len=self.length,
            batch_size=rows,
            stride=config.train.stride,
            shuffle_buffer_size=shuffle_buffer_size,
            seed=config.seed,
            separator=(config.tokenizer.special_tokens or ("",))[0],
            max_document_bytes=config.preprocess.max_document_bytes,
            on_error=config.preprocess.on_error,
            memory=self._limit,
            verify=config.verify,
        )


def with_segments(batch: Batch, eos_id: int | None) -> Batch:
    """The batch with numbers of documents and positions in them; nothing is predicted across their ends."""
    ids, labels = batch["input_ids"], batch["labels"]
    ends = np.zeros(ids.shape, bool) if eos_id is None else ids == eos_id
    begins = np.zeros(ids.shape, bool)
    begins[:, 1:] = ends[:, :-1]
    places = np.arange(ids.shape[1], dtype=np.int32)
    first: NDArray[Any] = np.maximum.accumulate(np.where(begins, places, 0), axis=1)
    return {
        "input_ids": ids,
        "labels": np.where(ends, np.int32(-100), labels),
        "segment_ids": np.cumsum(begins, axis=1, dtype=np.int32),
        "position_ids": (places - first).astype(np.int32),
    }


def _check_sources(config: KrillConfig) -> None:
    """What only preparing a dataset can do is refused, so that no key is without effect."""
    if not config.datasets:
        raise ConfigError(
            "`datasets` is missing from the config, so there is no text to stream",
            hint="add, for example,\ndatasets:\n  - path: data/*.jsonl",
        )
    if not config.tokenizer.is_given:
        raise ConfigError(
            "`tokenizer` is missing from the config",
            hint="set `tokenizer.path` to a folder with a tokenizer.json (`krill train-tokenizer CONFIG`"
            " trains one there), or `tokenizer.builtin` to `bytes`",
        )
    for number, dataset in enumerate(config.datasets):
        for key in ("weight", "max_tokens"):
            if getattr(dataset, key) is not None:
                raise ConfigError(
                    f"`datasets.{number}.{key}` is set, and streaming reads text as it comes",
                    hint="drop it, or prepare the dataset and leave `train.streaming` off",
                )
