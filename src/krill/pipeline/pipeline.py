"""The pipeline: which stages a config asks for, in order, and the loop that runs them.

In: a `Context`, the tokenizer and an engine. Out: the shards in the run's folder, and what the manifest says
of them. Held in memory: what the stage that runs holds, and the encoder.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

from krill import _native
from krill.budget import Need
from krill.config import KrillConfig
from krill.corpus import Corpus
from krill.dedup import Pending
from krill.engines import Engine, Stage, StageReport
from krill.errors import InputError
from krill.pipeline.block_encoder import layout_of
from krill.pipeline.chat_tokens import ChatTokens
from krill.pipeline.context import Context
from krill.pipeline.dedup_needs import minhash_of
from krill.pipeline.needs import InputSizes, Sizing, reading_needs, scans, sizes_of, spills_text, unseen_bytes
from krill.pipeline.prediction import ExpectedInput, RunPrediction, sample_input
from krill.pipeline.seen_before import EarlierRuns
from krill.pipeline.stages.base import UnitSource
from krill.pipeline.stages.dedup import Dedup
from krill.pipeline.stages.dedup_phases import dedup_phases
from krill.pipeline.stages.encode import Encode
from krill.pipeline.stages.examples import KeepExamples
from krill.pipeline.stages.pack import Pack
from krill.pipeline.stages.rejected import Rejected
from krill.pipeline.stages.scan import Scan
from krill.pipeline.stages.shuffle import ShuffleRows
from krill.pipeline.stages.text import Text
from krill.pipeline.stages.trim import Trim
from krill.pipeline.stages.windows import CountWindows
from krill.pipeline.summary import describe_counts, document_counts, dropped_languages
from krill.pipeline.surviving_units import KEEP, SurvivingUnits, add_counts
from krill.storage import CommitLog
from krill.text import Step
from krill.text.build import reasons_of
from krill.text.user_step import Function
from krill.tokenizer import Encoder

STAGES: Final = (Scan, Dedup, Trim, Text, Encode, CountWindows, Pack, ShuffleRows, Rejected, KeepExamples)
"""All that there are, to be asked what they need and what they take."""

# What the manifest says of the shards that stages wrote.
_PARTS: Final = ("dataset", "validation", "text", "rejected")


def preprocess_needs(
    config: KrillConfig,
    threads: int,
    sizes: InputSizes | None = None,
    *,
    own_steps: Sequence[Function] = (),
    made: bool | None = None,
    processes: int = 0,
) -> list[Need]:
    """The needs of this config's stages; with `sizes`, what such input will make of them, and with so many
    `processes` that render conversations. Those of the same name are counted once."""
    made = sizes is not None if made is None else made
    sizing = Sizing(config, threads, sizes, own_steps, made, processes)
    needs = [*reading_needs(sizing), *(need for stage in STAGES for need in stage.needs(sizing))]
    return list({(need.name, need.during): need for need in needs}.values())


def predict(
    config: KrillConfig,
    corpus: Corpus,
    steps: Sequence[Step],
    encoder: Encoder | None,
    threads: int,
    workers: int = 1,
    processes: int = 0,
) -> RunPrediction:
    """What the stages will take, from a sample of the input; each of the workers has so many threads, and
    worker processes."""
    minhash, chats = minhash_of(config.preprocess.dedup), ChatTokens.of(config, steps)
    sample = sample_input(corpus, steps, minhash, encoder, chats)
    width = 0 if encoder is None else layout_of(config, encoder.vocab_size).token_bytes
    known = sizes_of(corpus)
    sample.unseen = unseen_bytes(config, corpus, known.text_bytes - sample.bytes)
    sizes, scanned = sample.sizes(known), scans(config, corpus)
    spilled = scanned and spills_text(config, corpus)
    # Without processes, one thread at a time renders, and extracts pages by a library that is Python.
    one = config.is_chat or (config.has_slow_pages and corpus.largest_page > 0)
    scanning = workers if one and not processes else threads * workers
    expected = ExpectedInput(
        config, sample, sizes, width, threads * workers, workers, scanned, spilled, scanning
    )
    costs = [cost for stage in STAGES if (cost := stage.predict(expected)) is not None]
    return RunPrediction(
        sizes,
        expected.total("documents"),
        expected.total("tokens"),
        sum(cost.spill_bytes for cost in costs),
        sum(cost.output_bytes for cost in costs),
        {cost.stage: cost.seconds for cost in costs if cost.seconds is not None},
    )


@dataclass(frozen=True, slots=True)
class Unscanned:
    """The documents of the corpus, where nothing has to be known of all before they are read for good."""

    context: Context

    def units(self) -> SurvivingUnits:
        context = self.context
        samples = context.config.preprocess.samples
        return SurvivingUnits(context.corpus, context.steps, None, collect=samples)

    def records(self) -> CommitLog | None:
        return None


def build_stages(
    context: Context,
    encoder: Encoder | None,
    *,
    against: Corpus | None = None,
    earlier: EarlierRuns | None = None,
    workers: int = 1,
    begun_with: Mapping[str, Any] | None = None,
) -> list[Stage]:
    """The stages of a run, in order; `workers` says how many processes share the work, and `begun_with` what
    the run is, where another process began it."""
    config, settings = context.config, context.config.preprocess
    known = begun_with or {"inputs": None, "against": None}
    source: UnitSource = Unscanned(context)
    stages: list[Stage] = []
    dropping: list[UnitSource] = []
    scan = encode = None
    if scans(config, context.corpus):
        source = scan = Scan(context, context.corpus, "scan", fingerprints=known["inputs"])
        stages.append(scan)
    if scan is not None and settings.dedup.method != "none":
        compared = None
        if against is not None:
            found = known["against"]
            compared = Scan(context, against, "against", only_hashes=True, fingerprints=found)
            stages.append(compared)
        source = dedup = Dedup(context, scan, compared, earlier)
        stages += [*(dedup_phases(dedup, workers) if workers > 1 else ()), dedup]
        if settings.dedup.level != "document":
            dropping.append(scan)
            source = trim = Trim(context, scan, dedup)
            stages.append(trim)
    if settings.output != "tokens":
        stages.append(Text(context, source))
    if encoder is not None:
        counted = scan is not None or settings.output != "tokens"
        encode = Encode(context, source, encoder, counted=counted)
        windows = CountWindows(context, encode)
        pack = Pack(context, windows)
        stages += [encode, windows, pack]
        if settings.shuffle:
            stages.append(ShuffleRows(context, pack))
    if settings.rejected and scan is not None:
        stages.append(Rejected(context, scan, [*dropping, source], encode))
    if settings.samples:
        stages.append(KeepExamples(context, _dropping(stages, settings.dedup.level)))
    return stages


def _dropping(stages: Sequence[Stage], level: str) -> list[Stage]:
    """The stages that drop documents: `Dedup` finds lines or paragraphs where these are compared."""
    kinds = (Scan, Trim, Text, Encode, Dedup) if level == "document" else (Scan, Trim, Text, Encode)
    return [stage for stage in stages if isinstance(stage, kinds)]


@dataclass(slots=True)
class Pipeline:
    """The stages of one run, and what they found; `discard` removes a run that nothing can come of."""

    context: Context
    stages: Sequence[Stage]
    discard: Callable[[], None]
    timings: list[dict[str, Any]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    kept: int = 0
    tokens: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    by_source: dict[int, dict[str, int]] = field(default_factory=dict)
    distributions: dict[str, Any] = field(default_factory=dict)

    def run(self, engine: Engine) -> None:
        """Have the missing tasks of all stages done, one stage after the other."""
        for name, group in groupby(self.stages, key=lambda stage: stage.part_of):
            stages = list(group)
            with self._timed(name, stages[-1].input_bytes()) as timing:
                for stage in stages:
                    engine.run(stage)
                    self._add(stage.finish(), timing)

    def write_index(self, earlier: EarlierRuns | None) -> Pending | None:
        """What this run kept, written to the persistent index and not counting yet; None without one."""
        dedup = next((stage for stage in self.stages if isinstance(stage, Dedup)), None)
        if earlier is None or dedup is None:
            return None
        scanned, resolved = dedup.scan.log, dedup.log
        keep_files = [resolved.path(unit, KEEP) for unit in scanned.units()]
        with self._timed("index", None) as timing:
            timing["documents"] = self.kept
            return earlier.prepare(scanned, keep_files, self.context.corpus)

    def facts(self) -> dict[str, Any]:
        """What the stages found, by the names that the manifest gives it."""
        parts = {name: self.outputs.get(name) for name in _PARTS}
        documents = self._documents(self.counts, self.kept)
        return {"stages": self.timings, "documents": documents, "tokens": self.tokens, **parts}

    def _documents(self, counts: Mapping[str, int], kept: int) -> dict[str, Any]:
        return document_counts(counts, kept, reasons_of(self.context.steps))

    def other_outputs(self) -> dict[str, Any]:
        """What else they state for the manifest."""
        others = {name: found for name, found in self.outputs.items() if name not in _PARTS}
        return {"duplicates": None, **others, "distributions": self._distributions()}

    def _distributions(self) -> dict[str, Any]:
        sources = []
        for number, dataset in enumerate(self.context.config.datasets):
            kept = dict(self.distributions["sources"].get(number, {}))
            counted = self._documents(self.by_source.get(number, {}), kept.pop("documents", 0))
            sources.append({"source": dataset.path, **counted, "bytes": 0, "tokens": 0, **kept})
        found = dropped_languages(self.counts)
        more = {"dropped_languages": found} if found else {}
        return {**self.distributions, "sources": sources, **more}

    def _add(self, report: StageReport, timing: dict[str, Any]) -> None:
        for name in ("bytes", "documents", "tokens"):
            timing[name] += getattr(report, name)
        add_counts(self.counts, report.counts)
        if report.kept is not None:
            self.kept = report.kept
        self.tokens |= report.token_counts
        self.outputs |= report.outputs
        self.distributions |= report.distributions
        for source, counts in report.by_source.items():
            add_counts(self.by_source.setdefault(source, {}), counts)
        if report.shortage is not None:
            raise self._nothing_left(*report.shortage)

    def _nothing_left(self, fact: str, hint: str | None) -> InputError:
        counts = self._documents(self.counts, self.kept)
        self.discard()  # nothing to continue with: a changed config must not be refused for it
        return InputError(
            f"{fact}: {counts['read']:,} documents read; {describe_counts(counts) or 'none dropped'}",
            hint=hint or self._more_left(),
        )

    def _more_left(self) -> str:
        if not self.context.config.is_chat:
            return "lower min_chars, min_length or sequence_len under `preprocess:`, or add input"
        if self.counts.get("longer_than_row"):
            return (
                "raise `preprocess.sequence_len`, or have conversations cut to it with `preprocess.overflow`,"
                " `truncate` or `turn`"
            )
        return "see to what the conversations were left out for, or add input"

    @contextmanager
    def _timed(self, name: str, total: int | None) -> Iterator[dict[str, Any]]:
        """Time a stage, charge its memory to it, show it."""
        timing: dict[str, Any] = {"name": name, "seconds": 0.0, "bytes": 0, "documents": 0, "tokens": 0}
        context = self.context
        _native.trim(code=True)  # what the stage before has freed or run is not held through this one
        begun = time.monotonic()
        context.progress.begin(name, total)
        with context.meter.stage(name):
            yield timing
        context.release_steps()
        context.folder.files.evict()
        context.progress.end(name)
        timing["seconds"] = round(time.monotonic() - begun, 3)
        timing["peak"] = context.meter.stages.get(name, 0)
        self.timings.append(timing)
