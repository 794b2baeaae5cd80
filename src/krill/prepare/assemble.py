"""The last stages: shards of packed rows and shards of kept text, each assembled on its own.

Which rows or units go into a shard is arithmetic on what earlier stages recorded, so shards are written in
any order by any thread and come out the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from krill.flow import CommitLog
from krill.pack import TokenRuns, TokenStream, piece_lengths
from krill.prepare.context import Context
from krill.prepare.kept import KeptUnits
from krill.prepare.needs import block_nbytes, pack_cost, text_cost
from krill.prepare.survivors import add_counts
from krill.shards import Layout, ShardInfo, ShardWriter, TextShardWriter
from krill.shards.shard import text_shard_name, token_shard_name

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class RowRange:
    """The rows of one shard."""

    number: int
    first: int
    rows: int


def row_ranges(rows: int, layout: Layout, shard_size: int) -> Iterator[RowRange]:
    """Whole record batches up to `shard_size` bytes of tokens, and at least one, per shard."""
    batches = max(1, shard_size // (layout.row_bytes * layout.rows_per_batch))
    per_shard = batches * layout.rows_per_batch
    for number, first in enumerate(range(0, rows, per_shard)):
        yield RowRange(number, first, min(per_shard, rows - first))


def pack(context: Context, log: CommitLog, runs: TokenRuns, layout: Layout) -> list[ShardInfo]:
    """Write the shards that `log` doesn't have; returns all, in order."""
    rows = runs.total // layout.sequence_len
    ranges = list(row_ranges(rows, layout, context.config.preprocess.shard_size))

    def work(rows_of_shard: RowRange) -> tuple[RowRange, ShardInfo]:
        return rows_of_shard, _pack_shard(context, runs, layout, rows_of_shard)

    todo = [rows_of_shard for rows_of_shard in ranges if rows_of_shard.number not in log]
    cost = pack_cost(layout.row_bytes * layout.rows_per_batch)
    for done, shard in context.map(
        work, todo, in_flight=context.plan.share("rows being packed"), size=lambda _: cost
    ):
        log.commit(done.number, shard.to_json())
    return [ShardInfo.from_json(log.record(rows_of_shard.number)) for rows_of_shard in ranges]


def _pack_shard(context: Context, runs: TokenRuns, layout: Layout, shard: RowRange) -> ShardInfo:
    length = layout.sequence_len
    stream = TokenStream(runs, layout.token_dtype, shard.first * length)
    with ShardWriter(context.folder.dataset / token_shard_name(shard.number), layout) as writer:
        for done in range(0, shard.rows, layout.rows_per_batch):
            context.check_wanted()
            rows = min(layout.rows_per_batch, shard.rows - done)
            ids, ends = stream.read(rows * length)
            writer.write(ids.reshape(rows, length), *piece_lengths(ends, rows, length))
            context.progress.advance(ids.nbytes)
        return writer.close()


@dataclass(frozen=True, slots=True)
class TextShard:
    """The units of one shard of text."""

    number: int
    units: tuple[int, ...]


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


def write_text(
    context: Context, log: CommitLog, units: KeptUnits, scanned: CommitLog | None
) -> tuple[list[ShardInfo], dict[str, int]]:
    """Write the kept documents; returns the shards and, where nothing was scanned, what was counted."""
    shards = text_shards(context, units, scanned)

    def work(shard: TextShard) -> tuple[TextShard, dict[str, Any]]:
        return shard, _write_text_shard(context, units, shard)

    cost = text_cost(block_nbytes(context.config))
    todo = [shard for shard in shards if shard.number not in log]
    for done, record in context.map(
        work, todo, in_flight=context.plan.share("text being written"), size=lambda _: cost
    ):
        log.commit(done.number, record)
    counts: dict[str, int] = {}
    records = [log.record(shard.number) for shard in shards]
    for record in records:
        add_counts(counts, record["counts"])
    return [ShardInfo.from_json(record["shard"]) for record in records if record["shard"]], counts


def _write_text_shard(context: Context, units: KeptUnits, shard: TextShard) -> dict[str, Any]:
    counts: dict[str, int] = {}
    info: ShardInfo | None = None
    batches = _text_batches(context, units, shard, counts)
    # The first batch tells the columns; a shard of units without a single block has none and is not written.
    for first in batches:
        with TextShardWriter(context.folder.dataset / text_shard_name(shard.number), first.schema) as writer:
            for batch in chain([first], batches):
                writer.write(batch)
            info = writer.close()
    return {"shard": info and info.to_json(), "counts": counts}


def _text_batches(
    context: Context, units: KeptUnits, shard: TextShard, counts: dict[str, int]
) -> Iterator[pa.RecordBatch]:
    for position in shard.units:
        for block in units.blocks(position):
            context.check_wanted()
            batch, block_counts = block.read()
            add_counts(counts, block_counts)
            yield batch.drop_columns(["position"])
            context.progress.advance(batch.nbytes)
