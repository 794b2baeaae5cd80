"""ShuffleRows: the shards of the dataset, with each source's rows in an order drawn from the seed.

In: the rows that `Pack` stored. Out: as many shards, of the same sizes, as without. Held in memory: for each
shard being written, a batch of rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from krill.engines import StageReport
from krill.pack import Permutation, StoredRows
from krill.pipeline.context import Context
from krill.pipeline.prediction import ExpectedInput, StageCost
from krill.pipeline.stages.pack import Pack, WriteRows, by_split
from krill.pipeline.stages.windows import PackedSource, Split


class ShuffleRows(WriteRows):
    """Writes the rows of `pack` in another order."""

    def __init__(self, context: Context, pack: Pack) -> None:
        super().__init__(context, "shuffle", pack.windows, held_bytes=0)
        self._pack = pack

    @staticmethod
    def predict(expected: ExpectedInput) -> StageCost | None:
        if not expected.config.preprocess.shuffle:
            return None
        return StageCost("shuffle", spill_bytes=expected.token_bytes)

    def run(self, tasks: Iterable[Any]) -> None:
        for number, shards in by_split(tasks).items():
            self.write_shards(self._shuffled(self.windows.split(number)), shards)

    def finish(self) -> StageReport:
        return self.dataset(sum(split.kept for split in self.windows.splits()))

    def input_bytes(self) -> int | None:
        return sum(split.kept for split in self.windows.splits()) * self.windows.encode.token_bytes

    def _shuffled(self, split: Split) -> Split:
        log, seed = self._pack.log_of(split.name), self.context.config.seed
        sources = []
        for number, source in enumerate(split.sources):
            own = [shard for shard in self.ranges(split) if shard.source == number]
            order = Permutation(source.rows.rows, seed, number)
            paths = [partial(log.path, shard.number) for shard in own]
            rows = [shard.rows for shard in own]
            dtype = self.windows.encode.token_dtype
            stored = StoredRows(paths, rows, source.rows.tokens, dtype, order)
            sources.append(PackedSource(source.dataset, stored))
        return replace(split, sources=sources)
