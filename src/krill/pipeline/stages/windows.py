"""Windows: how many rows each window of documents gives, where documents are fitted into rows.

In: the lengths of the documents that were encoded. Out: a count for each window, from which it follows which
rows go into which shard. Held in memory: for each thread a window of documents' lengths; 24 bytes for each
unit. Where rows are cut from one stream of tokens there is nothing to count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from krill.budget import Need
from krill.engines import StageReport
from krill.pack import FittedRows, Fitting, PackedRows, PackingWindows, TokenFiles, WrappedRows, fitting_of
from krill.pipeline.block_encoder import VALIDATION
from krill.pipeline.context import Context
from krill.pipeline.needs import Sizing
from krill.pipeline.stages.base import PipelineStage
from krill.pipeline.stages.encode import Encode
from krill.storage import CommitLog
from krill.storage.atomic import undo_on_error
from krill.storage.commits import damaged, reading_artifact

PACKING: Final = "rows being packed"
# Windows whose rows are counted in one commit: few enough for all threads, and not a file for each.
_WINDOWS = 4
_MOST_COMMITS = 4096
# A token in a shard, most often.
_TOKEN_BYTES: Final = 2


def pack_cost(batch_bytes: int) -> int:
    """A shard being packed: a batch of rows as read and as written, its document borders and the message."""
    return 4 * batch_bytes


@dataclass(frozen=True, slots=True)
class PackedSource:
    """One stream of documents that is packed on its own: all of a split, or a weighted source's share."""

    dataset: int | None
    rows: PackedRows


@dataclass(frozen=True, slots=True)
class Split:
    """The rows of a split, as they are going to be packed; `name` is None where there is only one."""

    name: str | None
    streams: Sequence[TokenFiles]
    sources: Sequence[PackedSource]

    @property
    def encoded(self) -> int:
        return sum(stream.total for stream in self.streams)

    @property
    def kept(self) -> int:
        return sum(source.rows.tokens for source in self.sources)


class CountWindows(PipelineStage):
    """Counts the rows of what `encode` made; a task is the number of a stream and that of a commit."""

    def __init__(self, context: Context, encode: Encode) -> None:
        super().__init__(context, "windows", part_of="pack")
        self.encode = encode
        self._settings = settings = context.config.preprocess
        self._fitting: Fitting | None = None
        if settings.packing != "wrapped":
            self._fitting = fitting_of(settings.packing, settings.sequence_len, settings.pack_window)

    @property
    def held_bytes(self) -> int:
        """What fitting documents into rows holds of a window."""
        return 0 if self._fitting is None else self._fitting.held_bytes

    @staticmethod
    def needs(sizing: Sizing) -> Iterator[Need]:
        settings = sizing.config.preprocess
        if settings.output == "text":
            return
        rows = pack_cost(max(2**20, settings.sequence_len * 4))
        if settings.packing != "wrapped":
            rows += fitting_of(settings.packing, settings.sequence_len, settings.pack_window).held_bytes
        token_bytes = int(_TOKEN_BYTES * sizing.tokens_per_byte * sizing.text_bytes)
        yield Need(
            PACKING,
            rows,
            useful=rows * sizing.threads,
            expected=rows * min(sizing.threads, max(1, -(-token_bytes // settings.shard_size))),
            during="pack",
            remedy="set preprocess.sequence_len lower (a row is held whole)",
        )

    def tasks(self) -> Iterable[list[int]]:
        if self._fitting is None:
            return
        for number in range(self.encode.streams):
            windows = PackingWindows(self.encode.stream(number), self._fitting)
            yield from ([number, part] for part in range(_commits(windows.count)[1]))

    def missing(self, tasks: Iterable[Any]) -> Iterator[Any]:
        logs = [self._log_of(number) for number in range(self.encode.streams)] if self._fitting else []
        return (task for task in tasks if task[1] not in logs[task[0]])

    def run(self, tasks: Iterable[Any]) -> None:
        todo, fitting = list(tasks), self._fitting
        for number in dict.fromkeys(number for number, _ in todo):
            assert fitting is not None
            self._count(fitting, number, [part for stream, part in todo if stream == number])

    def finish(self) -> StageReport:
        splits = self.splits()
        kept = sum(split.kept for split in splits)
        dropped = sum(split.encoded for split in splits) - kept
        tokens = {"dropped_tail": dropped, "kept": kept}
        if len(splits) > 1:
            tokens[VALIDATION] = splits[1].kept
        return StageReport(token_counts=tokens, shortage=next(self._shortages(splits), None))

    def describe(self, tasks: Sequence[Any]) -> str:
        return f"{self.name}, part {tasks[0][1]:,} of stream {tasks[0][0]}"

    def input_bytes(self) -> int | None:
        return self.encode.tokens * self.encode.token_bytes

    def splits(self) -> list[Split]:
        """What is going to be packed, when all windows are counted."""
        return [self.split(number) for number in range(len(self.encode.splits))]

    def split(self, number: int) -> Split:
        encode = self.encode
        first = number * len(encode.datasets)
        streams = [encode.stream(first + source) for source in range(len(encode.datasets))]
        sources = [
            PackedSource(dataset, self._packed(stream, first + source))
            for source, (dataset, stream) in enumerate(zip(encode.datasets, streams, strict=True))
        ]
        return Split(encode.splits[number] if len(encode.splits) > 1 else None, streams, sources)

    def _log_of(self, stream: int) -> CommitLog:
        return self.context.log(f"{self.name}-{stream}")

    def _count(self, fitting: Fitting, number: int, parts: Sequence[int]) -> None:
        """How many rows each window of these commits gives."""
        windows = PackingWindows(self.encode.stream(number), fitting)
        size, _ = _commits(windows.count)
        log = self._log_of(number)

        def count(part: int) -> tuple[int, NDArray[np.int64]]:
            own = range(part * size, min(windows.count, (part + 1) * size))
            return part, np.fromiter(map(windows.rows, own), np.int64, len(own))

        share = self.context.plan.share(PACKING)
        for part, rows in self.context.map(count, parts, in_flight=share, size=lambda _: fitting.held_bytes):
            files = log.begin(part, "rows")
            with undo_on_error(files.abort):
                files.write("rows", rows)
            self.context.unit_done(files.commit({"windows": len(rows)}))

    def _packed(self, stream: TokenFiles, number: int) -> PackedRows:
        layout = self.encode.layout
        if self._fitting is None:
            return WrappedRows(stream, layout.token_dtype, layout.sequence_len)
        windows = PackingWindows(stream, self._fitting)
        return FittedRows(windows, self.encode.token_dtype, self._rows_of(windows.count, number))

    def _rows_of(self, count: int, number: int) -> NDArray[np.int64]:
        """How many rows each window gives, as they were counted."""
        log = self._log_of(number)
        rows = [np.empty(0, np.int64)]
        for part in range(_commits(count)[1]):
            path = log.path(part, "rows")
            with reading_artifact(path):
                rows.append(np.fromfile(path, np.int64))
        found = np.concatenate(rows)
        if len(found) != count:
            raise damaged(log.folder, f"has the rows of {len(found):,} windows of {count:,}")
        return found

    def _shortages(self, splits: Sequence[Split]) -> Iterator[tuple[str, str | None]]:
        """What there are too few tokens for."""
        row = f"fewer than one row of {self.encode.layout.sequence_len:,}"
        train = splits[0]
        if not any(source.rows.rows for source in train.sources):
            yield f"{train.encoded:,} tokens are left, {row}", None
        for source, stream in zip(train.sources, train.streams, strict=True):
            if source.dataset is not None and not source.rows.rows:
                path = self.context.config.datasets[source.dataset].path
                yield f"`{path}` has a weight, and {stream.total:,} tokens left, {row}", None
        for split in splits[1:]:
            if not any(source.rows.rows for source in split.sources):
                share = self._settings.split.validation
                yield (
                    f"{split.encoded:,} tokens are in the validation split, {row}",
                    f"raise `preprocess.split.validation`, which is {share:g}, or set it to 0",
                )


def _commits(windows: int) -> tuple[int, int]:
    """How many windows a commit has, and how many commits there are."""
    size = max(_WINDOWS, -(-windows // _MOST_COMMITS))
    return size, -(-windows // size)
