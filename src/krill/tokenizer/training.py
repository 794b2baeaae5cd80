"""Training a tokenizer from end to end: plan, count, merge, save.

In: any sources that the corpus reads, and options. Out: a folder with `tokenizer.json` and its companions,
and a summary. Held in memory: first the counter, then the trainer, each within its share of the budget.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

import krill
from krill.budget import Meter, Need, Plan, resident_bytes
from krill.budget.process import bounded_process
from krill.config.messages import shown
from krill.corpus import Corpus, DatasetSource, changed
from krill.engines import driver_needs, load_engine
from krill.engines.worker_share import engine_named, worker_part
from krill.errors import ConfigError, InputError, KrillError
from krill.faults import system_errors
from krill.storage.atomic import listed, write_json
from krill.storage.decision import CONTINUE, FINISHED, PUBLISHED, PUT_INTO_PLACE
from krill.storage.outputs import MANIFEST, OutputKind
from krill.storage.run_folder import RunFolder
from krill.threads.progress import Progress, Silent
from krill.tokenizer import count as counting
from krill.tokenizer.count import open_sources
from krill.tokenizer.files import WRITTEN_FILES, check_rank_file, save
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

if TYPE_CHECKING:
    from krill.config.engine import EngineConfig

_KIND: Final = OutputKind("tokenizer train", lambda _: WRITTEN_FILES)


@dataclass(frozen=True, slots=True)
class TrainSummary:
    """The end of a training; `status` is "done", or "finished" if an earlier run had done everything."""

    status: str
    output: Path | None
    trained: TrainedBpe
    facts: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {"status": self.status, "output": str(self.output) if self.output else None, **self.facts}


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
) -> TrainSummary:
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
) -> TrainSummary:
    """The same for the command line, where `floor` is 0: the budget is the whole process. `setting` is what
    names the output there."""
    _check(options, tiktoken, chat)
    if output is not None:
        _check_name(output)
    engine = None if engine is None or engine.name == "local" else engine
    if engine is not None:
        _check_shared(engine, output)
    started = time.monotonic()
    limit, workers = worker_part(engine, memory, threads)
    load_engine(engine)

    def needs(corpus: Corpus | None) -> list[Need]:
        return [*training_needs(corpus, options, None if engine else workers), *driver_needs(engine)]

    with bounded_process(workers, parquet=False), ExitStack() as stack:
        meter = Meter(limit, floor)
        opened = partial(open_sources, sources, options, output, verify=verify)
        refuse_early(meter, needs, opened)
        stack.enter_context(meter)
        corpus = opened()
        plan = meter.plan(needs(corpus))
        run = _describe(corpus, options, tiktoken=tiktoken, chat=chat)
        folder = None if output is None else stack.enter_context(_folder(output, setting))
        if folder is not None:
            state = folder.begin(run, overwrite=overwrite)
            if state == PUBLISHED:
                progress.note(PUT_INTO_PLACE)
            if state in (FINISHED, PUBLISHED):
                return _finished(folder)
            if state == CONTINUE:
                progress.note("continuing an earlier run of this training")
            work = folder.stages / "count"
        else:
            work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="krill-")))
        job = _Training(
            corpus, options, plan, meter, workers, work, progress, run, checkpoint_seconds, engine, folder
        )
        trained = job.run()
        facts = job.facts(trained, time.monotonic() - started)
        if folder is None:
            return TrainSummary("done", None, trained, facts)
        with meter.stage("save"):
            save(trained, folder.dataset, tiktoken=tiktoken, chat=chat)
            facts["bytes_per_token"] = bytes_per_token(corpus, folder.dataset, job.plan.share(SAVING))
        write_json(folder.dataset / MANIFEST, {**run, **facts, "budget": job.budget()})
        folder.publish()
    return TrainSummary("done", output, trained, {**facts, "budget": job.budget()})


@dataclass(slots=True)
class _Training:
    """One run: its stages and what they found."""

    corpus: Corpus
    options: TrainOptions
    plan: Plan
    meter: Meter
    threads: int
    work: Path
    progress: Progress
    described: Mapping[str, Any]
    checkpoint_seconds: float
    engine: EngineConfig | None
    folder: RunFolder | None
    stages: list[dict[str, Any]] = field(default_factory=list)
    inventory: counting.WordCounts | None = None
    statistics: dict[str, Any] = field(default_factory=dict)
    worked: dict[str, Any] = field(default_factory=dict)
    """What the engine's workers did."""

    def run(self) -> TrainedBpe:
        """Count, then merge."""
        with self._stage("count", None if self.corpus.sequential else self.corpus.input_bytes) as stage:
            self.inventory = self._counted()
            to_learn = self._tokens_to_learn(self.inventory)
            stage["bytes"] = self.corpus.input_bytes
        with self._stage("merge", to_learn) as stage:
            trained, self.statistics = merge(
                self.inventory, self.options, self.plan.share(MERGING), self.progress
            )
            stage["merges"] = len(trained.merges)
        counted = counted_needs(
            self.corpus.input_bytes, self.inventory.words, self.statistics["symbols"], self.options
        )
        self.plan = self.plan.expecting(counted)
        return trained

    def facts(self, trained: TrainedBpe, seconds: float) -> dict[str, Any]:
        """What there is to say at the end."""
        assert self.inventory is not None
        longest = sorted(trained.tokens[trained.special :], key=len, reverse=True)[:8]
        return {
            "command": _KIND.command,
            "vocab_size": len(trained.tokens),
            "merges": len(trained.merges),
            "input_bytes": self.corpus.input_bytes,
            "unique_words": self.inventory.words,
            "words": self.inventory.occurrences,
            "seconds": round(seconds, 3),
            "stages": self.stages,
            "spilled_bytes": self.inventory.spilled_bytes,
            "merging": self.statistics,
            "budget": self.budget(),
            **({"engine": self.worked} if self.worked else {}),
            "bytes_per_token": None,
            "longest_tokens": [token.decode("utf-8", "replace") for token in longest],
        }

    def budget(self) -> dict[str, Any]:
        return {
            **self.plan.to_json(),
            "measured_peak": self.meter.peak,
            "tree_pss": self.meter.tree_pss,
            "threads": self.threads,
        }

    def _counted(self) -> counting.WordCounts:
        """By this process, or by an engine's workers."""
        if self.engine is None or self.folder is None:
            return counting.count(self._counting())
        from krill.tokenizer.distributed import count_on

        inventory, self.worked = count_on(
            self.engine,
            self.corpus,
            self.described["inputs"],
            self.options,
            self.folder,
            memory=self.meter.limit,
            threads=self.threads,
            inventory_folder=self.work,
            progress=self.progress,
        )
        # The engine's own libraries are there now.
        self.plan = self.meter.plan(learning_needs(self.corpus, self.options))
        return inventory

    def _counting(self) -> counting.CountJob:
        return counting.CountJob(
            self.corpus,
            self.options,
            self.work,
            cap_bytes=self.plan.share(WORDS),
            in_flight=self.plan.share(TEXT),
            threads=self.threads,
            progress=self.progress,
            throttle=self.meter,
            checkpoint_seconds=self.checkpoint_seconds,
        )

    def _tokens_to_learn(self, inventory: counting.WordCounts) -> int:
        """How many at most. If nothing can be learnt from what was counted, it is forgotten."""
        try:
            self._check_unchanged()
            if inventory.words == 0:
                raise InputError(
                    "the corpus has no text to learn from: it is empty, or nothing but special tokens",
                    hint="check the input paths, and --text-column",
                )
            return self.options.vocab_size - len(initial_ids(inventory.byte_counts, self.options)[0])
        except KrillError:
            counting.forget(self.work)
            raise

    def _check_unchanged(self) -> None:
        """Words of two versions of a file must not end in one vocabulary."""
        names = changed(self.described["inputs"], self.corpus.fingerprints())
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
        from krill import _native

        stage: dict[str, Any] = {"name": name, "seconds": 0.0, "bytes": 0}
        _native.trim()
        begun = time.monotonic()
        self.progress.begin(name, total)
        with self.meter.stage(name):
            yield stage
        self.progress.end(name)
        stage["seconds"] = round(time.monotonic() - begun, 3)
        stage["peak"] = self.meter.stages.get(name, 0)
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
    canonical = orjson.dumps(run, listed, orjson.OPT_SORT_KEYS)
    return {**run, "identity": hashlib.sha256(canonical).hexdigest()}


def _folder(output: Path, setting: str) -> RunFolder:
    return RunFolder(output, None, setting=setting, differences=_differences, kind=_KIND)


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    old = before.get("config", {})
    found = [
        f"`{key}` was `{old.get(key)}` and is `{value}`"
        for key, value in now["config"].items()
        if old.get(key) != value
    ]
    return found + [f"input `{path}`" for path in changed(before.get("inputs", []), now["inputs"])]


def _finished(folder: RunFolder) -> TrainSummary:
    from krill.tokenizer.files import load_trained

    manifest = folder.finished() or {}
    facts = {
        key: value for key, value in manifest.items() if key not in ("config", "inputs", "identity", "krill")
    }
    return TrainSummary("finished", folder.output, load_trained(folder.output), facts)
