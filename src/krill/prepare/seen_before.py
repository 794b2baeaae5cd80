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

import orjson

from krill.config import KrillConfig
from krill.corpus import DatasetSource
from krill.dedup import DedupIndex, Pending
from krill.dedup.index import DESCRIPTION
from krill.flow import CommitLog
from krill.flow.atomic import write_json
from krill.flow.commits import reading_artifact
from krill.prepare.resolve import kind_of, noted_files

_PINNED = "pinned.json"


def against_sources(config: KrillConfig) -> list[DatasetSource]:
    """The corpora among the entries of `against`."""
    return [DatasetSource(path) for path in config.preprocess.dedup.against if not _is_index(path)]


def against_files(config: KrillConfig, scanned: CommitLog) -> list[Path]:
    """What was noted of the documents of `against`, and the indexes among its entries."""
    dedup = config.preprocess.dedup
    indexes = [DedupIndex(path) for path in dedup.against if _is_index(path)]
    generations = [found for index in indexes for found in index.pin(kind_of(dedup), "")]
    return [*(found.path for found in generations), *noted_files(dedup, scanned)]


class EarlierRuns:
    """The persistent index of this config, as it was when the run was begun."""

    def __init__(self, folder: str, config: KrillConfig, identity: str) -> None:
        self._index = DedupIndex(folder)
        self._config = config
        self._identity = identity

    def pinned(self, stages: Path) -> list[Path]:
        """What they kept; decided once for all lives of a run."""
        path = stages / _PINNED
        kind = kind_of(self._config.preprocess.dedup)
        if not path.exists():
            write_json(path, [found.name for found in self._index.pin(kind, self._identity)])
        with reading_artifact(path):
            names = orjson.loads(path.read_bytes())
        return [found.path for found in self._index.pinned(names)]

    def prepare(self, scanned: CommitLog, keep_files: Sequence[Path]) -> Pending:
        """What this run kept, written and not counting yet."""
        dedup = self._config.preprocess.dedup
        return self._index.prepare(kind_of(dedup), self._identity, noted_files(dedup, scanned), keep_files)

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
