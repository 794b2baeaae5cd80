"""The job from end to end: plan, stages, manifest, publication."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson

import krill
from krill import _native
from krill.budget import Meter, Plan, make_plan, resident_bytes, resolve_limit, resolve_threads
from krill.budget.process import bounded_process
from krill.config import KrillConfig, differing_keys, identity_dict, load_config, to_dict
from krill.corpus import Corpus, DatasetSource, changed, open_corpus
from krill.errors import ConfigError, InputError
from krill.flow import CommitLog
from krill.flow.progress import Progress, Silent
from krill.flow.run_folder import RunFolder
from krill.prepare.assemble import pack, write_text
from krill.prepare.context import Context
from krill.prepare.disk import DiskCap, check_free_space, decoded_bytes, estimate_disk
from krill.prepare.encode import encode, token_runs
from krill.prepare.kept import KeptUnits, keep_name
from krill.prepare.needs import layout_of, preprocess_needs
from krill.prepare.scan import HASHES, scan
from krill.prepare.summary import NOTES, REASONS, Summary, document_counts
from krill.prepare.survivors import add_counts
from krill.shards import DatasetPart, Manifest, ShardInfo, TextPart, write_dataset_files
from krill.text import Clean, Step
from krill.tokenizer import Encoder, open_encoder
from krill.tokenizer.open import fallback_notice, tokenizer_fingerprint


def preprocess(
    config: str | Path | Mapping[str, Any] | KrillConfig,
    *,
    memory: str | int | None = None,
    threads: int | str | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Summary:
    """Prepare the dataset that `config` describes.

    `memory` is how much this process may grow while it works. Calling it again on a run that was killed
    continues it; on a finished one it returns the same summary and does nothing.
    """
    loaded = load_config(config, memory=memory, threads=threads)
    return run_preprocess(loaded, overwrite=overwrite, progress=progress or Silent(), floor=resident_bytes())


def run_preprocess(config: KrillConfig, *, overwrite: bool, progress: Progress, floor: int = 0) -> Summary:
    """The same for the command line, where `floor` is 0: the budget is the whole process."""
    config.require_for_preprocess()
    started = time.monotonic()
    limit = resolve_limit(config.memory)
    threads = resolve_threads(config.threads)
    with bounded_process(threads, parquet=config.preprocess.output != "tokens"), Meter(limit, floor) as meter:
        make_plan(limit, meter.used, preprocess_needs(config, threads))  # refuses before any input is read
        corpus = open_input(config)
        plan = make_plan(
            limit, meter.used, preprocess_needs(config, threads, decoded_bytes(corpus), corpus.held_bytes)
        )
        run = describe_run(config, corpus)
        output = Path(config.preprocess.prepared_path)
        spill_dir = None if config.spill_dir is None else Path(config.spill_dir)
        with RunFolder(
            output, spill_dir, setting="preprocess.prepared_path", differences=differences
        ) as folder:
            state = folder.begin(run, overwrite=overwrite)
            if state == "finished":
                return Summary(output, state, Manifest.load(output))
            if state == "continue":
                progress.note("continuing an earlier run of this config")
            disk = _disk_cap(config, corpus, folder)
            steps = steps_of(config)
            with Context(config, corpus, steps, plan, meter, threads, folder, progress, disk) as context:
                job = _Job(context)
                job.run_stages()
            manifest = job.manifest(run, plan, time.monotonic() - started, continued=state == "continue")
            manifest.save(folder.dataset)
            folder.publish()
    return Summary(output, "done", manifest)


def open_input(config: KrillConfig) -> Corpus:
    """The corpus of this config."""
    settings = config.preprocess
    return open_corpus(
        [
            DatasetSource(
                path=dataset.path,
                split=dataset.split,
                text_column=dataset.text_column,
                separator=dataset.separator,
                columns=dataset.columns,
            )
            for dataset in config.datasets
        ],
        unit_bytes=settings.unit_bytes,
        max_document_bytes=settings.max_document_bytes,
        drop_oversize=settings.oversize == "drop",
        skip_malformed=settings.on_error == "skip",
        default_separator=(config.tokenizer.special_tokens or [""])[0],
        batch_rows=settings.batch_rows,
        exclude=[Path(settings.prepared_path)],
    )


def steps_of(config: KrillConfig) -> list[Step]:
    """What every document passes through, in order."""
    return [Clean(strip=config.preprocess.strip, min_chars=config.preprocess.min_chars)]


def describe_run(config: KrillConfig, corpus: Corpus) -> dict[str, Any]:
    """What this run is: everything that shapes its output, and the hash of that, its identity."""
    run: dict[str, Any] = {
        "krill": krill.__version__,
        "config": identity_dict(config),
        "inputs": corpus.fingerprints(),
        "tokenizer": tokenizer_fingerprint(config.tokenizer) if config.preprocess.output != "text" else None,
    }
    canonical = orjson.dumps(run, option=orjson.OPT_SORT_KEYS)
    return {**run, "identity": hashlib.sha256(canonical).hexdigest()}


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What makes a run another one than the one that was begun or finished here."""
    found = differing_keys(before.get("config", {}), now["config"])
    found += [f"input `{path}`" for path in changed(before.get("inputs", []), now["inputs"])]
    if before.get("tokenizer_fingerprint", before.get("tokenizer")) != now["tokenizer"]:
        found.append("the tokenizer's content")
    return found


def _disk_cap(config: KrillConfig, corpus: Corpus, folder: RunFolder) -> DiskCap:
    spill, output = estimate_disk(config, corpus)
    cap = DiskCap(config.disk, folder.stages)
    cap.check_estimate(spill)
    check_free_space({folder.stages: spill, folder.dataset: output})
    return cap


def _check_token_dtype(dtype: str, vocab_size: int) -> None:
    """Refuse a type into which the largest ids would be folded silently."""
    if dtype != "auto" and vocab_size - 1 > np.iinfo(dtype).max:
        raise ConfigError(
            f"`preprocess.token_dtype` is `{dtype}`, which can't hold the tokenizer's {vocab_size:,} ids",
            hint="set it to `auto` or `uint32`",
        )


@dataclass(slots=True)
class _Job:
    """The stages of one run, and what they found."""

    context: Context
    stages: list[dict[str, Any]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    kept: int = 0
    tokens: dict[str, int] = field(default_factory=dict)
    dataset: DatasetPart | None = None
    text: TextPart | None = None
    tokenizer: dict[str, Any] | None = None

    def run_stages(self) -> None:
        """Everything that this config asks for."""
        settings = self.context.config.preprocess
        # Opened before anything is read: hours later is too late to learn that a file is no tokenizer.
        encoder = self._open_encoder() if settings.output != "text" else None
        deduplicating = settings.dedup != "none"
        scanned = self._log("scan") if deduplicating or self.context.corpus.sequential else None
        if scanned is not None:
            self._scan(scanned, hashing=deduplicating)
        keep_files = self._resolve(scanned) if scanned is not None and deduplicating else None
        units = KeptUnits(self.context.corpus, self.context.steps, scanned, keep_files)
        counted = scanned is not None
        if settings.output != "tokens":
            self._write_text(units, scanned, counted)
            counted = True
        if encoder is not None:
            self._tokens(units, encoder, counted)

    def _open_encoder(self) -> Encoder:
        config = self.context.config.tokenizer
        notice = fallback_notice(config)
        if notice is not None:
            self.context.progress.note(notice)
        encoder = open_encoder(config, self.context.plan, self.context.threads)
        _check_token_dtype(self.context.config.preprocess.token_dtype, encoder.vocab_size)
        self.tokenizer = encoder.describe()
        return encoder

    def _scan(self, log: CommitLog, *, hashing: bool) -> None:
        with self._stage("scan", self._input_bytes()) as stage:
            scan(self.context, log, hashing=hashing)
            for _, record in log:
                add_counts(self.counts, record["counts"])
                self.kept += record["documents"]
                stage["bytes"] += record["bytes_read"]
                stage["documents"] += record["documents"]

    def _resolve(self, scanned: CommitLog) -> Path:
        from krill.dedup import resolve_exact

        log = self._log("resolve")
        with self._stage("resolve", None) as stage:
            if 0 not in log:
                units = [unit for unit, _ in scanned]
                duplicates = resolve_exact(
                    [scanned.path(unit, HASHES) for unit in units],
                    [log.folder / keep_name(unit) for unit in units],
                    share=self.context.plan.share("dedup table"),
                    spill=self.context.folder.stages / "resolve-spill",
                    threads=self.context.threads,
                )
                log.commit(0, {"duplicates": duplicates})
            duplicates = log.record(0)["duplicates"]
            stage["documents"] = self.kept
            stage["bytes"] = 16 * self.kept
            self.context.progress.advance(16 * self.kept)
        self.counts["duplicate"] = duplicates
        self.kept -= duplicates
        return log.folder

    def _write_text(self, units: KeptUnits, scanned: CommitLog | None, counted: bool) -> None:
        log = self._log("text")
        with self._stage("text", self._text_bytes(scanned)) as stage:
            shards, counts = write_text(self.context, log, units, scanned)
            self.text = TextPart(tuple(shards))
            stage["documents"] = self.text.rows
            stage["bytes"] = sum(shard.bytes for shard in shards)
        if not counted:
            add_counts(self.counts, counts)
            self.kept = self.text.rows
        if not self.text.rows:
            raise self._nothing_left("no document is left")

    def _tokens(self, units: KeptUnits, encoder: Encoder, counted: bool) -> None:
        layout = layout_of(self.context.config, encoder.vocab_size)
        log = self._log("encode")
        with self._stage("encode", self._input_bytes()) as stage:
            encode(self.context, log, units, encoder, layout.token_dtype)
            too_short = self._count_encoded(log, stage, counted)
        runs = token_runs(log)
        with self._stage("pack", runs.total * layout.dtype.itemsize) as stage:
            shards = pack(self.context, self._log("pack"), runs, layout)
            stage["bytes"] = sum(shard.bytes for shard in shards)
            stage["tokens"] = runs.total
        rows = runs.total // layout.sequence_len
        self.tokens = {
            "kept": rows * layout.sequence_len,
            "dropped_short": too_short,
            "dropped_tail": runs.total - rows * layout.sequence_len,
        }
        if not rows:
            raise self._nothing_left(
                f"{runs.total:,} tokens are left, fewer than one row of {layout.sequence_len:,}"
            )
        self._finish_dataset(layout, shards)

    def _finish_dataset(self, layout: Any, shards: list[ShardInfo]) -> None:
        self.dataset = DatasetPart(layout, tuple(shards))
        write_dataset_files(self.context.folder.dataset, layout, shards)

    def _count_encoded(self, log: CommitLog, stage: dict[str, Any], counted: bool) -> int:
        """Add up what encoding dropped; returns the tokens of documents that were too short."""
        dropped_tokens = documents = 0
        for _, record in log:
            counts = dict(record["counts"])
            if counted:
                # Cleaning was counted by an earlier stage that read the same documents.
                counts = {"too_few_tokens": counts.get("too_few_tokens", 0)}
            add_counts(self.counts, counts)
            documents += record["documents"]
            dropped_tokens += record["tokens_dropped"]
            stage["bytes"] += record["bytes_read"]
            stage["tokens"] += record["tokens"]
        self.kept = stage["documents"] = documents
        return dropped_tokens

    def _nothing_left(self, fact: str) -> InputError:
        counts = document_counts(self.counts, self.kept)
        why = [f"{count:,} {REASONS[name]}" for name, count in counts["dropped"].items()]
        why += [f"{count:,} {NOTES[name]}" for name, count in counts["notes"].items()]
        self.context.folder.discard()  # nothing to go on with: a changed config must not be refused for it
        return InputError(
            f"{fact}: {counts['read']:,} documents read; {', '.join(why) or 'none dropped'}",
            hint="lower min_chars, min_length or sequence_len under `preprocess:`, or add input",
        )

    def manifest(self, run: Mapping[str, Any], plan: Plan, seconds: float, *, continued: bool) -> Manifest:
        """Everything there is to say of the run."""
        meter = self.context.meter
        return Manifest(
            krill=run["krill"],
            command="preprocess",
            identity=run["identity"],
            config=run["config"],
            inputs=run["inputs"],
            budget={
                **plan.to_json(),
                "measured_peak": meter.peak,
                "tree_pss": meter.tree_pss,
                "threads": self.context.threads,
            },
            seconds=round(seconds, 3),
            stages=self.stages,
            documents=document_counts(self.counts, self.kept),
            tokens=self.tokens,
            dataset=self.dataset,
            text=self.text,
            tokenizer=self.tokenizer,
            extra={
                "continued": continued,
                "settings": to_dict(self.context.config),
                "tokenizer_fingerprint": run["tokenizer"],
            },
        )

    def _log(self, stage: str) -> CommitLog:
        return CommitLog(self.context.folder.stages / stage)

    def _input_bytes(self) -> int | None:
        """What there is to read, where that is known before it is decoded."""
        corpus = self.context.corpus
        return None if corpus.sequential else corpus.input_bytes

    def _text_bytes(self, scanned: CommitLog | None) -> int | None:
        if scanned is None:
            return self._input_bytes()
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
