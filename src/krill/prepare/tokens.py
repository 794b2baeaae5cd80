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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from krill.config import KrillConfig
from krill.errors import ConfigError
from krill.flow import CommitLog
from krill.flow.atomic import storage_errors, sweep_temporaries
from krill.flow.commits import damaged, reading_artifact
from krill.pack import FittedRows, Fitting, PackedRows, TokenRuns, Windows, WrappedRows, fitting_of
from krill.prepare.assemble import PackedSource, RowWriting, row_ranges
from krill.prepare.bos import missing_bos
from krill.prepare.context import Context
from krill.prepare.encode import CUT, DROPS, TRAIN, VALIDATION, Recipe, encode, token_runs
from krill.prepare.kept import KeptUnits
from krill.prepare.survivors import add_counts
from krill.shards import DatasetPart, Layout, ShardInfo, SourceRows, smallest_dtype, write_dataset_parts
from krill.tokenizer import Encoder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Stage = Callable[[str, int | None], AbstractContextManager[dict[str, Any]]]
"""Times a stage of this name and of so many bytes; what it gives takes the stage's figures."""


def check_tokens(config: KrillConfig, encoder: Encoder) -> None:
    """Refuse, before anything is read, settings that don't fit the tokenizer or each other."""
    import numpy as np

    dtype, declared = config.preprocess.token_dtype, config.tokenizer.vocab_size
    if dtype != "auto" and encoder.vocab_size - 1 > np.iinfo(dtype).max:
        raise ConfigError(
            f"`preprocess.token_dtype` is `{dtype}`, which can't hold the tokenizer's"
            f" {encoder.vocab_size:,} ids",
            hint="set it to `auto` or `uint32`",
        )
    if "vocab_size" in config.tokenizer.model_fields_set and encoder.vocab_size > declared:
        raise ConfigError(
            f"`tokenizer.vocab_size` is {declared:,}, and the tokenizer `{encoder.name}` has ids up to"
            f" {encoder.vocab_size - 1:,}",
            hint=f"set it to {encoder.vocab_size}, take it out, or choose the tokenizer that was meant",
        )
    if config.preprocess.bos:
        missing_bos(encoder)
    source_weights(config)


def source_weights(config: KrillConfig) -> list[float] | None:
    """The weight of each source; None if sources are not weighted."""
    given = [dataset for dataset in config.datasets if dataset.weight is not None]
    if not given:
        return None
    for dataset in config.datasets:
        if dataset.weight is None:
            raise ConfigError(
                f"`datasets` gives a `weight` to `{given[0].path}` and none to `{dataset.path}`",
                hint="give each source a weight, or none",
            )
    return [dataset.weight for dataset in given if dataset.weight is not None]


def layout_of(config: KrillConfig, vocab_size: int) -> Layout:
    """The dataset's layout: config and vocabulary alone."""
    settings = config.preprocess
    dtype = smallest_dtype(vocab_size) if settings.token_dtype == "auto" else settings.token_dtype
    return Layout(settings.sequence_len, dtype, fixed=settings.packing == "wrapped")


@dataclass(slots=True)
class Tokens:
    """What the stages made. `shortage` says why there is no dataset, and what to do about it."""

    documents: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)
    parts: tuple[DatasetPart, ...] = ()
    shortage: tuple[str, str | None] | None = None


@dataclass(frozen=True, slots=True)
class _Split:
    """A split on its way to disk; `name` is None where there is only one."""

    name: str | None
    runs: Sequence[TokenRuns]
    writing: RowWriting

    @property
    def encoded(self) -> int:
        return sum(runs.total for runs in self.runs)

    @property
    def kept(self) -> int:
        return sum(source.rows.tokens for source in self.writing.sources)


class TokenStages:
    """The token stages of one run; `stage` times each of them."""

    def __init__(self, context: Context, encoder: Encoder, stage: Stage) -> None:
        settings = context.config.preprocess
        self._context = context
        self._stage = stage
        self._settings = settings
        self._layout = layout_of(context.config, encoder.vocab_size)
        self._weights = source_weights(context.config)
        self._fitting: Fitting | None = None
        if settings.packing != "wrapped":
            self._fitting = fitting_of(settings.packing, settings.sequence_len, settings.pack_window)
        self._recipe = Recipe(
            encoder=encoder,
            dtype=self._layout.token_dtype,
            min_length=settings.min_length,
            max_length=settings.max_length,
            bos=missing_bos(encoder) if settings.bos else None,
            validation=settings.split.validation,
            row=None if self._fitting is None else settings.sequence_len,
            rejected=settings.rejected,
        )

    def run(self, units: KeptUnits, *, input_bytes: int | None, counted: bool) -> Tokens:
        """All stages; `counted` says that an earlier stage has counted what reading drops."""
        result = Tokens()
        log = self._log("encode")
        with self._stage("encode", input_bytes) as stage:
            encode(self._context, log, units, self._recipe)
            self._count_encoded(log, stage, result, counted=counted)
            encoded = stage["tokens"]
        width = self._layout.dtype.itemsize
        with self._stage("pack", encoded * width) as stage:
            stage["tokens"] = encoded
            splits = [self._split(log, number) for number in range(len(self._recipe.splits))]
            self._count_packed(splits, result)
            if result.shortage is not None:
                return result
            shards = self._store(splits, stage) if self._settings.shuffle else self._finish(splits, stage)
        if self._settings.shuffle:
            with self._stage("shuffle", result.tokens["kept"] * width) as stage:
                stage["tokens"] = result.tokens["kept"]
                shards = self._finish([self._shuffled(split) for split in splits], stage)
        result.parts = tuple(map(self._part, splits, shards))
        write_dataset_parts(self._context.folder.dataset, result.parts)
        return result

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

    def _split(self, log: CommitLog, number: int) -> _Split:
        """The rows of one split, as they are going to be packed."""
        name = self._recipe.splits[number]
        datasets: Sequence[int | None] = [None] if self._weights is None else range(len(self._weights))
        runs = [token_runs(log, name, dataset) for dataset in datasets]
        sources = [
            PackedSource(dataset, self._packed(run, number * len(datasets) + source))
            for source, (dataset, run) in enumerate(zip(datasets, runs, strict=True))
        ]
        ranges = row_ranges(sources, self._layout, self._settings.shard_size)
        held = 0 if self._fitting is None else self._fitting.held_bytes
        writing = RowWriting(self._context, self._layout, sources, ranges, held)
        return _Split(name if len(self._recipe.splits) > 1 else None, runs, writing)

    def _packed(self, runs: TokenRuns, number: int) -> PackedRows:
        layout = self._layout
        if self._fitting is None:
            return WrappedRows(runs, layout.token_dtype, layout.sequence_len)
        windows = Windows(runs, self._fitting)
        return FittedRows(windows, layout.token_dtype, self._window_rows(windows, self._fitting, number))

    def _window_rows(self, windows: Windows, fitting: Fitting, number: int) -> NDArray[np.int64]:
        """How many rows each window gives, worked out once."""
        import numpy as np

        log = self._log("windows")
        if number not in log:
            counts = self._context.map(
                windows.rows,
                range(windows.count),
                in_flight=self._context.plan.share("rows being packed"),
                size=lambda _: fitting.held_bytes,
            )
            files = log.begin(number, "rows")
            try:
                files.write("rows", np.fromiter(counts, np.int64, windows.count))
            except BaseException:
                files.abort()
                raise
            self._context.unit_done(files.commit({"windows": windows.count}))
        path = log.path(number, "rows")
        with reading_artifact(path):
            rows = np.fromfile(path, np.int64)
        if len(rows) != windows.count:
            raise damaged(path, "is not as long as its record says")
        return rows

    def _count_packed(self, splits: Sequence[_Split], result: Tokens) -> None:
        kept = sum(split.kept for split in splits)
        result.tokens["dropped_tail"] = sum(split.encoded for split in splits) - kept
        result.tokens["kept"] = kept
        if len(splits) > 1:
            result.tokens[VALIDATION] = splits[1].kept
        result.shortage = next(self._shortages(splits), None)

    def _shortages(self, splits: Sequence[_Split]) -> Iterator[tuple[str, str | None]]:
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

    def _store(self, splits: Sequence[_Split], stage: dict[str, Any]) -> list[list[ShardInfo]]:
        """Write the rows for the stage that puts them in order: there are no shards yet."""
        for split in splits:
            split.writing.store(self._log("pack", split.name))
            stage["bytes"] += split.kept * self._layout.dtype.itemsize
        return []

    def _shuffled(self, split: _Split) -> _Split:
        """The rows that were stored, in an order drawn from the seed."""
        stored = self._log("pack", split.name)
        return replace(split, writing=split.writing.shuffled(stored, self._context.config.seed))

    def _finish(self, splits: Sequence[_Split], stage: dict[str, Any]) -> list[list[ShardInfo]]:
        """Write the shards of the dataset."""
        written = []
        for split in splits:
            shards = split.writing.finish(self._log(stage["name"], split.name), self._folder(split.name))
            stage["bytes"] += sum(shard.bytes for shard in shards)
            written.append(shards)
        return written

    def _part(self, split: _Split, shards: Sequence[ShardInfo]) -> DatasetPart:
        return DatasetPart(self._layout, tuple(shards), split.name, self._source_rows(split))

    def _source_rows(self, split: _Split) -> tuple[SourceRows, ...]:
        if self._weights is None:
            return ()
        found = []
        first = 0
        for dataset, (source, weight) in enumerate(zip(split.writing.sources, self._weights, strict=True)):
            found.append(SourceRows(dataset, weight, first, source.rows.rows, source.rows.tokens))
            first += source.rows.rows
        return tuple(found)

    def _folder(self, split: str | None) -> Path:
        """Where a split's shards go, without what a killed run was writing there."""
        folder = self._context.folder.dataset / (split or "")
        with storage_errors(folder):
            folder.mkdir(exist_ok=True)
        sweep_temporaries(folder)
        return folder

    def _log(self, stage: str, split: str | None = None) -> CommitLog:
        name = stage if split in (None, TRAIN) else f"{stage}-{split}"
        return CommitLog(self._context.folder.stages / name)
