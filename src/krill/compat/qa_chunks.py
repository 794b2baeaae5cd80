"""Features as chunks of dictionaries, for code that keeps them in its own way.

In: features, or a cache that was prepared. Out: lists of feature dictionaries by number. Held in
memory: one chunk.

`ChunkedCacheManager` is both: what was saved with `save_chunk` comes back from `load_chunk`, and a cache that
was prepared in the same folder can be read in chunks without being stored again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from krill.compat.qa import cache_prefix, prepare_cache_in_gib
from krill.errors import ConfigError, InputError
from krill.qa.cache import Prepared
from krill.qa.dataset import QaDataset
from krill.storage.atomic import atomic_writer, storage_errors
from krill.storage.outputs import MANIFEST

_ARRAYS: Final = ("input_ids", "attention_mask", "token_type_ids", "offset_mapping")


class CacheManager(Protocol):
    def save_chunk(self, data: list[dict[str, Any]], dataset_name: str, split: str, chunk_id: int) -> Any: ...


class ChunkedCacheManager:
    def __init__(self, cache_dir: str | Path, chunk_size: int = 1000) -> None:
        if chunk_size < 1:
            raise ConfigError(f"`chunk_size` is `{chunk_size}`", hint="give a number from 1 on")
        self.cache_dir = str(cache_dir)
        self.chunk_size = chunk_size
        with storage_errors(cache_dir):
            Path(cache_dir).mkdir(parents=True, exist_ok=True)

    def get_cache_path(self, dataset_name: str, split: str, chunk_id: int) -> str:
        return str(Path(self.cache_dir) / f"{cache_prefix(dataset_name, split)}chunk-{chunk_id:05d}.arrow")

    def cache_exists(self, dataset_name: str, split: str) -> bool:
        """Whether there are features of this dataset, saved or prepared."""
        return self.get_total_chunks(dataset_name, split) > 0

    def get_total_chunks(self, dataset_name: str, split: str) -> int:
        saved = len(self._saved(dataset_name, split))
        if saved:
            return saved
        prepared = self._prepared(dataset_name, split)
        return 0 if prepared is None else -(-len(prepared) // self.chunk_size)

    def save_chunk(
        self, data: Sequence[Mapping[str, Any]], dataset_name: str, split: str, chunk_id: int
    ) -> None:
        rows = [{name: _plain(value) for name, value in feature.items()} for feature in data]
        batch = pa.RecordBatch.from_pylist(rows)
        with (
            atomic_writer(self.get_cache_path(dataset_name, split, chunk_id)) as file,
            pa.ipc.new_file(file, batch.schema) as writer,
        ):
            writer.write_batch(batch)

    def load_chunk(self, dataset_name: str, split: str, chunk_id: int) -> list[dict[str, Any]]:
        """The features of a chunk; none if there is no such chunk."""
        path = Path(self.get_cache_path(dataset_name, split, chunk_id))
        if path.is_file():
            try:
                with pa.OSFile(str(path)) as file:
                    batch = pa.ipc.open_file(file).get_batch(0)
                    batch.validate(full=True)
                    rows = batch.to_pylist()
            except (OSError, IndexError, UnicodeDecodeError, pa.ArrowException) as error:
                raise InputError(
                    f"`{path}` can't be read: {error}", hint="remove it, and save it again"
                ) from None
            return [_with_arrays(row) for row in rows]
        prepared = self._prepared(dataset_name, split)
        if prepared is None or self._saved(dataset_name, split) or chunk_id < 0:
            return []
        first = chunk_id * self.chunk_size
        return [prepared[number] for number in range(first, min(first + self.chunk_size, len(prepared)))]

    def _saved(self, dataset_name: str, split: str) -> list[Path]:
        prefix = cache_prefix(dataset_name, split)
        return sorted(Path(self.cache_dir).glob(f"{prefix}chunk-*.arrow"))

    def _prepared(self, dataset_name: str, split: str) -> QaDataset | None:
        prefix = cache_prefix(dataset_name, split)
        found = [path for path in Path(self.cache_dir).glob(f"{prefix}*") if (path / MANIFEST).is_file()]
        return QaDataset(max(found, key=lambda path: path.stat().st_mtime_ns)) if found else None


class StreamingSquadProcessor:
    """Makes features and hands them to a cache manager; `max_memory_gb` is the budget, in GiB."""

    def __init__(
        self,
        tokenizer: Any,
        max_seq_length: int = 384,
        doc_stride: int = 64,
        streaming_chunk_size: int = 1000,
        max_memory_gb: float = 8.0,
    ) -> None:
        if streaming_chunk_size < 1:
            raise ConfigError(
                f"`streaming_chunk_size` is `{streaming_chunk_size}`", hint="give a number from 1 on"
            )
        self.tokenizer = tokenizer
        self.max_seq_length = max_seq_length
        self.doc_stride = doc_stride
        self.streaming_chunk_size = streaming_chunk_size
        self.max_memory_gb = max_memory_gb

    def process_dataset_streaming(
        self,
        dataset_name: str,
        split: str,
        max_examples: int | None = None,
        cache_manager: CacheManager | None = None,
        max_n_segs: int | None = None,
    ) -> int:
        """All features of a dataset; returns how many.

        A `ChunkedCacheManager` gets a prepared cache in its folder. Any other object gets lists of features
        through its `save_chunk(features, dataset_name, split, chunk_id)`.
        """
        if cache_manager is None:
            raise ConfigError("no `cache_manager` is given", hint="give a ChunkedCacheManager, or your own")
        if isinstance(cache_manager, ChunkedCacheManager):
            return self._prepare(
                dataset_name, split, max_examples, max_n_segs, cache_manager.cache_dir
            ).features
        with tempfile.TemporaryDirectory(prefix="krill-") as temporary:
            made = self._prepare(dataset_name, split, max_examples, max_n_segs, temporary)
            for chunk_id, features in enumerate(self._chunks(QaDataset(made.folder))):
                cache_manager.save_chunk(features, dataset_name, split, chunk_id)
            return made.features

    def _prepare(
        self, dataset_name: str, split: str, max_examples: int | None, max_n_segs: int | None, folder: str
    ) -> Prepared:
        features = (self.tokenizer, self.max_seq_length, self.doc_stride, max_examples, max_n_segs)
        return prepare_cache_in_gib(dataset_name, split, folder, *features, max_memory_gb=self.max_memory_gb)

    def _chunks(self, dataset: QaDataset) -> Iterator[list[dict[str, Any]]]:
        for first in range(0, len(dataset), self.streaming_chunk_size):
            last = min(first + self.streaming_chunk_size, len(dataset))
            yield [dataset[number] for number in range(first, last)]


def _plain(value: Any) -> Any:
    """Arrays as lists: Arrow's own way from arrays loads pandas."""
    return value.tolist() if isinstance(value, np.ndarray) else value


def _with_arrays(row: dict[str, Any]) -> dict[str, Any]:
    for name in _ARRAYS:
        if isinstance(row.get(name), list):
            row[name] = np.array(row[name], np.int32)
    if isinstance(row.get("chosen_answer_char_span"), list):
        row["chosen_answer_char_span"] = tuple(row["chosen_answer_char_span"])
    return row
