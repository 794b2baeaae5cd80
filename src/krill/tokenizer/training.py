"""Training a tokenizer from end to end: plan, count, merge, save.

In: any sources that the corpus reads, and options. Out: a folder with `tokenizer.json` and its companions,
and a summary. Held in memory: first the counter, then the trainer, each within its share of the budget.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import krill
from krill import _native
from krill.budget import Meter, Need, Plan, resident_bytes
from krill.budget.process import metered_process
from krill.config.engine import EngineConfig
from krill.config.messages import shown
from krill.corpus import Corpus, DatasetSource
from krill.engines import driver_needs, engine_named, worker_part
from krill.errors import ConfigError, InputError, KrillError
from krill.faults import system_errors
from krill.storage.folder_storage import FolderStorage
from krill.storage.outputs import OutputKind
from krill.storage.run import DONE, FINISHED, PUBLISHED, Run, RunSummary, changed_inputs, identity_of
from krill.threads.progress import Metered, Progress, Silent
from krill.tokenizer import count as counting
from krill.tokenizer.count import open_sources
from krill.tokenizer.files import WRITTEN_FILES, check_rank_file, load_trained, save
from krill.tokenizer.merge import merge
from krill.tokenizer.needs import (
    MERGING,
    SAVING,
    TEXT,
    WORDS,
    counted_needs,
    learning_needs,
    refuse_early,
    training_needs,
)
from krill.tokenizer.options import Boundaries, TieBreak, TrainOptions
from krill.tokenizer.patterns import check_pattern
from krill.tokenizer.presets import check_chat
from krill.tokenizer.sample import bytes_per_token
from krill.tokenizer.vocabulary import TrainedBpe, initial_ids

_KIND: Final = OutputKind("tokenizer train", lambda _: WRITTEN_FILES)


@dataclass(frozen=True, slots=True)
class TokenizerSummary(RunSummary[Mapping[str, Any]]):
    """The end of a training, and the tokenizer."""

    trained: TrainedBpe


@system_errors()
def train(
    inputs: str | Path | Sequence[str | Path | DatasetSource],
    *,
    vocab_size: int = 32000,
    pattern: str = "gpt2",
    special_tokens: Sequence[str] = ("<|endoftext|>",),
    min_frequency: int = 0,
    max_token_length: int | None = None,
    initial_alphabet: str = "bytes",
    limit_alphabet: int | None = None,
    tie_break: TieBreak = "huggingface",
    boundaries: Boundaries = "documents",
    memory: str | int = "auto",
    threads: int | str = "auto",
    engine: str | Mapping[str, Any] = "local",
    output: str | Path | None = None,
    overwrite: bool = False,
    verify: bool = True,
    text_column: str = "text",
    tiktoken: bool = False,
    chat: bool = False,
    progress: Progress | None = None,
) -> TokenizerSummary:
    """Train a byte-level BPE tokenizer on `inputs`: paths, globs, folders, or sources of a config.

    `memory` is how much this process may grow while it works; it never changes the result. Calling it again
    on a run that was killed continues it; on a finished one it returns the same and does nothing. With
    `verify`, text that Krill wrote is held against its checksums, each file once.

    With an `engine`, named as in a config ("ray", or {"name": "ray", "address": "auto"}), its workers count
    the words, and `memory` and `threads` are what each of them has.
    """
    options = TrainOptions(
        vocab_size,
        pattern,
        tuple(special_tokens),
        min_frequency,
        max_token_length,
        initial_alphabet,
        limit_alphabet,
        tie_break,
        boundaries,
    )
    many = [inputs] if isinstance(inputs, str | Path) else inputs
    sources = [
        source if isinstance(source, DatasetSource) else DatasetSource(str(source), text_column=text_column)
        for source in many
    ]
    return run_training(
        sources,
        options,
        memory=memory,
        threads=threads,
        engine=engine_named(engine),
        output=None if output is None else Path(output),
        overwrite=overwrite,
        verify=verify,
        tiktoken=tiktoken,
        chat=chat,
        progress=progress or Silent(),
        floor=resident_bytes(),
    )


def run_training(
    sources: Sequence[DatasetSource],
    options: TrainOptions,
    *,
    memory: str | int,
    threads: int | str,
    output: Path | None,
    overwrite: bool,
    progress: Progress,
    tiktoken: bool = False,
    chat: bool = False,
    verify: bool = True,
    engine: EngineConfig | None = None,
    floor: int = 0,
    setting: str = "--output",
    checkpoint_seconds: float = counting.CHECKPOINT_SECONDS,
) -> TokenizerSummary:
    """The same for the command line, where `floor` is 0: the budget is the whole process. `setting` is what
    names the output there."""
    _check(options, tiktoken, chat)
    if output is not None:
        _check_name(output)
    engine = None if engine is None or engine.name == "local" else engine
    if engine is not None:
        _check_shared(engine, output)
    limit, workers = worker_part(engine, memory, threads)

    def needs(corpus: Corpus | None) -> list[Need]:
        return [*training_needs(corpus, options, None if engine else workers), *driver_needs(engine)]

    with metered_process(limit, workers, floor=floor) as meter, ExitStack() as stack:
        progress = Metered(progress, meter)
        opened = partial(open_sources, sources, options, output, verify=verify)
        refuse_early(meter, needs, opened)
        corpus = opened()
        plan = meter.plan(needs(corpus))
        described = _describe(corpus, options, tiktoken=tiktoken, chat=chat)
        run = None
        if output is None:
            work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="krill-")))
        else:
            storage = FolderStorage(output, setting=setting, kind=_KIND)
            run = stack.enter_context(Run(storage, progress))
            if run.begin(described, overwrite=overwrite) in (FINISHED, PUBLISHED):
                return _finished(storage)
            run.watch(meter)
            work = run.stages / "count"
        job = _Training(
            corpus, options, plan, meter, work, progress, described, checkpoint_seconds, engine, run
        )
        trained = job.run()
        facts = job.facts(trained)
        if run is not None:
            with meter.stage("save"):
                save(trained, run.dataset, tiktoken=tiktoken, chat=chat)
                facts["bytes_per_token"] = bytes_per_token(corpus, run.dataset, job.plan.share(SAVING))
            facts["budget"] = meter.report(job.plan)
            run.publish({**described, **facts, "timeline": meter.timeline.to_json()})
    return TokenizerSummary(DONE, output, {**described, **facts}, facts, trained)


@dataclass(slots=True)
class _Training:
    """One run: its stages and what they found."""

    corpus: Corpus
    options: TrainOptions
    plan: Plan
    meter: Meter
    work: Path
    progress: Progress
    described: Mapping[str, Any]
    checkpoint_seconds: float
    engine: EngineConfig | None
    folder: Run | None
    stages: list[dict[str, Any]] = field(default_factory=list)
    word_counts: counting.WordCounts | None = None
    statistics: dict[str, Any] = field(default_factory=dict)
    worked: dict[str, Any] = field(default_factory=dict)
    """What the engine's workers did."""

    def run(self) -> TrainedBpe:
        """Count, then merge."""
        with self._stage("count", None if self.corpus.sequential else self.corpus.input_bytes) as stage:
            self.word_counts = self._counted()
            to_learn = self._tokens_to_learn(self.word_counts)
            stage["bytes"] = self.corpus.input_bytes
        with self._stage("merge", to_learn) as stage:
            trained, self.statistics = merge(
                self.word_counts, self.options, self.plan.share(MERGING), self.progress
            )
            stage["merges"] = len(trained.merges)
        counted = counted_needs(
            self.corpus.input_bytes,
            self.word_counts.words,
            self.statistics["symbols"],
            self.options,
            self.meter.threads,
        )
        self.plan = self.plan.expecting(counted)
        return trained

    def facts(self, trained: TrainedBpe) -> dict[str, Any]:
        """What there is to say at the end."""
        assert self.word_counts is not None
        longest = sorted(trained.tokens[trained.special :], key=len, reverse=True)[:8]
        return {
            "command": _KIND.command,
            "vocab_size": len(trained.tokens),
            "merges": len(trained.merges),
            "input_bytes": self.corpus.input_bytes,
            "unique_words": self.word_counts.words,
            "words": self.word_counts.occurrences,
            "seconds": self.meter.seconds,
            "stages": self.stages,
            "spilled_bytes": self.word_counts.spilled_bytes,
            "merging": self.statistics,
            "budget": self.meter.report(self.plan),
            **({"engine": self.worked} if self.worked else {}),
            "bytes_per_token": None,
            "longest_tokens": [token.decode("utf-8", "replace") for token in longest],
        }

    def _counted(self) -> counting.WordCounts:
        """By this process, or by an engine's workers."""
        if self.engine is None or self.folder is None:
            return counting.count(
                counting.CountJob(
                    self.corpus,
                    self.options,
                    self.work,
                    cap_bytes=self.plan.share(WORDS),
                    in_flight=self.plan.share(TEXT),
                    threads=self.meter.threads,
                    progress=self.progress,
                    throttle=self.meter,
                    checkpoint_seconds=self.checkpoint_seconds,
                )
            )
        from krill.tokenizer.distributed import count_on

        word_counts, self.worked = count_on(
            self.engine,
            self.corpus,
            self.options,
            self.folder,
            meter=self.meter,
            counts_folder=self.work,
            progress=self.progress,
        )
        # The engine's own libraries are there now.
        self.plan = self.meter.plan(learning_needs(self.corpus, self.options))
        return word_counts

    def _tokens_to_learn(self, word_counts: counting.WordCounts) -> int:
        """How many at most. If nothing can be learnt from what was counted, it is forgotten."""
        try:
            self._check_unchanged()
            if word_counts.words == 0:
                raise InputError(
                    "the corpus has no text to learn from: it is empty, or nothing but special tokens",
                    hint="check the input paths, and --text-column",
                )
            return self.options.vocab_size - len(initial_ids(word_counts.byte_counts, self.options)[0])
        except KrillError:
            counting.forget(self.work)
            raise

    def _check_unchanged(self) -> None:
        """Words of two versions of a file must not end in one vocabulary."""
        names = changed_inputs(self.described["inputs"], self.corpus.fingerprints())
        grown = [
            file.path
            for file in self.corpus.files
            if not file.remote and Path(file.location).stat().st_size != file.bytes
        ]
        if names or grown:
            raise InputError(
                f"the input changed while it was read: `{(names + grown)[0]}`",
                hint="let it be finished first, then run the same command",
            )

    @contextmanager
    def _stage(self, name: str, total: int | None) -> Iterator[dict[str, Any]]:
        _native.trim()
        self.progress.begin(name, total)
        with self.meter.stage(name) as stage:
            stage["bytes"] = 0
            yield stage
        self.progress.end(name)
        self.stages.append(stage)


def _check(options: TrainOptions, tiktoken: bool, chat: bool) -> None:
    options.check()
    check_pattern(options.pattern)
    if tiktoken:
        check_rank_file(options)
    if chat:
        check_chat(options.special_tokens)


def _check_name(output: Path) -> None:
    """Refuse a name that neither a manifest nor a message can hold."""
    try:
        str(output).encode()
    except UnicodeEncodeError:
        raise ConfigError(
            f"the output `{shown(str(output))}` is not UTF-8", hint="give the folder another name"
        ) from None


def _check_shared(engine: EngineConfig, output: Path | None) -> None:
    if output is None:
        raise ConfigError(
            f"the engine `{engine.name}` needs an `output`: its workers leave what they count beside it",
            hint="give output a folder that all workers see",
        )


def _describe(corpus: Corpus, options: TrainOptions, **files: bool) -> dict[str, Any]:
    """What shapes the output, and the hash of that, its identity."""
    run: dict[str, Any] = {
        "krill": krill.__version__,
        "config": {**asdict(options), **files},
        "inputs": corpus.fingerprints(),
    }
    run["config"]["special_tokens"] = list(options.special_tokens)
    return {**run, "identity": identity_of(run)}


def _finished(storage: FolderStorage) -> TokenizerSummary:
    manifest = storage.finished() or {}
    facts = {
        key: value for key, value in manifest.items() if key not in ("config", "inputs", "identity", "krill")
    }
    return TokenizerSummary(FINISHED, storage.output, manifest, facts, load_trained(storage.output))
