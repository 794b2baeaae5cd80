"""A worker's side of a run: from a task to committed files.

In: a task that names the run's folder, a stage and some of its parts. Out: what the stage makes of them, and
a few figures. Held in memory: what the stage holds and, from one task to the next, the tokenizer and the
steps. A worker keeps no lock and publishes nothing: whoever started the run does.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from krill.budget import Meter, Plan
from krill.budget.meter import peak_bytes
from krill.budget.process import bounded_process
from krill.config import KrillConfig, load_config
from krill.corpus import Corpus, Unit
from krill.corpus.fingerprint import fingerprint
from krill.engines import Resources
from krill.errors import InputError, StorageError
from krill.pipeline.context import Context, Places
from krill.pipeline.disk import DiskCap
from krill.pipeline.fleet import ORDERS, READY, TOKENIZER
from krill.pipeline.input import open_against, open_input
from krill.pipeline.needs import preprocess_needs, sizes_of
from krill.pipeline.stage_work import StageWork
from krill.storage.files import LOCAL, Files
from krill.storage.input_file import MOST_MANIFEST, read_json
from krill.storage.object_store import is_object_url
from krill.storage.remote_run import RUN, RemoteSide
from krill.storage.scratch import Scratch
from krill.text import Step
from krill.text.build import steps_of
from krill.tokenizer import Encoder, open_encoder

_TOKEN_STAGES = ("encode", "windows", "pack", "shuffle", "rejected")


def run_task(payload: Mapping[str, Any], resources: Resources) -> dict[str, Any]:
    """Do a task."""
    worker = _worker(payload["work"], payload["identity"], resources)
    return worker.run(payload["stage"], payload["parts"], payload.get("units"))


def release() -> None:
    """Let go of what is kept from one task to the next."""
    global _kept
    if _kept is not None:
        _kept.close()
        _kept = None


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the run's files are."""

    stages: Path
    dataset: Path
    files: Files = LOCAL


@dataclass(slots=True)
class _Counted:
    """Progress that is only added up: it travels back with the task's end."""

    done: int = 0

    def begin(self, stage: str, total: int | None) -> None:
        """Nothing."""

    def advance(self, done: int) -> None:
        """Add."""
        self.done += done

    def end(self, stage: str) -> None:
        """Nothing."""

    def note(self, line: str) -> None:
        """Nothing."""


@dataclass(slots=True)
class Worker:
    """What a process keeps for the tasks of one run."""

    key: tuple[str, str, Resources]
    config: KrillConfig
    inputs: Sequence[Mapping[str, Any]]
    compared: Sequence[Mapping[str, Any]]
    places: Places
    corpus: Corpus
    against: Corpus | None
    steps: Sequence[Step]
    plan: Plan
    meter: Meter
    held: ExitStack
    encoder: Encoder | None = None
    checked: set[tuple[str, int]] = field(default_factory=set)

    @classmethod
    def open(cls, work: str, identity: str, resources: Resources) -> Worker:
        """Read what the run is, and make ready for it."""
        with ExitStack() as stack:
            run, told, places = _sight(work, identity, stack)
            config = load_config(told["settings"], environ={})
            settings = config.preprocess
            parquet = settings.output != "tokens" or settings.rejected
            stack.enter_context(bounded_process(resources.threads, parquet=parquet))
            meter = stack.enter_context(Meter(resources.memory, resources.floor))
            steps = steps_of(settings)
            corpus, against = open_input(config), open_against(config)
            needs = preprocess_needs(config, resources.threads, sizes_of(corpus))
            plan = meter.plan(needs)
            key = (work, identity, resources)
            inputs, compared = run["inputs"], run["against"]
            held = stack.pop_all()
        return cls(key, config, inputs, compared, places, corpus, against, steps, plan, meter, held)

    def close(self) -> None:
        """Give everything back."""
        self.held.close()

    def run(self, stage: str, parts: Sequence[Any], units: Iterable[Any] | None) -> dict[str, Any]:
        """Do parts of a stage; what was read, what is kept on disk, and the peak of this process."""
        if stage == READY:
            self._encoder()
            return {"bytes": 0, "kept": 0, "peak": peak_bytes()}
        self._check_inputs(stage, parts)
        disk, progress = DiskCap(None), _Counted()
        encoder = self._encoder() if stage in _TOKEN_STAGES else None
        context = Context(
            self.config,
            self.corpus,
            self.steps,
            self.plan,
            self.meter,
            self.key[2].threads,
            self.places,
            progress,
            disk,
        )
        given = None if units is None else [Unit.from_json(unit) for unit in units]
        with context:
            StageWork(context, against=self.against, encoder=encoder, units=given).do(stage, parts)
        self.places.files.rest()
        return {"bytes": progress.done, "kept": disk.used, "peak": peak_bytes()}

    def _encoder(self) -> Encoder | None:
        if self.encoder is None and self.config.preprocess.output != "text":
            self.encoder = open_encoder(self.config.tokenizer, self.plan, self.key[2].threads)
        return self.encoder

    def _check_inputs(self, stage: str, parts: Sequence[Any]) -> None:
        """The files that a task reads are those that the run was begun with."""
        if stage not in ("scan", "against"):
            return
        corpus, expected = (self.corpus, self.inputs) if stage == "scan" else (self.against, self.compared)
        assert corpus is not None
        for ordinal in sorted({ordinal for part in parts for ordinal in part["files"]}):
            if (stage, ordinal) in self.checked:
                continue
            found = fingerprint(corpus.files[ordinal]) if ordinal < len(corpus.files) else None
            if ordinal >= len(expected) or found != expected[ordinal]:
                path = expected[ordinal]["path"] if ordinal < len(expected) else f"file {ordinal + 1}"
                raise InputError(
                    f"the worker on `{platform.node()}` sees another `{path}` than the run was begun with",
                    hint="let all machines see the same files, at rest, under the same paths",
                )
            self.checked.add((stage, ordinal))


_kept: Worker | None = None


def _worker(work: str, identity: str, resources: Resources) -> Worker:
    """The worker of this run, in this process; that of another run is let go."""
    global _kept
    if _kept is None or _kept.key != (work, identity, resources):
        release()
        _kept = Worker.open(work, identity, resources)
    return _kept


def _sight(work: str, identity: str, held: ExitStack) -> tuple[dict[str, Any], dict[str, Any], Places]:
    """What the run is, what a worker is told of it, and where its files are."""
    if not is_object_url(work):
        run, told = _read(Path(work) / RUN), _read(Path(work) / ORDERS)
        _check_identity(run, work, identity)
        return run, told, _Places(Path(told["stages"]), Path(told["dataset"]))
    side = RemoteSide(work)
    run, told = side.read(RUN) or {}, side.read(ORDERS) or {}
    _check_identity(run if told else {}, work, identity)
    settings = told["settings"]
    scratch = Scratch(None if settings["spill_dir"] is None else Path(settings["spill_dir"]))
    held.callback(scratch.close)
    places = side.places(identity, scratch)
    tokenizer = [places.stages.parent / TOKENIZER / name for name in told["tokenizer"]]
    places.files.bring(tokenizer)
    if tokenizer:
        settings["tokenizer"] |= {"path": str(tokenizer[0]), "hub_id": None}
    return run, told, places


def _check_identity(run: Mapping[str, Any], work: str, identity: str) -> None:
    if run.get("identity") != identity:
        raise StorageError(f"`{work}` belongs to another run than this task", hint="start the command again")


def _read(path: Path) -> dict[str, Any]:
    try:
        found = read_json(path, MOST_MANIFEST)
    except (OSError, ValueError) as error:
        raise StorageError(
            f"the worker on `{platform.node()}` can't read `{path}`: {error}",
            hint="put the output and `spill_dir` into folders that all machines see under the same paths",
        ) from None
    assert isinstance(found, dict)
    return found
