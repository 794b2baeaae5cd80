"""Rejected: shards of the documents that were dropped, each with its `reason`, as Parquet.

In: what the scan has set aside, duplicates, and what encoding dropped. Out: `rejected-*.parquet`. Held in
memory: for each shard being written, a row group and a block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from krill.dataset.shard import rejected_shard_name
from krill.engines import StageReport
from krill.pipeline.block_encoder import DROPS
from krill.pipeline.context import Context
from krill.pipeline.prediction import ExpectedInput, StageCost
from krill.pipeline.stages.base import UnitSource
from krill.pipeline.stages.encode import Encode, dropped_codes
from krill.pipeline.stages.text import TextShards, write_shard
from krill.pipeline.surviving_units import SurvivingUnits
from krill.storage import CommitLog
from krill.text.step import rejected_rows


class Rejected(TextShards):
    """Writes what each of `dropping` dropped, and then what `encode` did, in shards of what `scan` kept."""

    def __init__(
        self, context: Context, scan: UnitSource, dropping: Sequence[UnitSource], encode: Encode | None
    ) -> None:
        super().__init__(context, "rejected", scan)
        self._dropping = dropping
        self._encode = encode

    @staticmethod
    def predict(expected: ExpectedInput) -> StageCost | None:
        return StageCost("rejected", output_bytes=expected.rejected_bytes)

    def run(self, tasks: Iterable[Any]) -> None:
        dropping = [source.units() for source in self._dropping]
        encoded = None if self._encode is None else self._encode.log
        # Only duplicates are in a cluster.
        clusters = [pa.field("cluster", pa.uint64()), pa.field("cluster_size", pa.uint32())]
        with_clusters = clusters if dropping[-1].clusters else ()
        carried = pa.schema([*self.context.corpus.carried(), *with_clusters])

        def write(units: Sequence[int], path: Path) -> dict[str, Any]:
            before = (batch for source in dropping for batch in self._rejected(source, units))
            after = () if encoded is None else self._without_tokens(dropping[-1], units, encoded)
            return {"shard": write_shard(path, carried, chain(before, after))}

        self.write_all(tasks, rejected_shard_name, write)

    def finish(self) -> StageReport:
        written = self.written()
        return StageReport(
            bytes=sum(shard.bytes for shard in written.shards),
            documents=written.rows,
            outputs={"rejected": written},
        )

    def _rejected(self, source: SurvivingUnits, units: Sequence[int]) -> Iterator[pa.RecordBatch]:
        for unit in units:
            for block in source.blocks(unit):
                self.context.check_wanted()
                for batch in block.rejected():
                    yield batch
                    self.context.progress.advance(batch.nbytes)

    def _without_tokens(
        self, source: SurvivingUnits, units: Sequence[int], encoded: CommitLog
    ) -> Iterator[pa.RecordBatch]:
        """Documents that were dropped for the number of their tokens."""
        for unit in units:
            codes = dropped_codes(encoded, unit)
            if not codes.any():
                continue
            first = 0
            for block in source.blocks(unit):
                self.context.check_wanted()
                batch, _ = block.read()
                of_block = codes[first : first + batch.num_rows]
                first += batch.num_rows
                if of_block.any():
                    yield rejected_rows(batch, of_block, DROPS)
