"""The stages of one run, in order, and what they found.

In: a `Context`. Out: the shards in the run's folder, and what the manifest says of them. Held in memory:
what the stage that runs holds, and the encoder.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from krill import _native
from krill.corpus import Corpus
from krill.dataset import DatasetPart, TextPart
from krill.dedup import Pending
from krill.dedup.index_database import PendingRun
from krill.errors import InputError
from krill.pipeline.bos import missing_bos
from krill.pipeline.context import Context
from krill.pipeline.dedup_needs import minhash_of
from krill.pipeline.fleet import Fleet
from krill.pipeline.kept import KEEP
from krill.pipeline.prediction import Prediction, predict
from krill.pipeline.resolve import noted_files
from krill.pipeline.sampling import look
from krill.pipeline.seen_before import EarlierRuns, against_files
from krill.pipeline.stage_work import Parts, StageWork, Starts
from krill.pipeline.summary import document_counts, told_counts
from krill.pipeline.survivors import add_counts
from krill.pipeline.text_output import shards_written, text_shards, text_written
from krill.pipeline.token_work import check_tokens, layout_of
from krill.pipeline.tokens import TokenStages
from krill.storage import CommitLog
from krill.tokenizer import Encoder, open_encoder
from krill.tokenizer.open import fallback_notice


@dataclass(slots=True)
class Stages:
    """One run; `against` is what it is compared with, `earlier` what other runs kept, and `fleet` does the
    work, if others do it."""

    context: Context
    discard: Callable[[], None]
    against: Corpus | None = None
    earlier: EarlierRuns | None = None
    fleet: Fleet | None = None
    stages: list[dict[str, Any]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    kept: int = 0
    tokens: dict[str, int] = field(default_factory=dict)
    dataset: DatasetPart | None = None
    validation: DatasetPart | None = None
    text: TextPart | None = None
    rejected: TextPart | None = None
    tokenizer: dict[str, Any] | None = None
    duplicates: dict[str, Any] | None = None
    _work: StageWork | None = None

    def open_encoder(self) -> Encoder | None:
        """Before anything is read: hours later is too late to learn that a file is no tokenizer."""
        config = self.context.config
        if config.preprocess.output == "text":
            return None
        notice = fallback_notice(config.tokenizer)
        if notice is not None:
            self.context.progress.note(notice)
        encoder = open_encoder(config.tokenizer, self.context.plan, self.context.threads)
        check_tokens(config, encoder)
        self.tokenizer = encoder.describe()
        bos = missing_bos(encoder) if config.preprocess.bos else None
        if bos is not None:
            self.tokenizer["bos_id"] = bos  # for whoever turns rows into text again
        return encoder

    def predict(self, encoder: Encoder | None) -> Prediction:
        """What to expect of the run, from a look at some of the input."""
        context = self.context
        minhash = minhash_of(context.config.preprocess.dedup)
        sample = look(context.corpus, context.steps, minhash, encoder)
        width = 0 if encoder is None else layout_of(context.config, encoder.vocab_size).dtype.itemsize
        return predict(context.config, context.corpus, sample, context.threads, width)

    def run(self, encoder: Encoder | None) -> None:
        """Everything that the config asks for."""
        settings = self.context.config.preprocess
        work = StageWork(self.context, against=self.against, encoder=encoder)
        self._work = work
        if work.scans:
            self._scan()
            if settings.dedup.method != "none":
                self._deduplicate()
        if settings.output != "tokens":
            self._write_text()
        if encoder is not None:
            self._tokens(counted=work.scans or self.text is not None)
        if settings.rejected:
            self._write_rejected()

    def prepare_index(self) -> Pending | PendingRun | None:
        """What this run kept, written to the persistent index and not counting yet; None without one."""
        if self.earlier is None:
            return None
        scanned, resolved = self.work.log("scan"), self.work.resolved
        keep_files = [resolved.path(unit, KEEP) for unit in scanned.units()]
        with self._stage("index", None) as stage:
            stage["documents"] = self.kept
            return self.earlier.prepare(scanned, keep_files, self.context.corpus)

    @property
    def work(self) -> StageWork:
        assert self._work is not None
        return self._work

    def _do(self, stage: str, parts: Parts) -> None:
        """Have parts of a stage done: here, or wherever the fleet does them."""
        if not parts:
            return
        if self.fleet is None:
            self.work.do(stage, parts)
        else:
            self.fleet.do(stage, parts, self.work)

    def _scan(self) -> None:
        corpus = self.context.corpus
        with self._stage("scan", self._input_bytes(corpus)) as stage:
            self._do("scan", Starts(corpus))
            for _, record in self.work.log("scan"):
                add_counts(self.counts, record["counts"])
                self.kept += record["documents"]
                stage["bytes"] += record["bytes_read"]
                stage["documents"] += record["documents"]

    def _deduplicate(self) -> None:
        """Find out who survives, and take out lines or paragraphs if they are what is compared."""
        dedup = self.context.config.preprocess.dedup
        self.work.prior = self._seen_before()
        with self._stage("resolve", None) as stage:
            if self.fleet is None or 0 in self.work.log("resolve"):
                self.work.do("resolve", [self.work.prior_names])
            else:
                self.fleet.resolve(self.work)
            self.duplicates = self.work.log("resolve").record(0)
            stage["documents"] = self.kept
            noted = noted_files(dedup, self.work.log("scan"))
            stage["bytes"] = sum(self.context.folder.files.sizes(noted))
            self.context.progress.advance(stage["bytes"])
        if self.work.trims:
            self._trim()
            return
        self.counts["duplicate"] = self.duplicates["duplicates"]
        self.kept -= self.duplicates["duplicates"]

    def _seen_before(self) -> list[Path]:
        """Files of what is not to be kept again."""
        files: list[Path] = []
        if self.earlier is not None:
            files += self.earlier.pinned(self.context.folder.stages)
        if self.against is not None:
            with self._stage("against", self._input_bytes(self.against)) as stage:
                self._do("against", Starts(self.against))
                for _, record in self.work.log("against"):
                    stage["bytes"] += record["bytes_read"]
                    stage["documents"] += record["documents"]
        return files + against_files(
            self.context.config, self.work.log("against"), self.context.folder.stages
        )

    def _trim(self) -> None:
        scanned = self.work.log("scan")
        with self._stage("trim", self._text_bytes(scanned)) as stage:
            self._do("trim", [position for position, _ in scanned])
            self.kept = 0
            for _, record in self.work.log("trim"):
                add_counts(self.counts, record["counts"])
                self.kept += record["documents"]
                stage["bytes"] += record["bytes_read"]
            stage["documents"] = self.kept

    def _write_text(self) -> None:
        units, counted = self.work.kept_units()
        with self._stage("text", self._text_bytes(counted)) as stage:
            shards = text_shards(self.context, units, counted)
            self._do("text", [shard.to_json() for shard in shards])
            written, counts = text_written(self.work.log("text"))
            self.text = TextPart(tuple(written))
            stage["documents"] = self.text.rows
            stage["bytes"] = sum(shard.bytes for shard in written)
        if counted is None:
            add_counts(self.counts, counts)
            self.kept = self.text.rows
        if not self.text.rows:
            raise self._nothing_left("no document is left")

    def _tokens(self, *, counted: bool) -> None:
        assert self.work.tokens is not None
        units, _ = self.work.kept_units()
        stages = TokenStages(self.context, self.work.tokens, self._do, self._stage)
        input_bytes = self._input_bytes(self.context.corpus)
        found = stages.run(units.positions(), input_bytes=input_bytes, counted=counted)
        add_counts(self.counts, found.counts)
        self.kept = found.documents
        self.tokens = found.tokens
        if found.shortage is not None:
            raise self._nothing_left(*found.shortage)
        self.dataset, *others = found.parts
        self.validation = others[0] if others else None

    def _write_rejected(self) -> None:
        with self._stage("rejected", None) as stage:
            shards = text_shards(self.context, self.work.scanned_units(), self.work.log("scan"))
            self._do("rejected", [shard.to_json() for shard in shards])
            written = shards_written(self.work.log("rejected"))
            self.rejected = TextPart(tuple(written))
            stage["documents"] = self.rejected.rows
            stage["bytes"] = sum(shard.bytes for shard in written)

    def _nothing_left(self, fact: str, hint: str | None = None) -> InputError:
        counts = document_counts(self.counts, self.kept)
        self.discard()  # nothing to go on with: a changed config must not be refused for it
        return InputError(
            f"{fact}: {counts['read']:,} documents read; {told_counts(counts) or 'none dropped'}",
            hint=hint or "lower min_chars, min_length or sequence_len under `preprocess:`, or add input",
        )

    def _input_bytes(self, corpus: Corpus) -> int | None:
        """What there is to read, where that is known before it is decoded."""
        return None if corpus.sequential else corpus.input_bytes

    def _text_bytes(self, scanned: CommitLog | None) -> int | None:
        if scanned is None:
            return self._input_bytes(self.context.corpus)
        return sum(int(record["text_bytes"]) for _, record in scanned)

    @contextmanager
    def _stage(self, name: str, total: int | None) -> Iterator[dict[str, Any]]:
        """Time a stage, charge its memory to it, show it."""
        stage: dict[str, Any] = {"name": name, "seconds": 0.0, "bytes": 0, "documents": 0, "tokens": 0}
        _native.trim()  # what the stage before has freed is not held through this one
        begun = time.monotonic()
        self.context.progress.begin(name, total)
        with self.context.meter.stage(name):
            yield stage
        self.context.folder.files.rest()
        self.context.progress.end(name)
        stage["seconds"] = round(time.monotonic() - begun, 3)
        stage["peak"] = self.context.meter.stages.get(name, 0)
        self.stages.append(stage)


def facts(stages: Stages) -> Mapping[str, Any]:
    """What the stages found, by the names that the manifest gives it."""
    return {
        "stages": stages.stages,
        "documents": document_counts(stages.counts, stages.kept),
        "tokens": stages.tokens,
        "dataset": stages.dataset,
        "validation": stages.validation,
        "text": stages.text,
        "rejected": stages.rejected,
        "tokenizer": stages.tokenizer,
    }
