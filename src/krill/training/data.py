"""Training data: endless batches, and a state to continue from.

In: the config: rows that `krill preprocess` wrote or that `krill.load` can open, or text that is tokenised on
the fly and shuffled in a buffer, its documents separated by the token that ends them. Out: a `TrainData`.
Held in memory, as `held_bytes` says: of rows the table of shards, a small cache, and the validation rows that
are asked for; of text what `StreamingDataLoader` plans; and a few batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from krill.config import KrillConfig
from krill.corpus import DatasetSource
from krill.dataset.manifest import MANIFEST_NAME, Manifest
from krill.errors import ConfigError, InputError
from krill.loading.dataset import LoadedDataset, load
from krill.loading.loader import Loader
from krill.loading.stream.loader import StreamingDataLoader
from krill.loading.stream.source import StreamState
from krill.threads.progress import Progress
from krill.tokenizer import ByteEncoder
from krill.training.vocabulary import DECODED_ROWS, Vocabulary, vocabulary_of_config, vocabulary_of_dataset

# Little is enough: a step takes a thousand times as long as reading its rows.
READING_BYTES: Final = 16_000_000
# Batches in memory: the one in training, the next one, and what the allocator keeps of earlier ones.
_PREPARED_BATCHES: Final = 6
_STREAMED_BATCHES: Final = 4
TOKEN_BYTES: Final = 4 * 4
"""Of a token in the four columns of a batch."""
COLUMNS: Final[dict[str, Any]] = {"labels": "shifted", "segment_ids": True, "position_ids": True}

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
    return StreamedData(config, limit) if config.train.streaming else PreparedData(config)


class PreparedData(TrainData):
    """Rows on disk."""

    _loader: Loader

    def __init__(self, config: KrillConfig) -> None:
        settings = config.train
        self._path = Path(config.preprocess.prepared_path)
        self.name = str(self._path)
        self._seed = config.seed
        self.rows = settings.step_rows
        manifest = _manifest(self._path)
        # Each shard is read to its end before the first of its rows is trained on; others' have no checksums.
        self._verify = config.verify and manifest is not None
        dataset = load(self._path, memory=READING_BYTES, verify=self._verify)
        self.length = _checked_length(settings.seq_len, dataset.source.width, self._path)
        self._batch_bytes = self.rows * self.length * (TOKEN_BYTES + dataset.source.dtype.itemsize)
        self.held_bytes = self.expected_bytes = (
            dataset.source.held_bytes + _PREPARED_BATCHES * self._batch_bytes
        )
        self._dataset = LoadedDataset(dataset.source, self.held_bytes)
        self._splits = {part.split for part in manifest.parts} if manifest is not None else set()
        self._vocabulary = self._find_vocabulary(manifest, config)
        self._loader = self._dataset.loader(
            batch_size=self.rows, shuffle=True, seed=self._seed, rank=0, world=1, prefetch=0, **COLUMNS
        )

    @property
    def vocabulary(self) -> Vocabulary:
        return self._vocabulary

    def identity(self) -> dict[str, Any]:
        return {"rows": self._dataset.source.fingerprint, "tokenizer": self.vocabulary.fingerprint}

    def steps_per_epoch(self, progress: Progress) -> int:
        return self._loader.steps

    def batches(self) -> Iterator[Batch]:
        while True:
            for batch in self._loader:
                check_ids(batch, self.vocabulary.size, self.name)
                yield batch

    def validation(self, rows: int, most: int | None) -> list[Batch]:
        if "validation" not in self._splits:
            return []
        limit = READING_BYTES + _PREPARED_BATCHES * rows * self.length * (TOKEN_BYTES + 4)
        with load(self._path, memory=limit, split="validation", verify=self._verify) as dataset:
            wanted = min(len(dataset), len(dataset) if most is None else most)
            if wanted == 0:
                return []
            loader = dataset.loader(
                batch_size=rows,
                # A part of them is taken from everywhere: the first rows are only of the first documents.
                shuffle=wanted < len(dataset),
                seed=0,
                rank=0,
                world=1,
                prefetch=0,
                drop_last=False,
                **COLUMNS,
            )
            batches = list(islice(loader, -(-wanted // rows)))
        # Whole batches may be more rows than were asked for.
        last = wanted - (len(batches) - 1) * rows
        batches[-1] = padded_rows({name: column[:last] for name, column in batches[-1].items()}, rows)
        for batch in batches:
            check_ids(batch, self.vocabulary.size, self.name)
        return batches

    def close(self) -> None:
        super().close()
        self._dataset.close()

    def _find_vocabulary(self, manifest: Manifest | None, config: KrillConfig) -> Vocabulary:
        if manifest is not None:
            found = vocabulary_of_dataset(self._path, manifest.tokenizer or {}, config.tokenizer)
        elif config.tokenizer.is_given:
            found = vocabulary_of_config(config.tokenizer)
        else:
            raise ConfigError(
                f"`{self._path}` does not say which tokenizer made it",
                hint="set `tokenizer.path` to that tokenizer",
            )
        rows = range(min(DECODED_ROWS, len(self._dataset)))
        return found.with_mean_bytes(self._dataset[row]["input_ids"] for row in rows)


def _manifest(path: Path) -> Manifest | None:
    """The manifest of a dataset that Krill wrote; None for others, which `krill.load` opens too."""
    if not path.exists():
        raise InputError(
            f"there is no dataset at `{path}`",
            hint="prepare it with `krill preprocess CONFIG`, do everything with `krill run CONFIG`, or set"
            " `train.streaming: true` to read the text itself",
        )
    return Manifest.load(path) if (path / MANIFEST_NAME).is_file() else None


def _checked_length(wanted: int | None, width: int, path: Path) -> int:
    if wanted is not None and wanted != width:
        kind = "longer" if wanted > width else "shorter"
        raise ConfigError(
            f"`train.seq_len` is `{wanted}`, {kind} than the rows of `{path}`, which have {width} tokens",
            hint=f"drop it, or prepare the dataset with `preprocess.sequence_len: {wanted}`",
        )
    return width


class StreamedData(TrainData):
    """Text. There is no validation split."""

    _loader: StreamingDataLoader

    def __init__(self, config: KrillConfig, limit: int) -> None:
        _check_sources(config)
        self._config = config
        self._limit = limit
        self.name = ", ".join(dataset.path for dataset in config.datasets)
        self.rows = config.train.step_rows
        self.length = config.train.seq_len or config.preprocess.sequence_len
        self._found = vocabulary_of_config(config.tokenizer)
        self._loader = self._open(self.rows, config.train.shuffle_buffer_size)
        batches = _STREAMED_BATCHES * self.rows * self.length * TOKEN_BYTES
        self.held_bytes = self._loader.plan.worst_peak + batches
        self.expected_bytes = self._loader.plan.predicted_peak + batches

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
