"""Question answering under the seeds' names: one call to prepare, one to open, one to load, or from the hub.

In: a dataset's name or path, a tokenizer, lengths. Out: a cache in `cache_dir`, a lazy dataset of
it, batches. What is asked for decides which cache is used: source, tokenizer, lengths, stride and memory
tokens are all in its name, so a stale one is never served and a fresh one is always found.

`use_streaming`, `use_lazy_loading` and `streaming_chunk_size` are taken and change nothing: there is one way,
which streams and loads lazily. On the hub, a cache is a folder of a dataset repository; it appears whole
or not at all.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from krill.budget import resident_bytes, resolve_limit
from krill.dataset.shard import is_plain_name
from krill.engines import Resources
from krill.errors import BudgetError, ConfigError, InputError
from krill.faults import system_errors
from krill.qa.batches import BatchShape, Framework, QaLoader, Strategy
from krill.qa.cache import Prepared, describe, open_job, run_job, write_manifest
from krill.qa.dataset import QaDataset
from krill.qa.features import Shape
from krill.qa.stored import read_manifest
from krill.qa.tables import SCHEMAS, check_unit
from krill.storage.hub import RepositoryKind, fetch_folder, hub_files, push_files
from krill.storage.outputs import MANIFEST, check_file, stated_checksums
from krill.threads.progress import Silent

GIB: Final = 2**30
# These calls have one thread.
_FEWER_THREADS: Final = "; or take fewer --threads"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_KIND: Final[RepositoryKind] = "dataset"
_TABLES: Final = tuple(f"{table}-*.arrow" for table in SCHEMAS)


class HubCaches:
    def __init__(self, repository: str, token: str | None = None, endpoint: str | None = None) -> None:
        self._repository = repository
        self._token = token
        self._endpoint = endpoint

    def upload(self, folder: Path, *, private: bool) -> str:
        """Upload a cache; returns the repository's address."""
        manifest = _checked_manifest(folder)
        # Paths of this machine are not uploaded; fingerprints identify the questions.
        inputs = [{**entry, "path": Path(entry["path"]).name} for entry in manifest["inputs"]]
        with tempfile.TemporaryDirectory(prefix="krill-hub-") as temporary:
            for pattern in _TABLES:
                for path in folder.glob(pattern):
                    (Path(temporary) / path.name).symlink_to(path.resolve())
            write_manifest(Path(temporary), {**manifest, "inputs": inputs})
            return push_files(
                Path(temporary),
                (MANIFEST, *_TABLES),
                self._repository,
                message=f"Features: {folder.name}",
                private=private,
                endpoint=self._endpoint,
                kind=_KIND,
                inside=folder.name,
                token=self._token,
            )

    def fetch(self, folder: Path) -> bool:
        """Download the cache that is named like `folder`; False if the repository has none."""
        return fetch_folder(
            self._repository, folder, _check_cache, kind=_KIND, endpoint=self._endpoint, token=self._token
        )

    def fetch_split(self, split: str, cache_dir: Path) -> Path:
        """Download the only cache of a split, if it is not here; returns where it is."""
        files = hub_files(self._repository, kind=_KIND, endpoint=self._endpoint, token=self._token)
        names = [name.removesuffix(f"/{MANIFEST}") for name in files if name.endswith(f"/{MANIFEST}")]
        found = [name for name in names if "/" not in name and f"-{split}-" in name]
        if len(found) != 1:
            raise InputError(
                f"`{self._repository}` has {len(found)} caches of the split `{split}`:"
                f" {', '.join(names) or 'none at all'}",
                hint="use create_dataset_from_cache with hub_dataset_id, which takes the one that fits",
            )
        if not (cache_dir / found[0]).exists():
            self.fetch(cache_dir / found[0])
        return cache_dir / found[0]


def _check_cache(folder: Path) -> None:
    """Refuse a damaged cache: others have made it, and its numbers are trusted from here on."""
    for number in range(len(_checked_manifest(folder)["units"])):
        check_unit(folder, number)


def _checked_manifest(folder: Path) -> dict[str, Any]:
    manifest = read_manifest(folder)
    for name, expected in stated_checksums(manifest).items():
        if is_plain_name(name):
            check_file(folder / name, expected)
    return manifest


def prepare_cache(
    dataset_name: str | Path,
    split: str,
    cache_dir: str | Path,
    tokenizer: Any,
    max_seq_length: int = 384,
    doc_stride: int = 128,
    max_examples: int | None = None,
    max_n_segs: int | None = None,
    *,
    memory: str | int = "auto",
    hub: HubCaches | None = None,
) -> Prepared:
    """The cache of these features in `cache_dir`; if it is not there, it is downloaded or made."""
    floor = resident_bytes()
    if tokenizer is None:
        raise ConfigError(
            "no tokenizer is given", hint="give one of `transformers` or `tokenizers`, or a path"
        )
    shape = Shape(max_seq_length, doc_stride, max_n_segs)
    resources = Resources(resolve_limit(memory), 1, floor)
    job = open_job(dataset_name, split, tokenizer, shape, max_examples, resources=resources)
    folder = Path(cache_dir) / f"{cache_prefix(dataset_name, split)}{describe(job)['identity'][:16]}"
    if hub is not None and not folder.exists():
        hub.fetch(folder)
    return run_job(job, folder, overwrite=False, progress=Silent())


def cache_prefix(dataset_name: str | Path, split: str) -> str:
    """How the folders of all caches of a dataset and split begin."""
    return f"{_UNSAFE.sub('-', Path(dataset_name).name)}-{_UNSAFE.sub('-', split)}-"


def prepare_cache_in_gib(*dataset_and_features: Any, max_memory_gb: float) -> Prepared:
    """`prepare_cache` with the budget as these calls name it, `max_memory_gb`, in GiB, also in refusals."""
    try:
        return prepare_cache(*dataset_and_features, memory=int(max_memory_gb * GIB))
    except BudgetError as error:

        def in_gib(found: re.Match[str]) -> str:
            return f"max_memory_gb={math.ceil(int(found[1]) * 10**6 / GIB * 1000) / 1000}"

        hint = re.sub(r"--memory (\d+)MB", in_gib, (error.hint or "").removesuffix(_FEWER_THREADS))
        raise BudgetError(error.message, hint=hint.replace("--memory", "max_memory_gb")) from None


@system_errors()
def process_and_cache_dataset(
    dataset_name: str,
    split: str,
    cache_dir: str,
    max_examples: int | None,
    max_seq_length: int,
    doc_stride: int,
    streaming_chunk_size: int,
    tokenizer: Any,
    max_n_segs: int | None = None,
    use_streaming: bool = True,
    max_memory_gb: float = 8.0,
) -> int:
    """Make the features of a dataset and keep them in `cache_dir`; returns how many there are.

    `dataset_name` is a hub id, a SQuAD file, JSON lines, or a folder; `max_memory_gb` is the budget, in GiB.
    """
    features = (tokenizer, max_seq_length, doc_stride, max_examples, max_n_segs)
    made = prepare_cache_in_gib(dataset_name, split, cache_dir, *features, max_memory_gb=max_memory_gb)
    return made.features


@system_errors()
def create_dataset_from_cache(
    dataset_name: str,
    split: str,
    cache_dir: str,
    max_examples: int | None,
    max_seq_length: int,
    doc_stride: int,
    max_n_segs: int | None = None,
    tokenizer: Any = None,
    use_lazy_loading: bool = True,
    hub_dataset_id: str | None = None,
    use_hub_dataset: bool = True,
    hub_token: str | None = None,
    memory: str | int = "auto",
) -> QaDataset:
    """The dataset of these features. What is not in `cache_dir` comes from the hub's `hub_dataset_id`, if one
    is given and it holds these very features, or else is made."""
    hub = None if hub_dataset_id is None or not use_hub_dataset else HubCaches(hub_dataset_id, hub_token)
    features = (tokenizer, max_seq_length, doc_stride, max_examples, max_n_segs)
    made = prepare_cache(dataset_name, split, cache_dir, *features, memory=memory, hub=hub)
    return QaDataset(made.folder, memory=memory)


def create_dataloader(
    dataset: QaDataset,
    batch_size: int,
    shuffle: bool = False,
    num_workers: int = 0,
    use_time_step_major: bool = True,
    max_segments: int | None = None,
    segment_selection_strategy: Strategy = "answer_centered",
    epoch_seed: int | None = None,
    framework: Framework = "torch",
) -> QaLoader:
    """Batches of a dataset: lists over time steps, or plain features. Each iteration is another epoch, in an
    order that follows from `epoch_seed` and the number of the epoch; workers are threads."""
    shape = BatchShape(
        batch_size, use_time_step_major, max_segments, segment_selection_strategy, framework, num_workers
    )
    return QaLoader(dataset, shape, shuffle=shuffle, seed=epoch_seed or 0)


def create_evaluation_dataloader(
    dataset_name: str,
    split: str,
    tokenizer: Any,
    max_seq_length: int = 384,
    doc_stride: int = 64,
    batch_size: int = 8,
    max_examples: int | None = None,
    max_n_segs: int | None = None,
    cache_dir: str = "./.cache",
    use_time_step_major: bool = True,
    framework: Framework = "torch",
) -> tuple[QaDataset, QaLoader]:
    """The dataset of these features, made if need be, and batches of all of it in order."""
    dataset = create_dataset_from_cache(
        dataset_name, split, cache_dir, max_examples, max_seq_length, doc_stride, max_n_segs, tokenizer
    )
    loader = create_dataloader(
        dataset, batch_size, use_time_step_major=use_time_step_major, framework=framework
    )
    return dataset, loader


class LazySquadLikeQADataset(QaDataset):
    """The dataset of a cache that `cache_manager` keeps; made if it is missing.

    `cache_params` are `tokenizer`, `max_seq_length`, `doc_stride`, `max_examples` and `max_n_segs`.
    """

    def __init__(
        self,
        cache_manager: Any,
        dataset_name: str,
        split: str,
        cache_params: Mapping[str, Any],
        *,
        memory: str | int = "auto",
    ) -> None:
        made = prepare_cache(dataset_name, split, cache_manager.cache_dir, memory=memory, **cache_params)
        super().__init__(made.folder, memory=memory)


def upload_processed_dataset_to_hub(
    dataset_name: str,
    split: str,
    hub_dataset_id: str,
    tokenizer: Any,
    max_seq_length: int = 384,
    doc_stride: int = 64,
    max_examples: int | None = None,
    max_n_segs: int | None = None,
    cache_dir: str = "./.cache",
    hub_token: str | None = None,
    private: bool = False,
) -> str:
    """Put the cache of these features, made if need be, into a dataset repository of the hub; returns its
    address. `create_dataset_from_cache(hub_dataset_id=...)` finds it there."""
    features = (tokenizer, max_seq_length, doc_stride, max_examples, max_n_segs)
    made = prepare_cache(dataset_name, split, cache_dir, *features)
    return HubCaches(hub_dataset_id, hub_token).upload(made.folder, private=private)


def load_dataset_from_hub(
    hub_dataset_id: str,
    split: str,
    cache_dir: str = "./.cache",
    hub_token: str | None = None,
    memory: str | int = "auto",
) -> QaDataset:
    """The dataset of the one cache that the repository holds for a split."""
    return QaDataset(HubCaches(hub_dataset_id, hub_token).fetch_split(split, Path(cache_dir)), memory=memory)
