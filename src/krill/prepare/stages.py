"""The stages of one run, in order, and what they found.

In: a `Context`. Out: the shards in the run's folder, and what the manifest says of them. Held in memory:
what the stage that runs holds, and the encoder.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from krill import _native
from krill.corpus import Corpus
from krill.errors import InputError
from krill.flow import CommitLog
from krill.prepare.bos import missing_bos
from krill.prepare.context import Context
from krill.prepare.dedup_needs import minhash_of
from krill.prepare.kept import KeptUnits, keep_name
from krill.prepare.needs import scans, spills_text
from krill.prepare.prediction import Prediction, predict
from krill.prepare.resolve import noted_files, resolve
from krill.prepare.sampling import look
from krill.prepare.scan import Wanted, scan
from krill.prepare.seen_before import EarlierRuns, against_files
from krill.prepare.summary import document_counts, told_counts
from krill.prepare.survivors import add_counts
from krill.prepare.text_output import write_rejected, write_text
from krill.prepare.tokens import TokenStages, check_tokens, layout_of
from krill.prepare.trim import trim
from krill.shards import DatasetPart, TextPart
from krill.tokenizer import Encoder, open_encoder
from krill.tokenizer.open import fallback_notice


@dataclass(slots=True)
class Stages:
    """One run; `against` is what it is compared with, `earlier` what other runs kept."""

    context: Context
    against: Corpus | None = None
    earlier: EarlierRuns | None = None
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
    resolved: Path | None = None

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
        scanned = self._log("scan") if scans(self.context.config, self.context.corpus) else None
        if scanned is not None:
            self._scan(scanned)
        first = KeptUnits(self.context.corpus, self.context.steps, scanned)
        units, counted = first, scanned
        if scanned is not None and settings.dedup.method != "none":
            units, counted = self._deduplicate(scanned, first)
        if settings.output != "tokens":
            self._write_text(units, counted)
        if encoder is not None:
            self._tokens(units, encoder, counted=counted is not None or self.text is not None)
        if settings.rejected:
            assert scanned is not None
            dropped_by = [first, units] if counted is not scanned else [units]
            self._write_rejected(scanned, dropped_by, None if encoder is None else self._log("encode"))

    def noted(self) -> tuple[CommitLog, list[Path]]:
        """The scan, and the keep bits of each of its units: what an index takes of a finished run."""
        assert self.resolved is not None
        scanned = self._log("scan")
        return scanned, [self.resolved / keep_name(unit) for unit, _ in scanned]

    def _scan(self, log: CommitLog) -> None:
        config = self.context.config
        wanted = self._wanted(
            spill=spills_text(config, self.context.corpus), rejected=config.preprocess.rejected
        )
        with self._stage("scan", self._input_bytes(self.context.corpus)) as stage:
            scan(self.context, self.context.corpus, log, wanted)
            for _, record in log:
                add_counts(self.counts, record["counts"])
                self.kept += record["documents"]
                stage["bytes"] += record["bytes_read"]
                stage["documents"] += record["documents"]

    def _wanted(self, *, spill: bool, rejected: bool) -> Wanted:
        dedup = self.context.config.preprocess.dedup
        hashes = dedup.level if dedup.method in ("exact", "bloom") else None
        return Wanted(hashes, minhash_of(dedup), spill, rejected)

    def _deduplicate(self, scanned: CommitLog, units: KeptUnits) -> tuple[KeptUnits, CommitLog]:
        """The units that are left, and the log that counted them."""
        dedup = self.context.config.preprocess.dedup
        prior = self._seen_before()
        log = self._log("resolve")
        with self._stage("resolve", None) as stage:
            self.duplicates = resolve(self.context, scanned, log, prior, units)
            stage["documents"] = self.kept
            stage["bytes"] = sum(path.stat().st_size for path in noted_files(dedup, scanned))
            self.context.progress.advance(stage["bytes"])
        self.resolved = log.folder
        if dedup.level != "document":
            return self._trim(scanned, units, log.folder)
        self.counts["duplicate"] = self.duplicates["duplicates"]
        self.kept -= self.duplicates["duplicates"]
        clusters = dedup.method == "minhash" and dedup.clusters
        corpus, steps = self.context.corpus, self.context.steps
        return KeptUnits(corpus, steps, scanned, log.folder, clusters=clusters), scanned

    def _seen_before(self) -> list[Path]:
        """Files of what is not to be kept again."""
        files: list[Path] = []
        if self.earlier is not None:
            files += self.earlier.pinned(self.context.folder.stages)
        log = self._log("against")
        if self.against is not None:
            with self._stage("against", self._input_bytes(self.against)) as stage:
                scan(self.context, self.against, log, self._wanted(spill=False, rejected=False))
                for _, record in log:
                    stage["bytes"] += record["bytes_read"]
                    stage["documents"] += record["documents"]
        return files + against_files(self.context.config, log)

    def _trim(self, scanned: CommitLog, units: KeptUnits, resolved: Path) -> tuple[KeptUnits, CommitLog]:
        level = self.context.config.preprocess.dedup.level
        assert level != "document"
        log = self._log("trim")
        with self._stage("trim", self._text_bytes(scanned)) as stage:
            trim(self.context, scanned, units, resolved, log, level)
            self.kept = 0
            for _, record in log:
                add_counts(self.counts, record["counts"])
                self.kept += record["documents"]
                stage["bytes"] += record["bytes_read"]
            stage["documents"] = self.kept
        return KeptUnits(self.context.corpus, self.context.steps, log), log

    def _write_text(self, units: KeptUnits, counted: CommitLog | None) -> None:
        log = self._log("text")
        with self._stage("text", self._text_bytes(counted)) as stage:
            shards, counts = write_text(self.context, log, units, counted)
            self.text = TextPart(tuple(shards))
            stage["documents"] = self.text.rows
            stage["bytes"] = sum(shard.bytes for shard in shards)
        if counted is None:
            add_counts(self.counts, counts)
            self.kept = self.text.rows
        if not self.text.rows:
            raise self._nothing_left("no document is left")

    def _tokens(self, units: KeptUnits, encoder: Encoder, *, counted: bool) -> None:
        stages = TokenStages(self.context, encoder, self._stage)
        found = stages.run(units, input_bytes=self._input_bytes(self.context.corpus), counted=counted)
        add_counts(self.counts, found.counts)
        self.kept = found.documents
        self.tokens = found.tokens
        if found.shortage is not None:
            raise self._nothing_left(*found.shortage)
        self.dataset, *others = found.parts
        self.validation = others[0] if others else None

    def _write_rejected(self, scanned: CommitLog, units: list[KeptUnits], encoded: CommitLog | None) -> None:
        with self._stage("rejected", None) as stage:
            shards = write_rejected(self.context, self._log("rejected"), units, scanned, encoded)
            self.rejected = TextPart(tuple(shards))
            stage["documents"] = self.rejected.rows
            stage["bytes"] = sum(shard.bytes for shard in shards)

    def _nothing_left(self, fact: str, hint: str | None = None) -> InputError:
        counts = document_counts(self.counts, self.kept)
        self.context.folder.discard()  # nothing to go on with: a changed config must not be refused for it
        return InputError(
            f"{fact}: {counts['read']:,} documents read; {told_counts(counts) or 'none dropped'}",
            hint=hint or "lower min_chars, min_length or sequence_len under `preprocess:`, or add input",
        )

    def _log(self, stage: str) -> CommitLog:
        return CommitLog(self.context.folder.stages / stage)

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
