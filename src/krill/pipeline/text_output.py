"""Shards of kept documents, and of rejected ones, as Parquet; each assembled on its own.

In: the blocks of units that later stages read, and what the scan has set aside. Out: `text-*.parquet` with
the kept documents and their columns, `rejected-*.parquet` with the others and why. Held in memory: for each
shard being written, a row group and a block.

Sources may carry different columns: shards have those of all sources, null where a source lacks one, so that
together they are one table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from krill.dataset import ShardInfo, TextShardWriter
from krill.dataset.shard import rejected_shard_name, text_shard_name
from krill.pipeline.context import Context
from krill.pipeline.encode import DROPS, dropped_codes
from krill.pipeline.kept import KeptUnits
from krill.pipeline.needs import largest_nbytes, text_cost
from krill.pipeline.survivors import add_counts
from krill.storage import CommitLog
from krill.text.step import rejected_rows

if TYPE_CHECKING:
    import pyarrow as pa

WRITING = "text being written"


@dataclass(frozen=True, slots=True)
class TextShard:
    """The units of one shard of text."""

    number: int
    units: tuple[int, ...]

    def to_json(self) -> list[Any]:
        return [self.number, list(self.units)]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> Self:
        return cls(value[0], tuple(value[1]))


def write_text(context: Context, log: CommitLog, units: KeptUnits, shards: Sequence[TextShard]) -> None:
    """Write the kept documents of those shards that `log` doesn't have."""
    carried = context.corpus.carried()

    def write(shard: TextShard, path: Path) -> dict[str, Any]:
        seen: dict[str, int] = {}
        batches = _kept(context, units, shard, seen)
        return {"shard": _write_shard(path, carried, batches), "counts": seen}

    _write_all(context, log, shards, text_shard_name, write)


def text_written(log: CommitLog) -> tuple[list[ShardInfo], dict[str, int]]:
    """The shards that are written and, where nothing was scanned, what was counted."""
    counts: dict[str, int] = {}
    for _, record in log:
        add_counts(counts, record["counts"])
    return shards_written(log), counts


def shards_written(log: CommitLog) -> list[ShardInfo]:
    """The shards of a stage, in order."""
    return [ShardInfo.from_json(record["shard"]) for _, record in log if record["shard"]]


def write_rejected(
    context: Context,
    log: CommitLog,
    units: Sequence[KeptUnits],
    encoded: CommitLog | None,
    shards: Sequence[TextShard],
) -> None:
    """Write the documents that were dropped, each with its `reason`, of those shards that `log` doesn't have.

    Each of `units` has those that its stage dropped; of the last, `encoded` has dropped some.
    """
    import pyarrow as pa

    # Only duplicates are in a cluster.
    clusters = [pa.field("cluster", pa.uint64()), pa.field("cluster_size", pa.uint32())]
    carried = pa.schema([*context.corpus.carried(), *(clusters if units[-1].clusters else ())])

    def write(shard: TextShard, path: Path) -> dict[str, Any]:
        before = (batch for some in units for batch in _rejected(context, some, shard))
        after = () if encoded is None else _without_tokens(context, units[-1], shard, encoded)
        return {"shard": _write_shard(path, carried, chain(before, after))}

    _write_all(context, log, shards, rejected_shard_name, write)


def text_shards(context: Context, units: KeptUnits, scanned: CommitLog | None) -> list[TextShard]:
    """Consecutive units up to `shard_size` bytes of surviving text, or of input where nothing was scanned."""
    size = context.config.preprocess.shard_size
    shards: list[TextShard] = []
    gathered: list[int] = []
    held = 0
    for position in units.positions():
        unit_size = context.config.preprocess.unit_bytes
        if scanned is not None:
            unit_size = scanned.record(position)["text_bytes"]
        if gathered and held + unit_size > size:
            shards.append(TextShard(len(shards), tuple(gathered)))
            gathered, held = [], 0
        gathered.append(position)
        held += unit_size
    if gathered:
        shards.append(TextShard(len(shards), tuple(gathered)))
    return shards


def _write_all(
    context: Context,
    log: CommitLog,
    shards: Sequence[TextShard],
    name: Callable[[int], str],
    write: Callable[[TextShard, Path], dict[str, Any]],
) -> None:
    """Write the shards that `log` doesn't have, each into the file of its name."""

    def work(shard: TextShard) -> tuple[TextShard, Path, dict[str, Any]]:
        path = context.folder.dataset / name(shard.number)
        return shard, path, write(shard, path)

    cost = text_cost(largest_nbytes(context.config))
    todo = [shard for shard in shards if shard.number not in log]
    share = context.plan.share(WRITING)
    for done, path, record in context.map(work, todo, in_flight=share, size=lambda _: cost):
        log.commit(done.number, record, [path] if record["shard"] else [])


def _write_shard(path: Path, carried: pa.Schema, batches: Iterator[pa.RecordBatch]) -> dict[str, Any] | None:
    """One file; None if there is no batch at all."""
    aligned = map(_AllColumns(carried).of, batches)
    for first in aligned:  # the first batch tells what steps have measured
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
        import pyarrow as pa

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
        import pyarrow as pa

        fields = [pa.field("text", pa.large_string()), *self._carried]
        names = {field.name for field in fields}
        fields += [field for field in schema if field.name not in names and field.name != "position"]
        self._seen, self._wanted = schema, pa.schema(fields)
        there = {name: place for place, name in enumerate(schema.names)}
        self._places = [there.get(name, -1) for name in self._wanted.names]
        picked = pa.schema([schema.field(place) for place in self._places if place >= 0], schema.metadata)
        self._whole = picked.equals(self._wanted, check_metadata=True)


def _kept(
    context: Context, units: KeptUnits, shard: TextShard, counts: dict[str, int]
) -> Iterator[pa.RecordBatch]:
    for position in shard.units:
        for block in units.blocks(position):
            context.check_wanted()
            batch, block_counts = block.read()
            add_counts(counts, block_counts)
            yield batch
            context.progress.advance(batch.nbytes)


def _rejected(context: Context, units: KeptUnits, shard: TextShard) -> Iterator[pa.RecordBatch]:
    for position in shard.units:
        for block in units.blocks(position):
            context.check_wanted()
            for batch in block.rejected():
                yield batch
                context.progress.advance(batch.nbytes)


def _without_tokens(
    context: Context, units: KeptUnits, shard: TextShard, encoded: CommitLog
) -> Iterator[pa.RecordBatch]:
    """Documents that were dropped for the number of their tokens."""
    for position in shard.units:
        codes = dropped_codes(encoded, position)
        if not codes.any():
            continue
        first = 0
        for block in units.blocks(position):
            context.check_wanted()
            batch, _ = block.read()
            of_block = codes[first : first + batch.num_rows]
            first += batch.num_rows
            if of_block.any():
                yield rejected_rows(batch, of_block, DROPS)
