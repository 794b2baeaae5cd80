"""The stages that make rows of tokens: encode, pack, and shuffle if that is asked for.

In: the units of kept documents and an encoder. Out: the dataset's shards and the files that make them one for
Hugging Face, in a folder for each split, and what was counted on the way. Held in memory: the blocks being
encoded, then for each shard being written a batch of rows and, for `bfd`, a window of documents' lengths.

With weights, each source is packed on its own, so that a loader can mix them: its rows follow those of the
source before, and the manifest says which are whose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from krill.dataset import DatasetPart, ShardInfo, SourceRows, write_dataset_parts
from krill.pipeline.context import Context
from krill.pipeline.encode import CUT, DROPS, VALIDATION
from krill.pipeline.survivors import add_counts
from krill.pipeline.token_work import Split, TokenWork
from krill.storage import CommitLog

Do = Callable[[str, Sequence[Any]], None]
"""Has these parts of a stage's work done."""

Stage = Callable[[str, int | None], AbstractContextManager[dict[str, Any]]]
"""Times a stage of this name and of so many bytes; what it gives takes the stage's figures."""


@dataclass(slots=True)
class Tokens:
    """What the stages made. `shortage` says why there is no dataset, and what to do about it."""

    documents: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)
    parts: tuple[DatasetPart, ...] = ()
    shortage: tuple[str, str | None] | None = None


class TokenStages:
    """The token stages of one run: `do` has their work done, `stage` times each of them."""

    def __init__(self, context: Context, work: TokenWork, do: Do, stage: Stage) -> None:
        self._context = context
        self._work = work
        self._do = do
        self._stage = stage
        self._settings = context.config.preprocess
        self._layout = work.layout
        self._recipe = work.recipe

    def run(self, positions: Sequence[int], *, input_bytes: int | None, counted: bool) -> Tokens:
        """All stages; `counted` says that an earlier stage has counted what reading drops."""
        result = Tokens()
        with self._stage("encode", input_bytes) as stage:
            self._do("encode", positions)
            self._count_encoded(self._work.log("encode"), stage, result, counted=counted)
            encoded = stage["tokens"]
        width = self._layout.dtype.itemsize
        with self._stage("pack", encoded * width) as stage:
            stage["tokens"] = encoded
            self._work.save_runs()
            self._do("windows", self._work.window_parts())
            splits = [self._work.split(number) for number in range(len(self._recipe.splits))]
            self._count_packed(splits, result)
            if result.shortage is not None:
                return result
            self._write("pack", splits)
            shards = self._stored(splits, stage) if self._settings.shuffle else self._written(splits, stage)
        if self._settings.shuffle:
            with self._stage("shuffle", result.tokens["kept"] * width) as stage:
                stage["tokens"] = result.tokens["kept"]
                self._write("shuffle", splits)
                shards = self._written(splits, stage)
        result.parts = tuple(map(self._part, splits, shards))
        write_dataset_parts(self._context.folder.dataset, result.parts)
        return result

    def _write(self, stage: str, splits: Sequence[Split]) -> None:
        for split in splits:  # where it is described in the end; workers may have theirs elsewhere
            self._work.folder(split.name)
        parts = [
            [number, shard.number] for number, split in enumerate(splits) for shard in split.writing.ranges
        ]
        self._do(stage, parts)

    def _count_encoded(self, log: CommitLog, stage: dict[str, Any], result: Tokens, *, counted: bool) -> None:
        result.tokens = {"kept": 0, "dropped_short": 0}
        if self._settings.max_length is not None:
            result.tokens["dropped_long"] = 0
        for _, record in log:
            counts = record["counts"]
            if counted:
                counts = {name: counts[name] for name in (*DROPS, CUT) if name in counts}
            add_counts(result.counts, counts)
            for split in self._recipe.splits:
                result.documents += record[split]["documents"]
                stage["tokens"] += record[split]["tokens"]
            result.tokens["dropped_short"] += record["tokens_dropped"]
            if self._settings.max_length is not None:
                result.tokens["dropped_long"] += record["tokens_too_many"]
            stage["bytes"] += record["bytes_read"]
        stage["documents"] = result.documents

    def _count_packed(self, splits: Sequence[Split], result: Tokens) -> None:
        kept = sum(split.kept for split in splits)
        result.tokens["dropped_tail"] = sum(split.encoded for split in splits) - kept
        result.tokens["kept"] = kept
        if len(splits) > 1:
            result.tokens[VALIDATION] = splits[1].kept
        result.shortage = next(self._shortages(splits), None)

    def _shortages(self, splits: Sequence[Split]) -> Iterator[tuple[str, str | None]]:
        """What there are too few tokens for."""
        row = f"fewer than one row of {self._layout.sequence_len:,}"
        train = splits[0]
        if not train.writing.ranges:
            yield f"{train.encoded:,} tokens are left, {row}", None
        for source, runs in zip(train.writing.sources, train.runs, strict=True):
            if source.dataset is not None and not source.rows.rows:
                path = self._context.config.datasets[source.dataset].path
                yield f"`{path}` has a weight, and {runs.total:,} tokens left, {row}", None
        for split in splits[1:]:
            if not split.writing.ranges:
                share = self._settings.split.validation
                yield (
                    f"{split.encoded:,} tokens are in the validation split, {row}",
                    f"raise `preprocess.split.validation`, which is {share:g}, or set it to 0",
                )

    def _stored(self, splits: Sequence[Split], stage: dict[str, Any]) -> list[list[ShardInfo]]:
        """Rows wait for the stage that puts them in order: there are no shards yet."""
        stage["bytes"] += sum(split.kept for split in splits) * self._layout.dtype.itemsize
        return []

    def _written(self, splits: Sequence[Split], stage: dict[str, Any]) -> list[list[ShardInfo]]:
        """The shards of the dataset."""
        written = [split.writing.written(self._work.log(stage["name"], split.name)) for split in splits]
        stage["bytes"] += sum(shard.bytes for shards in written for shard in shards)
        return written

    def _part(self, split: Split, shards: Sequence[ShardInfo]) -> DatasetPart:
        return DatasetPart(self._layout, tuple(shards), split.name, self._source_rows(split))

    def _source_rows(self, split: Split) -> tuple[SourceRows, ...]:
        weights = self._work.weights
        if weights is None:
            return ()
        found = []
        first = 0
        for dataset, (source, weight) in enumerate(zip(split.writing.sources, weights, strict=True)):
            found.append(SourceRows(dataset, weight, first, source.rows.rows, source.rows.tokens))
            first += source.rows.rows
        return tuple(found)
