"""A worker's side of a run: from a task to committed files.

In: a task that names the run's folder, a stage and some of its tasks. Out: what the stage makes of them, and
a few figures. Held in memory: what the stage holds and, from one task to the next, the tokenizer and the
steps. A worker keeps no lock and publishes nothing: whoever started the run does.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from krill.budget.meter import peak_bytes
from krill.budget.process import metered_process
from krill.config import load_config, to_dict
from krill.engines import Resources
from krill.engines.stage import Stage
from krill.errors import StorageError
from krill.pipeline.context import Context
from krill.pipeline.disk import DiskCap
from krill.pipeline.early_refusal import writes_parquet
from krill.pipeline.input import open_against, open_input
from krill.pipeline.needs import sizes_of
from krill.pipeline.pipeline import build_stages, preprocess_needs
from krill.storage.atomic import storage_errors
from krill.storage.files import LOCAL, RunPaths
from krill.storage.input_file import MOST_MANIFEST, read_json
from krill.storage.mirror import Scratch
from krill.storage.object_storage import RunReader
from krill.storage.object_store import is_object_url
from krill.storage.run import RUN
from krill.text.build import steps_of
from krill.tokenizer import open_encoder
from krill.tokenizer.open import tokenizer_files

SPEC: Final = "worker.json"
"""What a worker must know of the run, beside `run.json`."""
TOKENIZER: Final = "tokenizer"
"""The folder beside the stages in which workers find the tokenizer, where they share none with the driver."""


def worker_spec(context: Context) -> dict[str, Any]:
    """What a worker must know: paths, if it shares them, else what it finds in the object store."""
    settings, paths = to_dict(context.config), context.folder
    if paths.files is not LOCAL:
        return {"settings": settings, "tokenizer": _publish_tokenizer(context)}
    stages, dataset = paths.stages.absolute(), paths.dataset.absolute()
    return {"settings": settings, "stages": os.fspath(stages), "dataset": os.fspath(dataset)}


def _publish_tokenizer(context: Context) -> list[str]:
    """Put the tokenizer's files where workers find them; their names."""
    if context.config.preprocess.output == "text":
        return []
    folder = context.folder.stages.parent / TOKENIZER
    with storage_errors(folder):
        folder.mkdir(exist_ok=True)
        files = tokenizer_files(context.config.tokenizer)
        copies = [Path(shutil.copyfile(file, folder / file.name)) for file in files]
    context.folder.files.publish(copies)
    return [copy.name for copy in copies]


def run_task(payload: Mapping[str, Any], resources: Resources) -> dict[str, Any]:
    """Do some tasks of a stage; what was read, what is kept on disk, and the peak of this process."""
    worker = _worker(payload["work"], payload["identity"], resources)
    try:
        return worker.run(payload["stage"], payload["tasks"])
    except BaseException:
        release()  # its threads were told to end, and would end whatever comes next
        raise


def release() -> None:
    """Let go of what is kept from one task to the next."""
    global _kept
    if _kept is not None:
        _kept.held.close()
        _kept = None


@dataclass(slots=True)
class CountedProgress:
    """Progress that is only added up: it travels back with the task's end."""

    done: int = 0

    def begin(self, stage: str, total: int | None) -> None: ...

    def advance(self, done: int) -> None:
        self.done += done

    def end(self, stage: str) -> None: ...

    def note(self, line: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Worker:
    """What a process keeps for the tasks of one run."""

    key: tuple[str, str, Resources]
    context: Context
    progress: CountedProgress
    stages: Mapping[str, Stage]
    held: ExitStack

    @classmethod
    def open(cls, address: str, identity: str, resources: Resources) -> Worker:
        """Read what the run is, and load what its stages need."""
        with ExitStack() as stack:
            run, spec, paths = _load_run(address, identity, stack)
            config = load_config(spec["settings"], environ={})
            threads = resources.threads
            parquet = writes_parquet(config)
            bounded = metered_process(resources.memory, threads, floor=resources.floor, parquet=parquet)
            meter = stack.enter_context(bounded)
            steps = steps_of(config.preprocess)
            corpus, against = open_input(config), open_against(config)
            plan = meter.plan(preprocess_needs(config, threads, sizes_of(corpus)))
            encoder = None
            if config.preprocess.output != "text":
                encoder = open_encoder(config.tokenizer, plan, threads)
            progress = CountedProgress()
            disk = DiskCap(None)
            context = Context(config, corpus, steps, plan, meter, threads, paths, progress, disk, shared=True)
            stages = build_stages(context, encoder, against=against, workers=2, begun_with=run)
            named = {stage.name: stage for stage in stages}
            return cls((address, identity, resources), context, progress, named, stack.pop_all())

    def run(self, stage_name: str, tasks: Sequence[Any]) -> dict[str, Any]:
        kept = self.context.disk.used
        self.progress.done = 0
        if tasks:
            stage = self.stages[stage_name]
            with self.context:
                stage.run(stage.missing(tasks))
            self.context.folder.files.evict()
        return {"bytes": self.progress.done, "kept": self.context.disk.used - kept, "peak": peak_bytes()}


_kept: Worker | None = None


def _worker(address: str, identity: str, resources: Resources) -> Worker:
    """The worker of this run, in this process; that of another run is let go."""
    global _kept
    if _kept is None or _kept.key != (address, identity, resources):
        release()
        _kept = Worker.open(address, identity, resources)
    return _kept


def _load_run(work: str, identity: str, held: ExitStack) -> tuple[dict[str, Any], dict[str, Any], RunPaths]:
    """What the run is, what a worker must know of it, and where its files are."""
    if not is_object_url(work):
        run, spec = _read(Path(work) / RUN), _read(Path(work) / SPEC)
        _check_identity(run, work, identity)
        return run, spec, RunPaths(Path(spec["stages"]), Path(spec["dataset"]))
    side = RunReader(work)
    run, spec = side.read(RUN) or {}, side.read(SPEC) or {}
    _check_identity(run if spec else {}, work, identity)
    settings = spec["settings"]
    scratch = Scratch(None if settings["spill_dir"] is None else Path(settings["spill_dir"]))
    held.callback(scratch.close)
    paths = side.paths(identity, scratch)
    tokenizer = [paths.stages.parent / TOKENIZER / name for name in spec["tokenizer"]]
    paths.files.fetch(tokenizer)
    if tokenizer:
        settings["tokenizer"] |= {"path": str(tokenizer[0]), "hub_id": None}
    return run, spec, paths


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
