"""Encode: the kept documents of each unit become files of tokens, one pair for each split.

Leaves for each unit a file of ids in the dataset's token type and a file of document lengths, and two more
for a validation split; when all are there, one small table of all units for each stream of documents that is
packed on its own. Documents of a source beyond its `max_tokens` are dropped: it ends before the first
document of the training split that would exceed them, in all splits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, repeat
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from krill.budget import Need
from krill.chat.options import UNTRAINED_REASONS
from krill.corpus.documents import Unit
from krill.engines import StageReport
from krill.pack import TokenFiles
from krill.pack.masked import MASKED_DTYPE
from krill.pipeline.block_encoder import (
    CUT,
    DROPS,
    OUTCOMES,
    TOO_FEW,
    BlockEncoder,
    TokenQuota,
    layout_of,
    packed_dtype,
    source_weights,
)
from krill.pipeline.chat_tokens import AS_TEXT, CUT_SHORT
from krill.pipeline.context import Context
from krill.pipeline.distributions import KEPT, Distributions
from krill.pipeline.examples import ExampleSet
from krill.pipeline.needs import MB, Sizing, step_stages
from krill.pipeline.prediction import ExpectedInput, StageCost
from krill.pipeline.stages.base import (
    PipelineStage,
    UnitSource,
    bundle_sizes,
    describe_units,
    in_bundles,
    unit_position,
)
from krill.pipeline.surviving_units import add_counts
from krill.pipeline.unit_tokens import UnitTokens, token_files
from krill.storage import CommitLog
from krill.storage.commits import damaged, reading_artifact
from krill.tokenizer import Encoder
from krill.tokenizer.open import encoder_needs

MASKED_BYTES: Final = np.dtype(MASKED_DTYPE).itemsize
ENCODING: Final = "blocks being encoded"
# Bytes of a block for each of its tokens, most often.
EXPECTED_TOKEN: Final = 1.5
EXPECTED_CHAT_TOKEN: Final = 4.0
# The same where rows give several texts each: a block is then by itself, at its fullest.
EXPECTED_UNFOLDED_TOKEN: Final = 11.0
# On top of a long document that words are found in: its normal form, and ids while they grow.
EXPECTED_LONG: Final = 0.75
# The log of the tables that say what all units gave to each stream; a name on disk.
_STREAMS: Final = "runs"


def chat_cost(nbytes: int) -> int:
    """The same of conversations: ids in both types, whether each is learned, how many are before it. Measured
    with a token for each byte, one and two threads, rows of a megabyte."""
    return 9 * nbytes + 4 * MB


def encode_cost(nbytes: int) -> int:
    """A block being encoded, at the most: itself, the cleaned copy, ids in the tokenizer's and the dataset's
    type."""
    return 9 * nbytes // 2 + 4 * MB


class Encode(PipelineStage):
    """Encodes the documents of `source`; `counted` says that an earlier stage counts what reading drops."""

    def __init__(self, context: Context, source: UnitSource, encoder: Encoder, *, counted: bool) -> None:
        super().__init__(context, "encode")
        self.source = source
        self.counted = counted
        self._encoder = BlockEncoder.of(context.config, encoder, context.steps)
        self.layout = layout_of(context.config, encoder.vocab_size)
        self.token_dtype = packed_dtype(self.layout)
        self.token_bytes = MASKED_BYTES if self.layout.labels else self.layout.dtype.itemsize
        """Of a token until it is in a row."""
        self.splits = self._encoder.splits
        self.weights = source_weights(context.config)
        self.datasets: Sequence[int | None] = [None] if self.weights is None else range(len(self.weights))
        """The sources that are packed on their own; None for all together."""
        self.tokens = 0
        """All that were encoded; known when the stage has finished."""
        self._known: dict[int, TokenFiles] = {}

    @staticmethod
    def needs(sizing: Sizing) -> Iterator[Need]:
        settings = sizing.config.preprocess
        if settings.output == "text":
            return
        is_chat = sizing.config.is_chat
        each = EXPECTED_CHAT_TOKEN if is_chat else EXPECTED_TOKEN

        def expected(nbytes: int) -> int:
            made = sizing.unfolded(nbytes)
            token = each if made == nbytes else EXPECTED_UNFOLDED_TOKEN
            held = made + int(token * sizing.tokens_per_byte * made) + MB
            if nbytes > sizing.block and sizing.config.tokenizer.builtin is None:
                held += int(EXPECTED_LONG * nbytes)
            if settings.filters:  # most of what they have passed is in blocks that are not full
                held //= 2
            if sizing.processes and "encode" in step_stages(sizing.config):
                # Rendering takes longer: one block less is there at once.
                held = held * sizing.threads // (sizing.threads + 1)
            return held

        cost = chat_cost if is_chat else encode_cost
        # Bytes are their own tokens.
        waiting = (lambda nbytes: nbytes) if sizing.config.tokenizer.builtin is not None else None
        yield sizing.blocks_in_flight(ENCODING, "encode", cost, expected, waiting)
        threads = sizing.threads
        busy = min(threads, sizing.in_flight)
        yield from encoder_needs(sizing.config.tokenizer, settings.max_document_bytes, threads, busy)

    @staticmethod
    def predict(expected: ExpectedInput) -> StageCost | None:
        if expected.config.preprocess.output == "text":
            return None
        # Until they are in rows, tokens of conversations have no labels but a bit.
        is_chat = expected.config.is_chat
        spilled = expected.total("tokens") * MASKED_BYTES if is_chat else expected.token_bytes
        return StageCost("encode", expected.reading_seconds("encode"), spilled)

    def tasks(self) -> Iterable[Any]:
        return self.source.units().tasks()

    def missing(self, tasks: Iterable[Any]) -> Iterator[Any]:
        log = self.log
        return (task for task in tasks if unit_position(task) not in log)

    def bundles(self, tasks: Iterable[Any], workers: int) -> Iterator[list[Any]]:
        """A source that gives only so many tokens has to be read in order, by one worker."""
        sizes = bundle_sizes(sum(1 for _ in self.tasks()), workers)
        for dataset, of_source in groupby(tasks, key=self._dataset_of):
            if self.context.config.datasets[dataset].max_tokens is not None:
                yield list(of_source)
            else:
                yield from in_bundles(of_source, sizes)

    def run(self, tasks: Iterable[Any]) -> None:
        """Of a source with a quota, they are all that are missing."""
        context, log, encoder, units = self.context, self.log, self._encoder, self.source.units()
        files, cost = context.corpus.files, chat_cost if self.layout.labels else encode_cost
        known = ExampleSet()
        quotas = [TokenQuota(dataset.max_tokens) for dataset in context.config.datasets]
        if any(dataset.max_tokens is not None for dataset in context.config.datasets):
            for _, record in log:
                quotas[record["dataset"]].resume(record)

        def begin(task: Any) -> UnitTokens:
            dataset = self._dataset_of(task)
            return UnitTokens.begin(log, unit_position(task), dataset, quotas[dataset], encoder, known)

        context.make_units(
            (
                (task, zip(repeat(quotas[self._dataset_of(task)]), units.blocks(task), strict=False))
                for task in tasks
            ),
            begin,
            lambda item: encoder.encode(item[1], files, known, counting=item[0].full),
            in_flight=context.plan.share(ENCODING),
            nbytes=lambda item: item[1].nbytes,
            cost=cost,
        )

    def finish(self) -> StageReport:
        report = StageReport()
        counts: dict[str, int] = {}
        found = Distributions()
        tokens = {"kept": 0, "dropped_short": 0}
        is_chat = self.layout.labels
        if is_chat or self.context.config.preprocess.max_length is not None:
            tokens["dropped_long"] = 0
        if is_chat:
            tokens["trained"] = 0
        for _, record in self.log:
            here, source = self._own_counts(record), record["dataset"]
            add_counts(counts, here)
            found.add_counts(source, here)
            found.add_kept(source, record[KEPT])
            for split in self.splits:
                report.documents += record[split]["documents"]
                report.tokens += record[split]["tokens"]
            tokens["dropped_short"] += record["tokens_dropped"]
            if "dropped_long" in tokens:
                tokens["dropped_long"] += record["tokens_too_many"]
            if is_chat:
                tokens["trained"] += record["trained"]
            report.bytes += record["bytes_read"]
        self.tokens = report.tokens
        report.counts, report.token_counts, report.kept = counts, tokens, report.documents
        report.by_source, report.distributions = found.counts, found.to_json()
        report.shortage = self._mostly_untrained(_untrained(counts), report.documents)
        self._save_streams()
        self._encoder.encoder.release()  # later stages are planned without its cache
        return report

    def _own_counts(self, record: Mapping[str, Any]) -> Mapping[str, int]:
        """What a unit's record counts, without what an earlier stage has counted."""
        counts: Mapping[str, int] = record["counts"]
        if not self.counted:
            return counts
        return {name: counts[name] for name in (*DROPS, CUT, CUT_SHORT, AS_TEXT) if name in counts}

    def describe(self, tasks: Sequence[Any]) -> str:
        units = [task if isinstance(task, int) else Unit.from_json(task) for task in tasks]
        return f"{self.name}, {describe_units(self.context, units)}"

    def input_bytes(self) -> int | None:
        return self.text_bytes(None)

    def _mostly_untrained(self, untrained: int, kept: int) -> tuple[str, str | None] | None:
        """What is wrong where nothing is learned in too many conversations: a template without markers of
        what is learned, or roles that no message has."""
        records, config = self.source.records() if self.counted else None, self.context.config
        untrained += sum(_untrained(record["counts"]) for _, record in records or ())
        most, chats = config.preprocess.max_untrained, self._encoder.chats
        if chats is None or untrained <= most * (untrained + kept):
            return None
        return (
            f"{untrained:,} of {untrained + kept:,} conversations have nothing to learn with"
            f" {chats.template}, and `preprocess.max_untrained` is {most:g}",
            "see that `roles_to_train` and `roles` name the roles of the data and that their answers are what"
            " the template asks for, or set `max_untrained` higher",
        )

    @property
    def streams(self) -> int:
        """Streams of documents that are packed on their own, over all splits."""
        return len(self.splits) * len(self.datasets)

    def stream(self, number: int) -> TokenFiles:
        """What all units gave to a stream; asked for when all are encoded."""
        if number not in self._known:
            self._known[number] = self._read_stream(number)
        return self._known[number]

    def _dataset_of(self, task: Any) -> int:
        return self.source_of(unit_position(task))

    def _save_streams(self) -> None:
        """What all units gave, in one place: a worker that packs needs no record of each."""
        saved = self.context.log(_STREAMS)
        for number in range(self.streams):
            if number not in saved:
                stream = self.stream(number)
                files = saved.begin(number, _STREAMS)
                for column in (stream.units, stream.tokens, stream.documents):
                    files.write(_STREAMS, column)
                files.commit({"units": len(stream.units)})

    def _read_stream(self, number: int) -> TokenFiles:
        split = self.splits[number // len(self.datasets)]
        saved = self.context.log(_STREAMS)
        if number not in saved:
            return committed_tokens(self.log, split, self.datasets[number % len(self.datasets)])
        path = saved.path(number, _STREAMS)
        units = saved.record(number)["units"]
        with reading_artifact(path):
            values = np.fromfile(path, np.uint64)
        if len(values) != 3 * units:
            raise damaged(path, f"has {len(values):,} numbers for {units:,} units")
        of_units, tokens, documents = values.reshape(3, units)
        return TokenFiles(
            partial(token_path, self.log, split),
            of_units,
            tokens.astype(np.int64),
            documents.astype(np.int64),
        )


def _untrained(counts: Mapping[str, int]) -> int:
    """Conversations that were left out because nothing of them can be learned."""
    return sum(counts.get(reason, 0) for reason in UNTRAINED_REASONS)


def dropped_codes(log: CommitLog, unit: int) -> NDArray[np.uint8]:
    """For each document of a unit 0, or the number (from 1) of the reason in `DROPS` why it was dropped."""
    path = log.path(unit, OUTCOMES)
    with reading_artifact(path):
        outcomes = np.fromfile(path, np.uint8)
    return np.where(outcomes < TOO_FEW, 0, outcomes - np.uint8(TOO_FEW - 1)).astype(np.uint8)


def token_path(log: CommitLog, split: str, unit: int, name: str) -> Path:
    """Where a unit's `tokens` or `lengths` of a split are."""
    return log.path(unit, token_files(split)[("tokens", "lengths").index(name)])


def committed_tokens(log: CommitLog, split: str, dataset: int | None = None) -> TokenFiles:
    """The token files of a split, for packing: of one source, or of all."""
    records = [
        (unit, record[split]["tokens"], record[split]["documents"])
        for unit, record in log
        if dataset is None or record["dataset"] == dataset
    ]
    units, tokens, documents = zip(*records, strict=True) if records else ((), (), ())
    return TokenFiles(
        partial(token_path, log, split),
        np.array(units, np.uint64),
        np.array(tokens, np.int64),
        np.array(documents, np.int64),
    )
