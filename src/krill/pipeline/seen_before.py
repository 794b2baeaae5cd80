"""What counts as seen before: the documents of `dedup.against`, and what earlier runs kept.

In: the config. Out: files of hashes or bands, of the kind that this run makes. Held in memory: the blocks
being scanned.

The documents of `against` pass the same steps as the input, so that what is equal compares equal. What the
persistent index holds is pinned when a run is begun and kept with its stages: a run that goes on later sees
the same, whatever has been added meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from krill.config import DedupConfig, KrillConfig
from krill.corpus import Corpus, DatasetSource
from krill.dedup import DedupIndex, Pending, hash_kind, minhash_kind
from krill.dedup.index import DESCRIPTION, Storage, storage_of
from krill.dedup.index_database import DatabaseIndex, IndexInput
from krill.pipeline.dedup_needs import minhash_of
from krill.pipeline.stages.scan import BANDS, HASHES, POSITIONS
from krill.storage import CommitLog
from krill.storage.atomic import write_json
from krill.storage.commits import damaged, reading_artifact
from krill.storage.input_file import MOST_MANIFEST, read_json

_PINNED = "pinned.json"
_SEEN = "seen-before"


def kind_of(dedup: DedupConfig) -> str:
    """What is compared with what: numbers of different kinds don't belong together."""
    minhash = minhash_of(dedup)
    return hash_kind(dedup.level) if minhash is None else minhash_kind(minhash)


def hash_files(dedup: DedupConfig, scanned: CommitLog) -> list[Path]:
    """The scan's files of hashes or bands, one for each unit."""
    name = BANDS if dedup.method == "minhash" else HASHES
    return [scanned.place(unit, name) for unit in scanned.units()]


def against_sources(config: KrillConfig) -> list[DatasetSource]:
    """The corpora among the entries of `against`."""
    return [DatasetSource(path) for path in config.preprocess.dedup.against if not _is_index(path)]


def against_files(config: KrillConfig, scanned: CommitLog, stages: Path) -> list[Path]:
    """The hashes or bands of the documents of `against`, and of the indexes among its entries."""
    dedup = config.preprocess.dedup
    files: list[Path] = []
    for number, folder in enumerate(path for path in dedup.against if _is_index(path)):
        index = _index(folder, storage_of(folder) or "files")
        names = [found.name for found in index.pin(kind_of(dedup), "")]
        files += _files_of(index, kind_of(dedup), names, stages / f"{_SEEN}-{number}")
    return [*files, *hash_files(dedup, scanned)]


class EarlierRuns:
    """The persistent index of this config, as it was when the run was begun."""

    def __init__(self, folder: str, config: KrillConfig, identity: str) -> None:
        self._index = _index(folder, config.preprocess.dedup.index)
        self._config = config
        self._kind = kind_of(config.preprocess.dedup)
        self._identity = identity

    def pinned(self, stages: Path) -> list[Path]:
        """What they kept; decided once, also for a run that is continued."""
        path = stages / _PINNED
        if not path.exists():
            write_json(path, [found.name for found in self._index.pin(self._kind, self._identity)])
        try:
            with reading_artifact(path):
                names = read_json(path, MOST_MANIFEST)
        except ValueError:
            raise damaged(path, "is not a list of names") from None
        return _files_of(self._index, self._kind, names, stages / _SEEN)

    def prepare(self, scanned: CommitLog, keep_files: Sequence[Path], corpus: Corpus) -> Pending:
        """What this run kept, written and not counting yet."""
        dedup = self._config.preprocess.dedup
        files = hash_files(dedup, scanned)
        if isinstance(self._index, DedupIndex):
            return self._index.prepare(self._kind, self._identity, files, keep_files)
        kept = IndexInput(
            files,
            keep_files,
            [scanned.path(unit, POSITIONS) for unit in scanned.units()],
            (file.path for file in corpus.files),
            self._config.preprocess.prepared_path,
        )
        return self._index.prepare(self._kind, self._identity, kept)

    def adopt(self) -> None:
        """Let what this run has kept count, if it died between its end and that."""
        self._index.adopt(self._identity)


def earlier_runs(config: KrillConfig, identity: str) -> EarlierRuns | None:
    """The index that the config names."""
    folder = config.preprocess.dedup_cache_dir
    if folder is None or config.preprocess.dedup.method == "none":
        return None
    return EarlierRuns(folder, config, identity)


def _is_index(path: str) -> bool:
    return (Path(path) / DESCRIPTION).is_file()


def _index(folder: str, storage: Storage) -> DedupIndex | DatabaseIndex:
    return DedupIndex(folder) if storage == "files" else DatabaseIndex(folder, storage)


def _files_of(index: DedupIndex | DatabaseIndex, kind: str, names: Sequence[str], path: Path) -> list[Path]:
    """What the runs `names` kept, as files of numbers; out of a database they are written to `path` once."""
    if isinstance(index, DedupIndex):
        return [found.path for found in index.pinned(names)]
    if names and not path.exists():
        index.write_pinned(kind, names, path)
    return [path] if names else []
