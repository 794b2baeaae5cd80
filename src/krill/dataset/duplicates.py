"""Clusters of near-duplicates to show: the document that was kept beside those that were dropped.

In: an output with its kept and its rejected documents and the columns that name clusters. Out: some clusters,
with the beginnings of their documents. Held in memory: the clusters' numbers of a row group, and the texts
that are shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from krill.corpus.arrays import as_numpy
from krill.dataset.manifest import Manifest, TextPart
from krill.dataset.shard_file import ShardFile
from krill.dataset.text_shard import TextShardReader
from krill.errors import InputError

_SHOWN_CHARS = 600
_SHOWN_DOCUMENTS = 4


@dataclass(slots=True)
class Cluster:
    """Near-duplicates: `size` documents, of which the first was kept; `dropped` are some of the others."""

    cluster: int
    size: int
    kept: str | None = None
    dropped: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def find_clusters(folder: Path, count: int, room: int | None = None) -> list[Cluster]:
    """The first `count` clusters among the rejected documents, in input order; `room` is the reader's."""
    manifest = Manifest.load(folder)
    if manifest.text is None or manifest.rejected is None or not _has_clusters(folder, manifest):
        raise InputError(
            f"`{folder}` does not say which documents are near-duplicates of which",
            hint="run with `output: text` (or `both`), `rejected: true` and"
            " `dedup: {method: minhash, clusters: true}` under `preprocess:`",
        )
    clusters: dict[int, Cluster] = {}
    for numbers, sizes, texts in _groups(folder, manifest.rejected, room):
        for row in np.flatnonzero(sizes).tolist():
            number = int(numbers[row])
            if number not in clusters and len(clusters) < count:
                clusters[number] = Cluster(number, int(sizes[row]))
            if number in clusters and len(clusters[number].dropped) < _SHOWN_DOCUMENTS - 1:
                clusters[number].dropped.append(_beginning(texts, row))
        if _complete(clusters, count):
            break
    _add_kept(folder, manifest.text, clusters, room)
    return [clusters[number] for number in sorted(clusters)]


def _add_kept(folder: Path, part: TextPart, clusters: dict[int, Cluster], room: int | None) -> None:
    missing = {number for number, cluster in clusters.items() if cluster.kept is None}
    for numbers, _, texts in _groups(folder, part, room):
        wanted = np.isin(numbers, np.array(sorted(missing), np.uint64))
        for row in np.flatnonzero(wanted).tolist():
            clusters[int(numbers[row])].kept = _beginning(texts, row)
            missing.discard(int(numbers[row]))
        if not missing:
            return


def _complete(clusters: dict[int, Cluster], count: int) -> bool:
    """Whether no further document would be shown."""
    shown = (min(cluster.size, _SHOWN_DOCUMENTS) - 1 for cluster in clusters.values())
    found = (len(cluster.dropped) for cluster in clusters.values())
    return len(clusters) == count and all(map(int.__ge__, found, shown))


def _groups(
    folder: Path, part: TextPart, room: int | None
) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.uint32], Any]]:
    """Clusters, sizes and texts of each row group; a size of 0 where a document is in no cluster."""
    for shard in part.shards:
        file = ShardFile(folder, shard)
        with TextShardReader(file, room=room) as opened:
            if "cluster" not in opened.names:
                continue
            for group in range(len(opened.group_rows)):
                rows = opened.read(group, ["text", "cluster", "cluster_size"])
                if rows.schema.types != [pa.large_string(), pa.uint64(), pa.uint32()]:
                    file.fail(f"has other columns than clusters: `{', '.join(map(str, rows.schema.types))}`")
                for batch in rows.combine_chunks().to_batches():
                    numbers = as_numpy(batch.column("cluster").fill_null(0), "uint64")
                    sizes = as_numpy(batch.column("cluster_size").fill_null(0), "uint32")
                    yield numbers, sizes, batch.column("text")


def _has_clusters(folder: Path, manifest: Manifest) -> bool:
    assert manifest.text is not None
    for shard in manifest.text.shards[:1]:
        with TextShardReader(ShardFile(folder, shard)) as opened:
            return "cluster" in opened.names
    return False


def _beginning(texts: Any, row: int) -> str:
    text = texts[row].as_py() or ""
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
