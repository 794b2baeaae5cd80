"""A worker's side of preprocessing: the stages of a run that another process began.

In: where the run is. Out: its stages. Held in memory: the tokenizer, the steps and what a stage holds.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from krill.budget import Need
from krill.budget.process import metered_process
from krill.chat import RendererSettings
from krill.config import KrillConfig, load_config, to_dict
from krill.engines import Resources
from krill.engines.engine import SPEC_FILE
from krill.engines.worker import CountedProgress, WorkerRun, check_identity, load_run
from krill.pipeline.chat_input import chat_steps
from krill.pipeline.chat_tokens import Renders
from krill.pipeline.context import Context
from krill.pipeline.disk import DiskCap
from krill.pipeline.input import open_against, open_input, writes_parquet
from krill.pipeline.needs import InputSizes, plan_run, sizes_of
from krill.pipeline.pipeline import build_stages, preprocess_needs
from krill.pipeline.processes import in_processes
from krill.pipeline.seen_before import earlier_runs
from krill.pipeline.web_input import web_steps
from krill.storage.atomic import storage_errors
from krill.storage.commits import LOCAL, RunPaths
from krill.storage.mirror import Scratch
from krill.storage.object_storage import RunReader
from krill.storage.object_store import is_object_url
from krill.storage.run import RUN
from krill.text import Step
from krill.text.build import steps_of
from krill.tokenizer import open_encoder
from krill.tokenizer.tokenizer_file import tokenizer_files

TOKENIZER: Final = "tokenizer"
"""The folder beside the stages in which workers find the tokenizer, where they share none with the driver."""


def worker_spec(config: KrillConfig, paths: RunPaths, steps: Sequence[Step]) -> dict[str, Any]:
    """What a worker must know: paths, if it shares them, else what it finds in the object store; and the chat
    template, whose file it may not have."""
    chats = [step.renderer.settings.to_json() for step in steps if isinstance(step, Renders)]
    found = {"settings": to_dict(config), "chat": next(iter(chats), None)}
    if paths.files is not LOCAL:
        return {**found, "tokenizer": _publish_tokenizer(config, paths)}
    stages, dataset = paths.stages.absolute(), paths.dataset.absolute()
    return {**found, "stages": os.fspath(stages), "dataset": os.fspath(dataset)}


def _publish_tokenizer(config: KrillConfig, paths: RunPaths) -> list[str]:
    """Put the tokenizer's files where workers find them; their names."""
    if config.preprocess.output == "text":
        return []
    folder = paths.stages.parent / TOKENIZER
    with storage_errors(folder):
        folder.mkdir(exist_ok=True)
        files = tokenizer_files(config.tokenizer)
        copies = [Path(shutil.copyfile(file, folder / file.name)) for file in files]
    paths.files.publish(copies)
    return [copy.name for copy in copies]


def open_run(address: str, identity: str, resources: Resources, workers: int, held: ExitStack) -> WorkerRun:
    """Read what the run is, and load what its stages need."""
    run, spec, paths = _load(address, identity, held)
    config = load_config(spec["settings"], environ={})
    threads = resources.threads
    meter = held.enter_context(
        metered_process(resources.memory, threads, floor=resources.floor, parquet=writes_parquet(config))
    )
    corpus, against = open_input(config), open_against(config)
    settings = None if spec["chat"] is None else RendererSettings.from_json(spec["chat"])
    steps = chat_steps(config, corpus.files, steps_of(config.preprocess), settings)
    steps = web_steps(config, corpus, steps)

    def needs(sizes: InputSizes, processes: int) -> list[Need]:
        return preprocess_needs(config, threads, sizes, processes=processes)

    plan, processes = plan_run(meter, config, threads, sizes_of(corpus), needs)
    steps = in_processes(steps, processes, config, meter)
    encoder = None
    if config.preprocess.output != "text":
        encoder = open_encoder(config.tokenizer, plan, threads)
    progress, disk = CountedProgress(), DiskCap(None)
    context = Context(config, corpus, steps, plan, meter, threads, paths, progress, disk, shared=True)
    earlier = earlier_runs(config, identity)
    stages = build_stages(context, encoder, against=against, earlier=earlier, workers=workers, begun_with=run)

    def end_request() -> None:
        context.close()
        paths.files.evict()

    held.callback(context.close)
    return WorkerRun(stages, progress, lambda: disk.used, end_request)


def _load(address: str, identity: str, held: ExitStack) -> tuple[dict[str, Any], dict[str, Any], RunPaths]:
    """What the run is, what a worker must know of it, and where its files are."""
    if not is_object_url(address):
        run, spec = load_run(address, identity)
        return run, spec, RunPaths(Path(spec["stages"]), Path(spec["dataset"]))
    side = RunReader(address)
    run, spec = side.read(RUN) or {}, side.read(SPEC_FILE) or {}
    check_identity(run if spec else {}, address, identity)
    settings = spec["settings"]
    scratch = Scratch(None if settings["spill_dir"] is None else Path(settings["spill_dir"]))
    held.callback(scratch.close)
    paths = side.paths(identity, scratch)
    tokenizer = [paths.stages.parent / TOKENIZER / name for name in spec["tokenizer"]]
    paths.files.fetch(tokenizer)
    if tokenizer:
        settings["tokenizer"] |= {"path": str(tokenizer[0]), "hub_id": None}
    return run, spec, paths
