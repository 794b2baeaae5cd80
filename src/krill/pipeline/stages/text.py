"""Shards of kept documents, and of rejected ones, as Parquet; each assembled on its own.

In: the blocks of units that later stages read, and what the scan has set aside. Out: `text-*.parquet` with
the kept documents and their columns, `rejected-*.parquet` with the others and why. Held in memory: for each
shard being written, a row group and a block.

Sources may carry different columns: shards have those of all sources, null where a source lacks one, so that
together they are one table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from krill.budget import Kind, Need
from krill.corpus import Documents
from krill.corpus.long_records import NO_LONG_RECORDS, LongRecords
from krill.dataset import ShardInfo, TextPart, TextShardWriter
from krill.dataset.shard import text_shard_name
from krill.engines import StageReport
from krill.pipeline.context import Context
from krill.pipeline.distributions import Distributions, KeptSizes, languages_of, text_sizes
from krill.pipeline.examples import EXAMPLES, ExampleSet, examples_of
from krill.pipeline.needs import MB, SMALLER_DOCUMENTS, Sizing, largest_nbytes
from krill.pipeline.prediction import ExpectedInput, StageCost
from krill.pipeline.stages.base import PipelineStage, UnitSource, unit_position
from krill.pipeline.surviving_units import SurvivingUnits, add_counts

WRITING: Final = "text being written"
# Pages of Parquet's and zstd's code and tables that the first row groups touch; then what little input
# touches of them and of the text being written: so much, and so much for each byte of text.
PARQUET_WRITER: Final = 23 * MB
EXPECTED_WRITER: Final = 18 * MB
EXPECTED_WRITING: Final = (9 * MB, 2.2)


def text_cost(nbytes: int) -> int:
    """A shard of text being written: a row group gathered and compressed, beside its next block."""
    return 5 * nbytes + 3 * MB


def expected_text(nbytes: int, shards: int, long: LongRecords = NO_LONG_RECORDS) -> int:
    """The same of most blocks, with so many being written at once, and of up to three `long` records."""
    ordinary = (4 * nbytes + 3 * MB) * shards + 8 * MB * (shards - 1)
    large = long.longest * min(14, 4 + 4 * long.together) // 2
    return max(ordinary, ordinary - 4 * nbytes + large)


class TextShards(PipelineStage):
    """A stage that writes shards of documents; a task is a shard's number and its units."""

    def __init__(self, context: Context, name: str, source: UnitSource) -> None:
        super().__init__(context, name)
        self.source = source

    @staticmethod
    def needs(sizing: Sizing) -> Iterator[Need]:
        settings = sizing.config.preprocess
        if settings.output == "tokens" and not settings.rejected:
            return
        shards = min(sizing.threads, max(1, -(-sizing.text_bytes // settings.shard_size)))
        least, rate = EXPECTED_WRITING
        touched = least + int(rate * sizing.text_bytes)
        code = min(EXPECTED_WRITER, touched)
        yield Need("the Parquet writer", PARQUET_WRITER, Kind.WATCHED, expected=code, during="text")
        cost = text_cost(sizing.largest)
        # As many as there are: they are gathered one after the other.
        long = NO_LONG_RECORDS if sizing.sizes is None else sizing.sizes.long

        def expected(share: int) -> int:
            return min(expected_text(sizing.block, min(shards, share // cost), long), touched - code)

        yield Need(
            WRITING,
            cost,
            useful=cost * sizing.threads,
            expected=expected,
            during="text",
            remedy=SMALLER_DOCUMENTS,
        )

    def tasks(self) -> Iterable[list[Any]]:
        """Consecutive units up to `shard_size` bytes of text, or of input where nothing was scanned."""
        settings, records = self.context.config.preprocess, self.source.records()
        gathered: list[Any] = []
        number = held = 0
        for unit in self.source.units().tasks():
            size = settings.unit_bytes if records is None else records.record(unit)["text_bytes"]
            if gathered and held + size > settings.shard_size:
                yield [number, gathered]
                number, gathered, held = number + 1, [], 0
            gathered.append(unit)
            held += size
        if gathered:
            yield [number, gathered]

    def missing(self, tasks: Iterable[Any]) -> Iterator[Any]:
        log = self.log
        return (task for task in tasks if task[0] not in log)

    def describe(self, tasks: Sequence[Any]) -> str:
        return f"{self.name}, shard {tasks[0][0]:,}"

    def write_all(
        self,
        tasks: Iterable[Any],
        name: Callable[[int], str],
        write: Callable[[Sequence[Any], Path], dict[str, Any]],
    ) -> None:
        """Write each shard into the file of its name; `write` is given its units and its path."""
        context, log = self.context, self.log

        def work(task: Sequence[Any]) -> tuple[int, Path, dict[str, Any]]:
            number, units = task
            path = context.folder.dataset / name(number)
            return number, path, write(units, path)

        cost = text_cost(largest_nbytes(context.config))
        share = context.plan.share(WRITING)
        for number, path, record in context.map(work, tasks, in_flight=share, size=lambda _: cost):
            log.commit(number, record, [path] if record["shard"] else [])

    def written(self) -> TextPart:
        records = (record["shard"] for _, record in self.log)
        return TextPart(tuple(ShardInfo.from_json(shard) for shard in records if shard))


class Text(TextShards):
    """Writes the documents that were kept."""

    def __init__(self, context: Context, source: UnitSource) -> None:
        super().__init__(context, "text", source)

    @staticmethod
    def predict(expected: ExpectedInput) -> StageCost | None:
        if expected.config.preprocess.output == "tokens":
            return None
        size = expected.total("spilled_bytes")
        return StageCost("text", expected.reading_seconds("spill"), output_bytes=size)

    def run(self, tasks: Iterable[Any]) -> None:
        source, carried = self.source.units(), self.context.corpus.carried()

        def write(units: Sequence[Any], path: Path) -> dict[str, Any]:
            seen = SeenUnits(self.context.config.preprocess.samples)
            shard = write_shard(path, carried, self._kept(source, units, seen))
            return {"shard": shard, **seen.to_json()}

        self.write_all(tasks, text_shard_name, write)

    def finish(self) -> StageReport:
        written = self.written()
        report = StageReport(
            bytes=sum(shard.bytes for shard in written.shards),
            documents=written.rows,
            outputs={"text": written},
        )
        counts: dict[str, int] = {}
        found = Distributions()
        for _, record in self.log:
            add_counts(counts, record["counts"])
            for dataset, of_source, kept in record["sources"]:
                found.add_counts(dataset, of_source)
                found.add_kept(dataset, kept)
        report.distributions = found.to_json()
        if self.source.records() is None:  # nobody has counted what reading dropped
            report.counts, report.kept, report.by_source = counts, written.rows, found.counts
        if not written.rows:
            report.shortage = "no document is left", None
        return report

    def input_bytes(self) -> int | None:
        return self.text_bytes(self.source.records())

    def _kept(
        self, source: SurvivingUnits, units: Sequence[Any], seen: SeenUnits
    ) -> Iterator[pa.RecordBatch]:
        for unit in units:
            dataset = self.source_of(unit_position(unit))
            for block in source.blocks(unit):
                self.context.check_wanted()
                documents = block.documents()
                seen.add(dataset, documents)
                yield documents.batch
                self.context.progress.advance(documents.batch.nbytes)


class SeenUnits:
    """What the record of a shard says of the units in it."""

    def __init__(self, samples: bool) -> None:
        self._examples = ExampleSet() if samples else None
        self._counts: dict[int, dict[str, int]] = {}
        self._kept: dict[int, KeptSizes] = {}

    def add(self, dataset: int, documents: Documents) -> None:
        batch = documents.batch
        add_counts(self._counts.setdefault(dataset, {}), documents.counts)
        kept = np.ones(batch.num_rows, np.bool_)
        self._kept.setdefault(dataset, KeptSizes()).add(text_sizes(batch), None, languages_of(batch), kept)
        if self._examples is not None and documents.rejected:
            self._examples.add_all(examples_of(documents.rejected))

    def to_json(self) -> dict[str, Any]:
        counts: dict[str, int] = {}
        for of_source in self._counts.values():
            add_counts(counts, of_source)
        sources = [[number, self._counts[number], kept.to_json()] for number, kept in self._kept.items()]
        examples = {} if self._examples is None else {EXAMPLES: self._examples.to_json()}
        return {"counts": counts, "sources": sources, **examples}


def write_shard(path: Path, carried: pa.Schema, batches: Iterator[pa.RecordBatch]) -> dict[str, Any] | None:
    """One file; None if there is no batch at all."""
    aligned = map(_AllColumns(carried).of, batches)
    for first in aligned:  # the first batch shows what steps have measured
        with TextShardWriter(path, first.schema) as writer:
            for batch in chain([first], aligned):
                writer.write(batch)
            return writer.close().to_json()
    return None


class _AllColumns:
    """Batches without their positions, with every source's columns: text, carried ones, the rest.

    What a batch lacks is found out once for all batches of one schema.
    """

    def __init__(self, carried: pa.Schema) -> None:
        self._carried = carried
        self._seen: pa.Schema | None = None

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._seen is None or not batch.schema.equals(self._seen, check_metadata=True):
            self._learn(batch.schema)
        if self._whole:
            return batch.select(self._places)
        columns = [
            pa.nulls(batch.num_rows, kind) if place < 0 else batch.column(place)
            for place, kind in zip(self._places, self._wanted.types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._wanted)

    def _learn(self, schema: pa.Schema) -> None:
        fields = [pa.field("text", pa.large_string()), *self._carried]
        names = {field.name for field in fields}
        fields += [field for field in schema if field.name not in names and field.name != "position"]
        self._seen, self._wanted = schema, pa.schema(fields)
        there = {name: place for place, name in enumerate(schema.names)}
        self._places = [there.get(name, -1) for name in self._wanted.names]
        picked = pa.schema([schema.field(place) for place in self._places if place >= 0], schema.metadata)
        self._whole = picked.equals(self._wanted, check_metadata=True)
