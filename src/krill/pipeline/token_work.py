"""The work of the token stages, by parts: any process may do any of them.

In: the units of kept documents, an encoder, and what earlier stages have committed. Out: token runs, rows of
windows, shards, each committed. Held in memory: the blocks being encoded, then for each shard being written a
batch of rows and, for `bfd`, a window of documents' lengths; 24 bytes for each unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from krill.config import KrillConfig
from krill.dataset import Layout, smallest_dtype
from krill.errors import ConfigError
from krill.pack import FittedRows, Fitting, PackedRows, TokenRuns, Windows, WrappedRows, fitting_of
from krill.pipeline.assemble import PackedSource, RowWriting, row_ranges
from krill.pipeline.bos import missing_bos
from krill.pipeline.context import Context
from krill.pipeline.encode import TRAIN, Recipe, encode, run_path, token_runs
from krill.pipeline.kept import KeptUnits
from krill.storage import CommitLog
from krill.storage.atomic import storage_errors
from krill.storage.commits import damaged, reading_artifact
from krill.tokenizer import Encoder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RUNS = "runs"
WINDOWS = "windows"
# Windows whose rows are counted in one commit: few enough for all threads, and not a file for each.
_WINDOWS = 4
_MOST_COMMITS = 4096


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


@dataclass(frozen=True, slots=True)
class Split:
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


class TokenWork:
    """The token stages of one run."""

    def __init__(self, context: Context, encoder: Encoder) -> None:
        settings = context.config.preprocess
        self._context = context
        self._known: dict[int, TokenRuns] = {}
        self._settings = settings
        self.layout = layout_of(context.config, encoder.vocab_size)
        self.weights = source_weights(context.config)
        self._fitting: Fitting | None = None
        if settings.packing != "wrapped":
            self._fitting = fitting_of(settings.packing, settings.sequence_len, settings.pack_window)
        self.recipe = Recipe(
            encoder=encoder,
            dtype=self.layout.token_dtype,
            min_length=settings.min_length,
            max_length=settings.max_length,
            bos=missing_bos(encoder) if settings.bos else None,
            validation=settings.split.validation,
            row=None if self._fitting is None else settings.sequence_len,
            rejected=settings.rejected,
        )

    def encode(self, units: KeptUnits, positions: Sequence[int]) -> None:
        """The token runs of these units."""
        encode(self._context, self.log("encode"), units, self.recipe, positions)

    def save_runs(self) -> None:
        """What all units gave, in one place: a worker that packs needs no record of each."""
        log = self.log(RUNS)
        for number in range(self.streams):
            if number not in log:
                runs = self._runs(number)
                files = log.begin(number, RUNS)
                for column in (runs.units, runs.tokens, runs.documents):
                    files.write(RUNS, column)
                files.commit({"units": len(runs.units)})

    def window_parts(self) -> list[list[int]]:
        """Windows to count the rows of: a stream's number and that of a commit."""
        if self._fitting is None:
            return []
        return [
            [number, part]
            for number in range(self.streams)
            for part in range(_commits(Windows(self._runs(number), self._fitting).count)[1])
        ]

    def count_windows(self, parts: Sequence[Sequence[int]]) -> None:
        """How many rows each window of these parts gives."""
        import numpy as np

        fitting = self._fitting
        assert fitting is not None
        for number in dict.fromkeys(number for number, _ in parts):
            windows = Windows(self._runs(number), fitting)
            size, _ = _commits(windows.count)
            log = self.log(f"{WINDOWS}-{number}")

            def count(
                part: int, windows: Windows = windows, size: int = size
            ) -> tuple[int, NDArray[np.int64]]:
                own = range(part * size, min(windows.count, (part + 1) * size))
                return part, np.fromiter(map(windows.rows, own), np.int64, len(own))

            todo = [part for stream, part in parts if stream == number and part not in log]
            for part, rows in self._context.map(
                count,
                todo,
                in_flight=self._context.plan.share("rows being packed"),
                size=lambda _: fitting.held_bytes,
            ):
                files = log.begin(part, "rows")
                try:
                    files.write("rows", rows)
                except BaseException:
                    files.abort()
                    raise
                self._context.unit_done(files.commit({"windows": len(rows)}))

    def split(self, number: int) -> Split:
        """The rows of one split, as they are going to be packed."""
        name = self.recipe.splits[number]
        datasets = self._datasets
        first = number * len(datasets)
        runs = [self._runs(first + source) for source in range(len(datasets))]
        sources = [
            PackedSource(dataset, self._packed(run, first + source))
            for source, (dataset, run) in enumerate(zip(datasets, runs, strict=True))
        ]
        ranges = row_ranges(sources, self.layout, self._settings.shard_size)
        held = 0 if self._fitting is None else self._fitting.held_bytes
        writing = RowWriting(self._context, self.layout, sources, ranges, held)
        return Split(name if len(self.recipe.splits) > 1 else None, runs, writing)

    def shuffled(self, split: Split) -> Split:
        """The rows that were stored, in an order drawn from the seed."""
        stored = self.log("pack", split.name)
        return replace(split, writing=split.writing.shuffled(stored, self._context.config.seed))

    def write_rows(self, stage: str, parts: Sequence[Sequence[int]]) -> None:
        """Shards of these numbers, each after that of its split: in the stage `pack` the rows for another
        order, if that is asked for, else those of the dataset."""
        for number in dict.fromkeys(number for number, _ in parts):
            split = self.split(number)
            shards = [shard for of, shard in parts if of == number]
            log = self.log(stage, split.name)
            if stage == "pack" and self._settings.shuffle:
                split.writing.store(log, shards)
            else:
                writing = (self.shuffled(split) if stage == "shuffle" else split).writing
                writing.finish(log, self.folder(split.name), shards)

    def log(self, stage: str, split: str | None = None) -> CommitLog:
        """What a stage has committed."""
        name = stage if split in (None, TRAIN) else f"{stage}-{split}"
        return self._context.log(name)

    @property
    def _datasets(self) -> Sequence[int | None]:
        """The sources that are packed on their own; None for all together."""
        return [None] if self.weights is None else range(len(self.weights))

    @property
    def streams(self) -> int:
        """Streams of documents that are packed on their own, over all splits."""
        return len(self.recipe.splits) * len(self._datasets)

    def _runs(self, number: int) -> TokenRuns:
        """What all units gave to a stream; asked for when all are encoded."""
        if number not in self._known:
            self._known[number] = self._read_runs(number)
        return self._known[number]

    def _read_runs(self, number: int) -> TokenRuns:
        import numpy as np

        split = self.recipe.splits[number // len(self._datasets)]
        encoded, saved = self.log("encode"), self.log(RUNS)
        if number not in saved:
            return token_runs(encoded, split, self._datasets[number % len(self._datasets)])
        path = saved.path(number, RUNS)
        units = saved.record(number)["units"]
        with reading_artifact(path):
            values = np.fromfile(path, np.uint64)
        if len(values) != 3 * units:
            raise damaged(path, f"has {len(values):,} numbers for {units:,} units")
        of_units, tokens, documents = values.reshape(3, units)
        return TokenRuns(
            partial(run_path, encoded, split), of_units, tokens.astype(np.int64), documents.astype(np.int64)
        )

    def _packed(self, runs: TokenRuns, number: int) -> PackedRows:
        if self._fitting is None:
            return WrappedRows(runs, self.layout.token_dtype, self.layout.sequence_len)
        windows = Windows(runs, self._fitting)
        return FittedRows(windows, self.layout.token_dtype, self._window_rows(windows.count, number))

    def _window_rows(self, count: int, number: int) -> NDArray[np.int64]:
        """How many rows each window gives, as they were counted."""
        import numpy as np

        log = self.log(f"{WINDOWS}-{number}")
        rows = [np.empty(0, np.int64)]
        for part in range(_commits(count)[1]):
            path = log.path(part, "rows")
            with reading_artifact(path):
                rows.append(np.fromfile(path, np.int64))
        found = np.concatenate(rows)
        if len(found) != count:
            raise damaged(log.folder, f"has the rows of {len(found):,} windows of {count:,}")
        return found

    def folder(self, split: str | None) -> Path:
        """Where a split's shards go, made if need be."""
        folder = self._context.folder.dataset / (split or "")
        with storage_errors(folder):
            folder.mkdir(exist_ok=True)
        return folder


def _commits(windows: int) -> tuple[int, int]:
    """How many windows a commit has, and how many commits there are."""
    size = max(_WINDOWS, -(-windows // _MOST_COMMITS))
    return size, -(-windows // size)
