"""What every stage reads: the blocks of a unit, each as the documents that survive.

In: blocks of the corpus, or of what the scan kept of it, and who survived deduplication. Out: documents that
pass all steps, the same in every stage that reads them. Held in memory: one block at a time.

A block comes from the input itself, read and cleaned again, or from the scan's spill where the input can
only be read from its beginning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from krill import _native
from krill.corpus import Block, Corpus, Documents, Unit
from krill.corpus.arrays import as_arrow, pick_rows
from krill.corpus.blocks import RangeBlock
from krill.corpus.buffers import text_buffers
from krill.corpus.checks import check_batch
from krill.dedup import CLUSTER_RECORD
from krill.errors import InputError
from krill.storage import CommitLog
from krill.storage.commits import damaged, reading_artifact
from krill.text import Step
from krill.text.clean import CleanText, with_reasons
from krill.text.step import rejected_rows, with_columns, with_statistics

KEEP: Final = "keep"
"""A unit's file of survivors."""
CLUSTERS: Final = "clusters"
"""A unit's file of the clusters that its documents are in."""
SPILL: Final = "spill"
"""A unit's file of documents that the scan kept, compressed."""
REJECTED: Final = "rejected"
"""A unit's file of documents that the scan rejected."""


class BlockOfDocuments(Protocol):
    """A piece of input that knows its size and how to become documents: a corpus block or a spilled one."""

    @property
    def nbytes(self) -> int: ...

    def documents(self) -> Documents: ...


@dataclass(frozen=True, slots=True)
class SpilledBlock:
    """The survivors of one block, as the scan wrote them: an Arrow stream of its own in the unit's file."""

    path: Path
    offset: int
    size: int
    text_bytes: int

    @property
    def nbytes(self) -> int:
        """What it will hold: the compressed bytes and the text they unfold to."""
        return self.size + self.text_bytes

    def documents(self) -> Documents:
        with reading_artifact(self.path), self.path.open("rb", buffering=0) as file:
            file.seek(self.offset)
            data = file.read(self.size)
        try:
            with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
                batch = reader.read_next_batch()
            check_batch(batch)
            return Documents(batch, {})
        except (pa.ArrowException, OSError, StopIteration) as error:
            raise damaged(self.path, f"is not as it was written: {error}") from error


def spill(batch: pa.RecordBatch) -> pa.Buffer:
    """A batch as a compressed Arrow stream of its own."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 1), use_threads=False)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def survivors(block: BlockOfDocuments, steps: Sequence[Step], *, collect: bool = False) -> Documents:
    """The documents of `block` that pass every step, and why the others did not: with `collect`, the others
    themselves."""
    first = steps[0] if steps else None
    if isinstance(first, CleanText) and isinstance(block, RangeBlock) and block.cleans:
        documents = block.clean_documents(first.strip, first.min_chars)
        rejected = tuple(map(with_reasons, documents.rejected or ())) if collect else None
        steps = steps[1:]
    else:
        documents, rejected = block.documents(), () if collect else None
    documents = replace(documents, rejected=rejected)
    for step in steps:
        documents = step.apply(documents)
    return documents


def hashes_of(documents: Documents) -> NDArray[np.uint64]:
    """The 128-bit hash of each document."""
    if documents.hashes is not None:
        return documents.hashes
    return _native.hash_documents(*text_buffers(documents.batch.column("text")))


def add_counts(total: dict[str, int], counts: Mapping[str, int]) -> None:
    for name, count in counts.items():
        if count:
            total[name] = total.get(name, 0) + count


def digest(hashes: NDArray[np.uint64]) -> str:
    """An order-free fingerprint of a block's documents."""
    first, second = np.bitwise_xor.reduce(hashes, axis=0).tolist() if len(hashes) else (0, 0)
    return f"{first:016x}{second:016x}"


def text_bytes(batch: pa.RecordBatch) -> int:
    offsets, _ = text_buffers(batch.column("text"))
    return int(offsets[-1] - offsets[0])


@dataclass(frozen=True, slots=True)
class SurvivingBlock:
    """A block to read for good; `expected` is what the scan saw in it, `keep` who survived dedup, `clusters`
    to which cluster each belongs, and `path` its file, or the last of several small ones."""

    block: BlockOfDocuments
    steps: Sequence[Step]
    path: str
    expected: Mapping[str, Any] | None = None
    keep: NDArray[np.uint8] | None = None
    clusters: NDArray[Any] | None = None
    set_aside: Sequence[SpilledBlock] = ()
    """What the scan has rejected."""
    collect: bool = False
    """Whether what steps drop is wanted."""

    @property
    def nbytes(self) -> int:
        return self.block.nbytes

    def read(self) -> tuple[pa.RecordBatch, Mapping[str, int]]:
        """The surviving documents, and what was counted while reading."""
        documents = self.documents()
        return documents.batch, documents.counts

    def documents(self) -> Documents:
        """The same with what was dropped on the way, where nobody has seen it before."""
        documents = self._survivors()
        if self.keep is not None and not self.keep.all():
            documents = replace(documents, batch=pick_rows(documents.batch, self.keep.view(bool)))
        return documents

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
        documents = survivors(self.block, self.steps, collect=self.collect)
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


@dataclass(frozen=True, slots=True)
class SurvivingUnits:
    """The units that later stages work on, in input order.

    With a scan, units are those it committed; without one they come from the corpus, whose files can then
    all be read from any place.
    """

    corpus: Corpus
    steps: Sequence[Step]
    scanned: CommitLog | None
    resolved: CommitLog | None = None
    clusters: bool = False
    collect: bool = False
    """Whether what steps drop is wanted, where nothing was scanned."""

    def tasks(self) -> Iterator[Any]:
        """Each unit as a task names it: by its position or, where nothing was scanned, as a whole."""
        if self.scanned is not None:
            return iter(self.scanned.units())
        return (unit.to_json() for unit in self.corpus.units())

    def blocks(self, task: Any) -> Iterator[SurvivingBlock]:
        if self.scanned is not None:
            return self._seen(task, self.scanned.record(task))
        return self._fresh(Unit.from_json(task))

    def _fresh(self, unit: Unit) -> Iterator[SurvivingBlock]:
        for block in self.corpus.blocks(unit):
            yield SurvivingBlock(block, self.steps, self._path(block), collect=self.collect)

    def _seen(self, position: int, record: Mapping[str, Any]) -> Iterator[SurvivingBlock]:
        keep = self._keep(position, record["documents"])
        clusters = self._cluster_records(position, record["documents"]) if self.clusters else None
        spilled = bool(record["blocks"]) and "spill" in record["blocks"][0]
        blocks = self._spilled(position, record) if spilled else self._read_again(record)
        first = 0
        for seen, (path, block) in zip(record["blocks"], blocks, strict=True):
            rows = slice(first, first + seen["documents"])
            yield SurvivingBlock(
                block,
                () if spilled else self.steps,
                path,
                seen,
                None if keep is None else keep[rows],
                None if clusters is None else clusters[rows],
                self._set_aside(position, seen),
            )
            first = rows.stop

    def _set_aside(self, position: int, seen: Mapping[str, Any]) -> list[SpilledBlock]:
        assert self.scanned is not None
        places = seen.get("rejected", ())
        if not places:
            return []
        path = self.scanned.path(position, REJECTED)
        return [SpilledBlock(path, offset, size, size) for offset, size in places]

    def _spilled(self, position: int, record: Mapping[str, Any]) -> Iterator[tuple[str, BlockOfDocuments]]:
        assert self.scanned is not None
        path = self.scanned.path(position, SPILL)
        for seen in record["blocks"]:
            yield str(path), SpilledBlock(path, *seen["spill"])

    def _read_again(self, record: Mapping[str, Any]) -> Iterator[tuple[str, BlockOfDocuments]]:
        """The blocks of a unit as they are now, which must be as many as the scan saw."""
        unit = Unit.from_json(record["unit"])
        path = self.corpus.files[unit.parts[-1].file].path
        expected = len(record["blocks"])
        found = 0
        for found, block in enumerate(self.corpus.blocks(unit), start=1):
            path = self._path(block)
            if found > expected:
                raise _changed(path)
            yield path, block
        if found < expected:
            raise _changed(path)

    def _path(self, block: Block) -> str:
        return self.corpus.files[block.file].path

    def _keep(self, position: int, documents: int) -> NDArray[np.uint8] | None:
        return None if self.resolved is None else read_keep(self.resolved.path(position, KEEP), documents)

    def _cluster_records(self, position: int, documents: int) -> NDArray[Any]:
        assert self.resolved is not None
        path = self.resolved.path(position, CLUSTERS)
        with reading_artifact(path):
            records = np.fromfile(path, CLUSTER_RECORD)
        if len(records) != documents:
            raise damaged(path, f"has {len(records):,} records for {documents:,} documents")
        return records


def read_keep(path: Path, count: int) -> NDArray[np.uint8]:
    """The flags of a file of keep bits."""
    with reading_artifact(path):
        packed = np.fromfile(path, np.uint8)
    if len(packed) != -(-count // 8):
        raise damaged(path, f"has {len(packed):,} bytes for {count:,} flags")
    return np.unpackbits(packed, count=count, bitorder="little")


def cluster_columns(records: NDArray[Any]) -> list[tuple[str, pa.Array]]:
    """The columns of a document's cluster: the number of its first document, and its size."""
    return [("cluster", as_arrow(records["cluster"])), ("cluster_size", as_arrow(records["size"]))]


def _changed(path: str) -> InputError:
    return InputError(
        f"the input changed while it was read: `{path}`, or a small file before it, gave other documents than"
        " before",
        hint="run the command again with --overwrite when the files are at rest",
    )
