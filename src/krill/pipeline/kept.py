"""What the stages after resolve read: the blocks of a unit, each with who survived.

A block comes from the input itself, read and cleaned again, or from the scan's spill where the input can
only be read from its beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from krill.corpus import Block, Corpus, Documents, Unit
from krill.corpus.arrays import as_arrow, pick_rows
from krill.errors import InputError
from krill.pipeline.scan import REJECTED, SPILL, digest
from krill.pipeline.survivors import Readable, SpilledBlock, hashes_of, survivors
from krill.storage import CommitLog
from krill.storage.commits import damaged, reading_artifact
from krill.text import Step
from krill.text.step import rejected_rows, with_columns, with_statistics

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

KEEP: Final = "keep"
"""A unit's file of survivors."""
CLUSTERS: Final = "clusters"
"""A unit's file of the clusters that its documents are in."""


@dataclass(frozen=True, slots=True)
class KeptBlock:
    """A block to read for good; `expected` is what the scan saw in it, `keep` who survived dedup, `clusters`
    to which cluster each belongs, and `path` its file, or the last of several small ones."""

    block: Readable
    steps: Sequence[Step]
    path: str
    expected: Mapping[str, Any] | None = None
    keep: NDArray[np.uint8] | None = None
    clusters: NDArray[Any] | None = None
    set_aside: Sequence[SpilledBlock] = ()
    """What the scan has rejected."""

    @property
    def nbytes(self) -> int:
        """What it will hold."""
        return self.block.nbytes

    def read(self) -> tuple[pa.RecordBatch, Mapping[str, int]]:
        """The surviving documents, and what was counted while reading."""
        documents = self._survivors()
        batch = documents.batch
        if self.keep is not None and not self.keep.all():
            batch = pick_rows(batch, self.keep.view(bool))
        return batch, documents.counts

    def rejected(self) -> Iterator[pa.RecordBatch]:
        """The other documents, each with its `reason`: what the scan set aside, then duplicates."""
        for spilled in self.set_aside:
            yield spilled.documents().batch
        if self.keep is not None and not self.keep.all():
            batch = self._survivors().batch
            codes = 1 - self.keep
            copies = rejected_rows(batch, codes, ("duplicate",))
            if self.clusters is not None:
                copies = with_columns(copies, cluster_columns(self.clusters[codes.view(bool)]))
            yield copies

    def _survivors(self) -> Documents:
        documents = survivors(self.block, self.steps)
        if self.expected is not None:
            self._check_unchanged(documents)
        if self.clusters is None:
            return documents
        return with_statistics(documents, cluster_columns(self.clusters))

    def _check_unchanged(self, documents: Documents) -> None:
        assert self.expected is not None
        same = documents.batch.num_rows == self.expected["documents"]
        if same and "digest" in self.expected and not isinstance(self.block, SpilledBlock):
            same = digest(hashes_of(documents)) == self.expected["digest"]
        if not same:
            raise _changed(self.path)


class KeptUnits:
    """The units that later stages work on, in input order.

    With a scan, units are those it committed; without one they come from the corpus, whose files can then
    all be read from any place, or are those that are given.
    """

    def __init__(
        self,
        corpus: Corpus,
        steps: Sequence[Step],
        scanned: CommitLog | None,
        resolved: CommitLog | None = None,
        *,
        clusters: bool = False,
        units: Iterable[Unit] | None = None,
    ) -> None:
        self._corpus = corpus
        self._steps = steps
        self._scanned = scanned
        self._resolved = resolved
        self.clusters = clusters
        if units is None:
            units = corpus.units() if scanned is None else ()
        self._units = {unit.position: unit for unit in units}

    def positions(self) -> list[int]:
        """The units' identities."""
        if self._scanned is not None:
            return [position for position, _ in self._scanned]
        return list(self._units)

    def unit(self, position: int) -> Unit | None:
        """The unit at a position, where nothing was scanned."""
        return self._units.get(position)

    def blocks(self, position: int) -> Iterator[KeptBlock]:
        """The blocks of one unit."""
        if self._scanned is not None:
            return self._seen(position, self._scanned.record(position))
        return self._fresh(self._units[position])

    def _fresh(self, unit: Unit) -> Iterator[KeptBlock]:
        for block in self._corpus.blocks(unit):
            yield KeptBlock(block, self._steps, self._path(block))

    def _seen(self, position: int, record: Mapping[str, Any]) -> Iterator[KeptBlock]:
        keep = self._keep(position, record["documents"])
        clusters = self._cluster_records(position, record["documents"]) if self.clusters else None
        spilled = bool(record["blocks"]) and "spill" in record["blocks"][0]
        blocks = self._spilled(position, record) if spilled else self._read_again(record)
        first = 0
        for seen, (path, block) in zip(record["blocks"], blocks, strict=True):
            rows = slice(first, first + seen["documents"])
            yield KeptBlock(
                block,
                () if spilled else self._steps,
                path,
                seen,
                None if keep is None else keep[rows],
                None if clusters is None else clusters[rows],
                self._set_aside(position, seen),
            )
            first = rows.stop

    def _set_aside(self, position: int, seen: Mapping[str, Any]) -> list[SpilledBlock]:
        assert self._scanned is not None
        places = seen.get("rejected", ())
        if not places:
            return []
        path = self._scanned.path(position, REJECTED)
        return [SpilledBlock(path, offset, size, size) for offset, size in places]

    def _spilled(self, position: int, record: Mapping[str, Any]) -> Iterator[tuple[str, Readable]]:
        assert self._scanned is not None
        path = self._scanned.path(position, SPILL)
        for seen in record["blocks"]:
            yield str(path), SpilledBlock(path, *seen["spill"])

    def _read_again(self, record: Mapping[str, Any]) -> Iterator[tuple[str, Readable]]:
        """The blocks of a unit as they are now, which must be as many as the scan saw."""
        unit = Unit.from_json(record["unit"])
        path = self._corpus.files[unit.parts[-1].file].path
        expected = len(record["blocks"])
        found = 0
        for found, block in enumerate(self._corpus.blocks(unit), start=1):
            path = self._path(block)
            if found > expected:
                raise _changed(path)
            yield path, block
        if found < expected:
            raise _changed(path)

    def _path(self, block: Block) -> str:
        return self._corpus.files[block.file].path

    def _keep(self, position: int, documents: int) -> NDArray[np.uint8] | None:
        return None if self._resolved is None else read_keep(self._resolved.path(position, KEEP), documents)

    def _cluster_records(self, position: int, documents: int) -> NDArray[Any]:
        import numpy as np

        from krill.dedup import CLUSTER_RECORD

        assert self._resolved is not None
        path = self._resolved.path(position, CLUSTERS)
        with reading_artifact(path):
            records = np.fromfile(path, CLUSTER_RECORD)
        if len(records) != documents:
            raise damaged(path, f"has {len(records):,} records for {documents:,} documents")
        return records


def read_keep(path: Path, count: int) -> NDArray[np.uint8]:
    """The flags of a file of keep bits."""
    import numpy as np

    with reading_artifact(path):
        packed = np.fromfile(path, np.uint8)
    if len(packed) != -(-count // 8):
        raise damaged(path, f"has {len(packed):,} bytes for {count:,} flags")
    return np.unpackbits(packed, count=count, bitorder="little")


def cluster_columns(records: NDArray[Any]) -> list[tuple[str, pa.Array]]:
    """The columns that tell a document's cluster: the number of its first document, and its size."""
    return [("cluster", as_arrow(records["cluster"])), ("cluster_size", as_arrow(records["size"]))]


def _changed(path: str) -> InputError:
    return InputError(
        f"the input changed while it was read: `{path}`, or a small file before it, gave other documents than"
        " before",
        hint="run the command again with --overwrite when the files are at rest",
    )
