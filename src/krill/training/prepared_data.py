"""Training on the rows that `krill preprocess` wrote, or that `krill.load` can open.

In: `preprocess.prepared_path`. Out: shuffled batches of its train split, and its validation split if it has
one. Held in memory: the table of shards and a small cache, two batches, and the validation rows that are
asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

from krill.config import KrillConfig
from krill.dataset.manifest import MANIFEST_NAME, Manifest
from krill.errors import ConfigError, InputError
from krill.loading.dataset import LoadedDataset, load
from krill.loading.loader import Loader
from krill.threads.progress import Progress
from krill.training.data import Batch, TrainData, check_ids, padded_rows
from krill.training.vocabulary import DECODED_ROWS, Vocabulary, vocabulary_of_config, vocabulary_of_dataset

# Little is enough: a step takes a thousand times as long as reading its rows.
READING_BYTES: Final = 16_000_000
# Batches in memory: the one in training, the next one, and what the allocator keeps of earlier ones.
_BATCHES: Final = 6
_COLUMN_BYTES: Final = 4 * 4
_COLUMNS: Final[dict[str, Any]] = {"labels": "shifted", "segment_ids": True, "position_ids": True}


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
        self._batch_bytes = self.rows * self.length * (_COLUMN_BYTES + dataset.source.dtype.itemsize)
        self.held_bytes = self.expected_bytes = dataset.source.held_bytes + _BATCHES * self._batch_bytes
        self._dataset = LoadedDataset(dataset.source, self.held_bytes)
        self._splits = {part.split for part in manifest.parts} if manifest is not None else set()
        self._vocabulary = self._find_vocabulary(manifest, config)
        self._loader = self._dataset.loader(
            batch_size=self.rows, shuffle=True, seed=self._seed, rank=0, world=1, prefetch=0, **_COLUMNS
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
        limit = READING_BYTES + _BATCHES * rows * self.length * (_COLUMN_BYTES + 4)
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
                **_COLUMNS,
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
