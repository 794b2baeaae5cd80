"""What the stages after resolve read: the blocks of a unit, each with who survived.

A block comes from the input itself, read and cleaned again, or from the scan's spill where the input can
only be read from its beginning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from krill.corpus import Block, Corpus, Unit
from krill.corpus.arrays import pick_rows
from krill.errors import InputError
from krill.flow import CommitLog
from krill.flow.commits import reading_artifact
from krill.prepare.scan import SPILL, digest, hash_text
from krill.prepare.survivors import Readable, SpilledBlock, survivors
from krill.text import Step

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class KeptBlock:
    """A block to read for good; `expected` is what the scan saw in it, `keep` who survived dedup, and `path`
    its file, or the last of several small ones."""

    block: Readable
    steps: Sequence[Step]
    expected: Mapping[str, Any] | None
    keep: NDArray[np.uint8] | None
    path: str

    @property
    def nbytes(self) -> int:
        """What it will hold."""
        return self.block.nbytes

    def read(self) -> tuple[pa.RecordBatch, Mapping[str, int]]:
        """The surviving documents, and what was counted while reading."""
        documents = survivors(self.block, self.steps)
        batch = documents.batch
        if self.expected is not None:
            self._check_unchanged(batch)
        if self.keep is not None and not self.keep.all():
            batch = pick_rows(batch, self.keep.view(bool))
        return batch, documents.counts

    def _check_unchanged(self, batch: pa.RecordBatch) -> None:
        assert self.expected is not None
        same = batch.num_rows == self.expected["documents"]
        if same and "digest" in self.expected and not isinstance(self.block, SpilledBlock):
            same = digest(hash_text(batch)) == self.expected["digest"]
        if not same:
            raise _changed(self.path)


class KeptUnits:
    """The units that later stages work on, in input order.

    With a scan, units are those it committed; without one they come from the corpus, whose files can then
    all be read from any place.
    """

    def __init__(
        self, corpus: Corpus, steps: Sequence[Step], scanned: CommitLog | None, keep_files: Path | None
    ) -> None:
        self._corpus = corpus
        self._steps = steps
        self._scanned = scanned
        self._keep_files = keep_files
        self._units = {} if scanned is not None else {unit.position: unit for unit in corpus.units()}

    def positions(self) -> list[int]:
        """The units' identities."""
        if self._scanned is not None:
            return [position for position, _ in self._scanned]
        return list(self._units)

    def __iter__(self) -> Iterator[tuple[int, Iterator[KeptBlock]]]:
        """All units with their blocks."""
        if self._scanned is None:
            for position, unit in self._units.items():
                yield position, self._fresh(unit)
        else:
            for position, record in self._scanned:
                yield position, self._seen(position, record)

    def blocks(self, position: int) -> Iterator[KeptBlock]:
        """The blocks of one unit."""
        if self._scanned is not None:
            return self._seen(position, self._scanned.record(position))
        return self._fresh(self._units[position])

    def _fresh(self, unit: Unit) -> Iterator[KeptBlock]:
        for block in self._corpus.blocks(unit):
            yield KeptBlock(block, self._steps, None, None, self._path(block))

    def _seen(self, position: int, record: Mapping[str, Any]) -> Iterator[KeptBlock]:
        keep = self._keep(position, record["documents"])
        spilled = bool(record["blocks"]) and "spill" in record["blocks"][0]
        blocks = self._spilled(position, record) if spilled else self._read_again(record)
        steps = () if spilled else self._steps
        first = 0
        for seen, (path, block) in zip(record["blocks"], blocks, strict=True):
            last = first + seen["documents"]
            yield KeptBlock(block, steps, seen, None if keep is None else keep[first:last], path)
            first = last

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
        if self._keep_files is None:
            return None
        import numpy as np

        path = self._keep_files / keep_name(position)
        with reading_artifact(path):
            packed = np.fromfile(path, np.uint8)
        return np.unpackbits(packed, count=documents, bitorder="little")


def _changed(path: str) -> InputError:
    return InputError(
        f"the input changed while it was read: `{path}`, or a small file before it, gave other documents than"
        " before",
        hint="run the command again with --overwrite when the files are at rest",
    )


def keep_name(position: int) -> str:
    """The file of a unit's survivors."""
    return f"{position:020d}.keep"
