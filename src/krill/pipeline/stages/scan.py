"""Scan: read every document once, clean and filter it, and note what finding its copies takes.

Leaves for each unit a file of 128-bit hashes and, for near-duplicates, one of MinHash bands; the surviving
documents themselves, compressed, where reading them again would cost more (input that can only be read from
its beginning, or that has passed filters); and the rejected ones, if they are wanted. The record says how
many documents each block gave and the XOR of their hashes: a later stage that reads the block again knows if
the file has changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from krill.budget import Need
from krill.corpus import Block, Corpus, Start, Unit, UnitEnd
from krill.corpus.arrays import as_numpy
from krill.corpus.documents import file_and_offset
from krill.corpus.fingerprint import check_same
from krill.dedup import MinHash, line_hashes
from krill.engines import StageReport
from krill.pipeline.chat_tokens import Renders
from krill.pipeline.context import Context
from krill.pipeline.dedup_needs import minhash_of
from krill.pipeline.distributions import Distributions
from krill.pipeline.examples import EXAMPLES, ExampleSet, examples_of
from krill.pipeline.needs import MB, Sizing, spills_text
from krill.pipeline.prediction import ExpectedInput, StageCost
from krill.pipeline.stages.base import PipelineStage, bundle_sizes, describe_units, in_bundles
from krill.pipeline.surviving_units import (
    REJECTED,
    SPILL,
    SurvivingUnits,
    add_counts,
    digest,
    hashes_of,
    spill,
    survivors,
    text_bytes,
)
from krill.storage import CommitLog
from krill.storage.commits import UnitFiles
from krill.text import Step
from krill.text.build import judges_words
from krill.text.clean import valid_text

Hashed = Literal["document", "paragraph", "line"]

HASHES: Final = "hashes"
BANDS: Final = "bands"
POSITIONS: Final = "positions"
SCANNING: Final = "blocks being scanned"


def scan_cost(nbytes: int) -> int:
    """A block being scanned, at the most: itself, the cleaned copy, its hashes, the compressed spill."""
    return 4 * nbytes + 2 * MB


def scan_needs(sizing: Sizing) -> Iterator[Need]:
    """Blocks being scanned; most are neither spilled nor matched, and filters leave less of them. A long
    document is kept as a whole: spilled, but one at a time where filters hold its words beside it."""
    settings = sizing.config.preprocess
    usual = long = 6
    if settings.filters:
        several = 8 if sizing.threads == 1 else 10
        usual, long = 3, 4 if judges_words(settings) else several

    def expected(nbytes: int) -> int:
        return (usual if nbytes <= sizing.block else long) * sizing.unfolded(nbytes) // 4 + MB // 2

    yield sizing.blocks_in_flight(SCANNING, "scan", scan_cost, expected)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the stages after the scan ask it for."""

    hashes: Hashed | None = None
    """What is hashed: documents, or their lines or paragraphs."""
    minhash: MinHash | None = None
    spill: bool = False
    """Whether survivors are kept of all units; those of sequential files always are."""
    rejected: bool = False
    samples: bool = False
    """Whether examples of what is dropped are kept."""
    positions: bool = False
    """Whether the positions of what is hashed are kept."""


@dataclass(frozen=True, slots=True)
class ScannedBlock:
    """What one block gave: its record, and what goes into each of the unit's files."""

    end: UnitEnd
    bytes_read: int
    documents: int
    text_bytes: int
    counts: Mapping[str, int]
    digest: str | None = None
    hashes: NDArray[np.uint64] | None = None
    bands: NDArray[np.uint64] | None = None
    positions: NDArray[np.uint64] | None = None
    spilled: pa.Buffer | None = None
    rejected: Sequence[pa.Buffer] = ()
    examples: Mapping[str, Sequence[Any]] = field(default_factory=dict)


class Scan(PipelineStage):
    """Scans `corpus`: the input or, with `only_hashes`, documents that the input is compared with.

    `fingerprints` are those of the files when the run was begun, where this process did not take them itself.
    """

    def __init__(
        self,
        context: Context,
        corpus: Corpus,
        name: str,
        *,
        only_hashes: bool = False,
        fingerprints: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__(context, name)
        self.corpus = corpus
        self.documents = 0
        """All that were scanned; known when the stage has finished."""
        self._fingerprints = fingerprints
        self._checked: set[int] = set()
        settings = context.config.preprocess
        dedup = settings.dedup
        self._wanted = Wanted(
            dedup.level if dedup.method in ("exact", "bloom") else None,
            minhash_of(dedup),
            spill=not only_hashes and spills_text(context.config, corpus),
            rejected=not only_hashes and settings.rejected,
            samples=not only_hashes and settings.samples,
            positions=not only_hashes and dedup.index != "files",
        )
        self._only_hashes = only_hashes

    needs = staticmethod(scan_needs)

    @staticmethod
    def predict(expected: ExpectedInput) -> StageCost | None:
        if not expected.scanned:
            return None
        if not expected.spilled:
            return StageCost("scan", expected.seconds("scan", "minhash"), expected.rejected_bytes)
        kept = expected.total("spilled_bytes") + expected.rejected_bytes
        return StageCost("scan", expected.seconds("scan", "minhash", "spill"), kept)

    def units(self) -> SurvivingUnits:
        """All units, with the documents that pass the steps."""
        return SurvivingUnits(self.corpus, self.context.steps, self.log)

    def records(self) -> CommitLog:
        return self.log

    def tasks(self) -> Iterator[dict[str, Any]]:
        return (start.to_json() for start in self.corpus.starts())

    def missing(self, tasks: Iterable[Any]) -> Iterator[Any]:
        log, ended = self.log, self._ended
        return (task for task in tasks if task["position"] not in (log if task["unit"] else ended))

    def bundles(self, tasks: Iterable[Any], workers: int) -> Iterator[list[Any]]:
        return in_bundles(tasks, bundle_sizes(sum(1 for _ in self.tasks()), workers))

    def run(self, tasks: Iterable[Any]) -> None:
        context, wanted, log = self.context, self._wanted, self.log
        # What conversations are compared with is rendered already.
        steps = [step for step in context.steps if not (self._only_hashes and isinstance(step, Renders))]
        sequential: list[int] = []
        known = ExampleSet()

        def starts() -> Iterator[Start]:
            for start in map(Start.from_json, tasks):
                self._check_unchanged(start.files)
                if start.unit is None:
                    sequential.append(start.position)
                yield start

        def spilling(unit: Unit) -> bool:
            return wanted.spill or self.corpus.files[unit.parts[0].file].sequential

        def committed(position: int) -> UnitEnd | None:
            return UnitEnd.from_json(log.record(position)["end"]) if position in log else None

        context.make_units(
            (
                (unit, ((spilling(unit), block) for block in blocks))
                for unit, blocks in self.corpus.walk(committed, starts())
            ),
            lambda unit: UnitScan.begin(log, unit, wanted, known, spilling=spilling(unit)),
            lambda item: _scan_block(steps, item[1], wanted, known, spilling=item[0]),
            in_flight=context.plan.share(SCANNING),
            nbytes=lambda item: item[1].nbytes,
            cost=scan_cost,
        )
        ended = self._ended
        for position in sequential:  # the units of such files are only known once they were read
            if position not in ended:
                ended.commit(position, {})

    def finish(self) -> StageReport:
        report = scan_report(self.log, self.corpus)
        self.documents = report.documents
        # What another corpus has lost says nothing of this one.
        return StageReport(report.bytes, report.documents) if self._only_hashes else report

    def describe(self, tasks: Sequence[Any]) -> str:
        files, last = self.corpus.files, Start.from_json(tasks[-1])
        if self._only_hashes:
            return f"{self.name}, files {tasks[0]['files'][0] + 1} to {last.files[-1] + 1}"
        if last.unit is not None:
            first = Start.from_json(tasks[0])
            return f"{self.name}, {describe_units(self.context, [first.unit or first.position, last.unit])}"
        begin = describe_units(self.context, [tasks[0]["position"]]).removesuffix(", one unit")
        return f"{self.name}, {begin} to the end of {files[last.files[-1]].path}"

    def input_bytes(self) -> int | None:
        return None if self.corpus.sequential else self.corpus.input_bytes

    @property
    def _ended(self) -> CommitLog:
        """The files that can only be read from their beginning, as far as they were read to their end."""
        return self.context.log(f"{self.name}-runs")

    def _check_unchanged(self, ordinals: Iterable[int]) -> None:
        """The files that a task reads are those that the run was begun with."""
        expected, files = self._fingerprints, self.corpus.files
        if expected is None:
            return
        for ordinal in sorted(set(ordinals) - self._checked):
            known = expected[ordinal] if ordinal < len(expected) else {"path": f"file {ordinal + 1}"}
            check_same(files[ordinal] if ordinal < len(files) else None, known)
            self._checked.add(ordinal)


def scan_report(log: CommitLog, corpus: Corpus) -> StageReport:
    """What the records of scanned units add up to."""
    report, counts, found = StageReport(), dict[str, int](), Distributions()
    for position, record in log:
        add_counts(counts, record["counts"])
        found.add_counts(corpus.files[file_and_offset(position)[0]].dataset, record["counts"])
        report.bytes += record["bytes_read"]
        report.documents += record["documents"]
    report.counts, report.kept, report.by_source = counts, report.documents, found.counts
    return report


def _scan_block(
    steps: Sequence[Step], block: Block, wanted: Wanted, known: ExampleSet, *, spilling: bool
) -> ScannedBlock:
    documents = survivors(block, steps, collect=wanted.rejected or wanted.samples)
    rejected = documents.rejected or ()
    batch = documents.batch
    text = batch.column("text")
    # Also where nothing compares documents: they show whether the input has changed since.
    hashes = hashes_of(documents) if wanted.hashes or wanted.minhash else None
    return ScannedBlock(
        UnitEnd.after(block),
        block.size,
        batch.num_rows,
        text_bytes(batch),
        documents.counts,
        None if hashes is None else digest(hashes),
        _hashes(text, wanted.hashes, hashes),
        wanted.minhash.bands_of(text) if wanted.minhash is not None else None,
        _positions(batch, wanted.hashes) if wanted.positions else None,
        spill(batch) if spilling else None,
        [spill(valid_text(rows)) for rows in rejected] if wanted.rejected else (),
        examples_of(rejected, known) if wanted.samples else {},
    )


def _hashes(
    text: pa.Array, hashed: Hashed | None, of_documents: NDArray[np.uint64] | None
) -> NDArray[np.uint64] | None:
    """What goes into the unit's file of hashes."""
    if hashed is None:
        return None
    return of_documents if hashed == "document" else line_hashes(text, hashed)[0]


def _positions(batch: pa.RecordBatch, hashed: Hashed | None) -> NDArray[np.uint64]:
    """The position of each document, or for each of its lines or paragraphs once more."""
    column = batch.column("position")
    positions = as_numpy(column, "uint64").copy()  # a view would hold the whole batch
    if hashed is None or hashed == "document":
        return positions
    return np.repeat(positions, line_hashes(batch.column("text"), hashed)[1])


@dataclass(slots=True)
class UnitScan:
    """The artifacts and the record of the unit being scanned."""

    unit: Unit
    files: UnitFiles
    known: ExampleSet | None
    end: UnitEnd = field(default_factory=lambda: UnitEnd(None))
    blocks: list[dict[str, Any]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=lambda: {"documents": 0, "text_bytes": 0, "bytes_read": 0})
    examples: ExampleSet = field(default_factory=ExampleSet)

    @classmethod
    def begin(
        cls, log: CommitLog, unit: Unit, wanted: Wanted, known: ExampleSet, *, spilling: bool
    ) -> UnitScan:
        names = {
            HASHES: wanted.hashes is not None,
            BANDS: wanted.minhash is not None,
            POSITIONS: wanted.positions,
            SPILL: spilling,
            REJECTED: wanted.rejected,
        }
        files = log.begin(unit.position, *(name for name, asked in names.items() if asked))
        return cls(unit, files, known if wanted.samples else None)

    def add(self, block: ScannedBlock) -> None:
        seen: dict[str, Any] = {"documents": block.documents}
        if block.digest is not None:
            seen["digest"] = block.digest
        if block.hashes is not None:
            self.files.write(HASHES, block.hashes)
            seen["hashes"] = len(block.hashes)
        if block.bands is not None:
            self.files.write(BANDS, block.bands)
        if block.positions is not None:
            self.files.write(POSITIONS, block.positions)
        if block.spilled is not None:
            seen["spill"] = [self.files.write(SPILL, block.spilled), block.spilled.size, block.text_bytes]
        if block.rejected:
            seen["rejected"] = [[self.files.write(REJECTED, part), part.size] for part in block.rejected]
        self.blocks.append(seen)
        self.end = block.end
        if self.known is not None:
            self.examples.add_all(block.examples)
            self.known.add_all(block.examples)
        add_counts(self.counts, block.counts)
        for name, value in (
            ("documents", block.documents),
            ("text_bytes", block.text_bytes),
            ("bytes_read", block.bytes_read),
        ):
            self.totals[name] += value

    def commit(self) -> int:
        return self.files.commit(
            {
                "unit": self.unit.to_json(),
                "end": self.end.to_json(),
                "blocks": self.blocks,
                "counts": self.counts,
                **({} if self.known is None else {EXAMPLES: self.examples.to_json()}),
                **self.totals,
            }
        )

    def abort(self) -> None:
        self.files.abort()
