"""Pack: shards of packed rows, each assembled on its own; where rows are shuffled, plain files of rows first.

In: token files, and how many rows they give. Out: the dataset's shards and the files that make them one for
Hugging Face, in a folder for each split. Held in memory: for each shard being written a batch of rows and,
for `bfd`, a window of documents' lengths.

Which rows go into a shard is arithmetic on what earlier stages recorded, so shards are written in any order
by any thread and come out the same. With weights, each source is packed on its own, so that a loader can mix
them: its rows follow those of the source before, and the manifest says which are whose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from krill.dataset import (
    DatasetPart,
    Layout,
    RowBatch,
    ShardInfo,
    ShardWriter,
    SourceRows,
    write_dataset_parts,
)
from krill.dataset.shard import token_shard_name
from krill.engines import StageReport
from krill.pack import stored_row_files
from krill.pack.masked import ids_and_labels
from krill.pack.rows import Rows
from krill.pack.stored import BEGINNINGS, PIECES, TOKENS
from krill.pipeline.block_encoder import TRAIN, VALIDATION
from krill.pipeline.context import Context
from krill.pipeline.distributions import RowShapes
from krill.pipeline.prediction import ExpectedInput, StageCost
from krill.pipeline.stages.base import PipelineStage
from krill.pipeline.stages.windows import PACKING, CountWindows, PackedSource, Split, pack_cost
from krill.storage import CommitLog
from krill.storage.atomic import storage_errors, undo_on_error
from krill.storage.commits import UnitFiles

Result = TypeVar("Result")

# Bytes of tokens per second and thread, measured on the machine in docs/benchmarks.md.
_RATE = 800e6


class WriteRows(PipelineStage):
    """A stage that writes the shards of all splits; a task is the number of a split and that of a shard."""

    def __init__(self, context: Context, name: str, windows: CountWindows, held_bytes: int) -> None:
        super().__init__(context, name)
        self.windows = windows
        self.layout = windows.encode.layout
        self._held_bytes = held_bytes

    def tasks(self) -> Iterable[list[int]]:
        for number, split in enumerate(self.windows.splits()):
            self.folder(split)  # where it is described in the end; workers may have theirs elsewhere
            yield from ([number, shard.number] for shard in self.ranges(split))

    def missing(self, tasks: Iterable[Any]) -> Iterator[Any]:
        logs = [self.log_of(split) for split in self.windows.encode.splits]
        return (task for task in tasks if task[1] not in logs[task[0]])

    def describe(self, tasks: Sequence[Any]) -> str:
        return f"{self.name}, part {tasks[0][1]:,} of stream {tasks[0][0]}"

    def ranges(self, split: Split) -> list[RowRange]:
        return row_ranges(split.sources, self.layout, self.context.config.preprocess.shard_size)

    def log_of(self, split: str | None) -> CommitLog:
        return self.context.log(self.name if split in (None, TRAIN) else f"{self.name}-{split}")

    def folder(self, split: Split) -> Path:
        """Where a split's shards go, made if need be."""
        folder = self.context.folder.dataset / (split.name or "")
        with storage_errors(folder):
            folder.mkdir(exist_ok=True)
        return folder

    def write_shards(self, split: Split, numbers: Sequence[int]) -> None:
        log, folder = self.log_of(split.name), self.folder(split)

        def write(shard: RowRange) -> tuple[Path, dict[str, Any]]:
            path = folder / token_shard_name(shard.number)
            shapes = RowShapes()
            with ShardWriter(path, self.layout) as writer:
                for rows in self._read(split, shard):
                    shapes.add(*rows[2:])
                    writer.write(self._row_batch(rows))
                return path, {"shard": writer.close().to_json(), "shapes": shapes.to_json()}

        for shard, (path, record) in self._map(split, write, numbers):
            log.commit(shard.number, record, [path])

    def store_rows(self, split: Split, numbers: Sequence[int]) -> None:
        """Rows in plain files of this stage, for another order."""
        log = self.log_of(split.name)

        def write(shard: RowRange) -> UnitFiles:
            files = log.begin(shard.number, TOKENS, PIECES, BEGINNINGS)
            with undo_on_error(files.abort):
                for name, values in stored_row_files(self._read(split, shard)):
                    files.write(name, values)
            return files

        for shard, files in self._map(split, write, numbers):
            self.context.unit_done(files.commit({"rows": shard.rows}))

    def dataset(self, tokens: int) -> StageReport:
        """The finished dataset, described on disk; `tokens` is what the stage was to read."""
        splits = self.windows.splits()
        shards = [self._written(split) for split in splits]
        parts = [
            DatasetPart(self.layout, tuple(written), split.name, self._source_rows(split))
            for split, written in zip(splits, shards, strict=True)
        ]
        write_dataset_parts(self.context.folder.dataset, parts)
        size = sum(shard.bytes for written in shards for shard in written)
        outputs = dict(zip(("dataset", VALIDATION), parts, strict=False))
        shapes = RowShapes()
        for split in splits:
            for _, record in self.log_of(split.name):
                shapes.add_record(record["shapes"])
        return StageReport(bytes=size, tokens=tokens, outputs=outputs, distributions=shapes.to_json())

    def _written(self, split: Split) -> list[ShardInfo]:
        log = self.log_of(split.name)
        return [ShardInfo.from_json(log.record(shard.number)["shard"]) for shard in self.ranges(split)]

    def _source_rows(self, split: Split) -> tuple[SourceRows, ...]:
        weights = self.windows.encode.weights
        if weights is None:
            return ()
        found = []
        first = 0
        for dataset, (source, weight) in enumerate(zip(split.sources, weights, strict=True)):
            found.append(SourceRows(dataset, weight, first, source.rows.rows, source.rows.tokens))
            first += source.rows.rows
        return tuple(found)

    def _row_batch(self, rows: Rows) -> RowBatch:
        if not self.layout.labels:
            return RowBatch(*rows)
        tokens, offsets, seq_lengths, seq_offsets = rows
        ids, labels = ids_and_labels(tokens, self.layout.token_dtype)
        return RowBatch(ids, offsets, seq_lengths, seq_offsets, labels)

    def _read(self, split: Split, shard: RowRange) -> Iterator[Rows]:
        rows = split.sources[shard.source].rows
        for batch in rows.read(shard.first, shard.rows, self.layout.rows_per_batch):
            self.context.check_wanted()
            yield batch
            self.context.progress.advance(batch[0].nbytes)

    def _map(
        self, split: Split, write: Callable[[RowRange], Result], numbers: Sequence[int]
    ) -> Iterator[tuple[RowRange, Result]]:
        ranges = self.ranges(split)
        cost = pack_cost(self.layout.row_bytes * self.layout.rows_per_batch) + self._held_bytes
        return self.context.map(
            lambda shard: (shard, write(shard)),
            [ranges[number] for number in numbers],
            in_flight=self.context.plan.share(PACKING),
            size=lambda _: cost,
        )


class Pack(WriteRows):
    """Writes the shards of the dataset or, where `ShuffleRows` follows, the rows that it reads."""

    def __init__(self, context: Context, windows: CountWindows) -> None:
        super().__init__(context, "pack", windows, windows.held_bytes)
        self._stores = context.config.preprocess.shuffle

    needs = staticmethod(CountWindows.needs)

    @staticmethod
    def predict(expected: ExpectedInput) -> StageCost | None:
        if expected.config.preprocess.output == "text":
            return None
        size = expected.token_bytes
        return StageCost("pack", size / _RATE / expected.threads, output_bytes=size)

    def run(self, tasks: Iterable[Any]) -> None:
        write = self.store_rows if self._stores else self.write_shards
        for number, shards in by_split(tasks).items():
            write(self.windows.split(number), shards)

    def finish(self) -> StageReport:
        tokens = self.windows.encode.tokens
        if not self._stores:
            return self.dataset(tokens)
        kept = sum(split.kept for split in self.windows.splits())
        return StageReport(bytes=kept * self.windows.encode.token_bytes, tokens=tokens)

    def input_bytes(self) -> int | None:
        return self.windows.input_bytes()


def by_split(tasks: Iterable[Sequence[int]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for split, shard in tasks:
        found.setdefault(split, []).append(shard)
    return found


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
        row_bytes = layout.token_bytes * rows.tokens / max(1, rows.rows)
        batches = max(1, int(shard_size // (row_bytes * layout.rows_per_batch or 1)))
        per_shard = batches * layout.rows_per_batch
        for first in range(0, rows.rows, per_shard):
            ranges.append(RowRange(len(ranges), source, first, min(per_shard, rows.rows - first)))
    return ranges
