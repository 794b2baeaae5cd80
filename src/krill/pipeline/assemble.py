"""The last stages: shards of packed rows, each assembled on its own.

Which rows go into a shard is arithmetic on what earlier stages recorded, so shards are written in
any order by any thread and come out the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from krill.dataset import Layout, RowBatch, ShardInfo, ShardWriter
from krill.dataset.shard import token_shard_name
from krill.pack import PackedRows, Permutation, StoredRows, stored_row_files
from krill.pack.stored import BEGINNINGS, PIECES, TOKENS
from krill.pipeline.context import Context
from krill.pipeline.needs import pack_cost
from krill.storage import CommitLog
from krill.storage.commits import UnitFiles

if TYPE_CHECKING:
    from krill.pack.rows import Rows

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class PackedSource:
    """One stream of documents that is packed on its own: all of a split, or a weighted source's share."""

    dataset: int | None
    rows: PackedRows


@dataclass(frozen=True, slots=True)
class RowRange:
    """The rows of one shard: of which source, and which of its."""

    number: int
    source: int
    first: int
    rows: int


def row_ranges(sources: Sequence[PackedSource], layout: Layout, shard_size: int) -> list[RowRange]:
    """Whole record batches up to about `shard_size` bytes of tokens, and at least one, per shard.

    Sources follow each other, and none shares a shard with another.
    """
    ranges: list[RowRange] = []
    for source, packed in enumerate(sources):
        rows = packed.rows
        row_bytes = layout.dtype.itemsize * rows.tokens / max(1, rows.rows)
        batches = max(1, int(shard_size // (row_bytes * layout.rows_per_batch or 1)))
        per_shard = batches * layout.rows_per_batch
        for first in range(0, rows.rows, per_shard):
            ranges.append(RowRange(len(ranges), source, first, min(per_shard, rows.rows - first)))
    return ranges


@dataclass(frozen=True, slots=True)
class RowWriting:
    """How the shards of one split are written; `held` is what a shard needs besides its record batches."""

    context: Context
    layout: Layout
    sources: Sequence[PackedSource]
    ranges: Sequence[RowRange]
    held: int

    def finish(self, log: CommitLog, folder: Path, numbers: Sequence[int]) -> None:
        """Write those shards of the dataset that `log` doesn't have into `folder`."""

        def write(shard: RowRange) -> tuple[Path, dict[str, Any]]:
            path = folder / token_shard_name(shard.number)
            with ShardWriter(path, self.layout) as writer:
                for rows in self._read(shard):
                    writer.write(RowBatch(*rows))
                return path, writer.close().to_json()

        for shard, (path, record) in self._map(log, write, numbers):
            log.commit(shard.number, record, [path])

    def written(self, log: CommitLog) -> list[ShardInfo]:
        """All shards, when they are written."""
        return [ShardInfo.from_json(log.record(shard.number)) for shard in self.ranges]

    def store(self, log: CommitLog, numbers: Sequence[int]) -> None:
        """Write the rows of those shards that `log` doesn't have into plain files of its stage, for another
        order."""

        def write(shard: RowRange) -> UnitFiles:
            files = log.begin(shard.number, TOKENS, PIECES, BEGINNINGS)
            try:
                for name, values in stored_row_files(self._read(shard)):
                    files.write(name, values)
            except BaseException:
                files.abort()
                raise
            return files

        for shard, files in self._map(log, write, numbers):
            self.context.unit_done(files.commit({"rows": shard.rows}))

    def shuffled(self, log: CommitLog, seed: int) -> RowWriting:
        """The same shards, each source's rows in an order drawn from `seed`, out of what `store` wrote."""
        sources = []
        for number, source in enumerate(self.sources):
            own = [shard for shard in self.ranges if shard.source == number]
            order = Permutation(source.rows.rows, seed, number)
            paths = [partial(log.path, shard.number) for shard in own]
            stored = StoredRows(
                paths, [shard.rows for shard in own], source.rows.tokens, self.layout.token_dtype, order
            )
            sources.append(PackedSource(source.dataset, stored))
        return RowWriting(self.context, self.layout, sources, self.ranges, 0)

    def _read(self, shard: RowRange) -> Iterator[Rows]:
        rows = self.sources[shard.source].rows
        for batch in rows.read(shard.first, shard.rows, self.layout.rows_per_batch):
            self.context.check_wanted()
            yield batch
            self.context.progress.advance(batch[0].nbytes)

    def _map(
        self, log: CommitLog, write: Callable[[RowRange], Result], numbers: Sequence[int]
    ) -> Iterator[tuple[RowRange, Result]]:
        todo = [self.ranges[number] for number in numbers if number not in log]
        cost = pack_cost(self.layout.row_bytes * self.layout.rows_per_batch) + self.held
        return self.context.map(
            lambda shard: (shard, write(shard)),
            todo,
            in_flight=self.context.plan.share("rows being packed"),
            size=lambda _: cost,
        )
