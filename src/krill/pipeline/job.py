"""The job from end to end: plan, stages, manifest, publication."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import orjson

import krill
from krill.budget import Meter, Need, Plan, resident_bytes
from krill.budget.process import bounded_process
from krill.config import KrillConfig, differing_keys, identity_dict, load_config, to_dict
from krill.corpus import Corpus, changed
from krill.dataset import Manifest
from krill.dataset.dataset_files import output_kind
from krill.dataset.fields import Fields
from krill.dataset.manifest import MANIFEST_NAME
from krill.dedup import Pending
from krill.dedup.index_database import PendingRun
from krill.engines import Engine, driver_needs, load_engine, open_engine
from krill.engines.worker_share import worker_part
from krill.errors import ConfigError
from krill.faults import system_errors
from krill.pipeline.context import Context
from krill.pipeline.dedup_needs import load_databases
from krill.pipeline.disk import DiskCap, check_free_space, folder_bytes
from krill.pipeline.early_refusal import refuse_early, writes_parquet
from krill.pipeline.fleet import EngineFleet
from krill.pipeline.input import open_against, open_input
from krill.pipeline.needs import InputSizes, preprocess_needs, sizes_of
from krill.pipeline.prediction import Prediction
from krill.pipeline.seen_before import earlier_runs
from krill.pipeline.share import PATIENCE, Share, ShareFleet
from krill.pipeline.stages import Stages, facts
from krill.pipeline.summary import Summary
from krill.storage.atomic import listed
from krill.storage.decision import CONTINUE, FINISHED, PUBLISHED, PUT_INTO_PLACE
from krill.storage.files import LOCAL
from krill.storage.object_store import is_object_url
from krill.storage.remote_run import RemoteRun
from krill.storage.run_folder import RunFolder
from krill.text import Step
from krill.text.build import fingerprints_of, steps_of
from krill.text.user_step import Function
from krill.threads.progress import Progress, Silent
from krill.tokenizer.open import tokenizer_fingerprint

_COMMAND: Final = "preprocess"
_KIND: Final = output_kind(_COMMAND)


@system_errors()
def preprocess(
    config: str | Path | Mapping[str, Any] | KrillConfig,
    *,
    memory: str | int | None = None,
    threads: int | str | None = None,
    steps: Sequence[Function] = (),
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Summary:
    """Prepare the dataset that `config` describes.

    `memory` is how much this process may grow while it works; `steps` are functions of your own, applied
    after the config's filters. Calling it again on a run that was killed continues it; on a finished one it
    returns the same summary and does nothing.
    """
    loaded = load_config(config, memory=memory, threads=threads)
    summary = run_preprocess(
        loaded, steps=steps, overwrite=overwrite, progress=progress or Silent(), floor=resident_bytes()
    )
    assert summary is not None
    return summary


def run_preprocess(
    config: KrillConfig,
    *,
    overwrite: bool,
    progress: Progress,
    steps: Sequence[Function] = (),
    floor: int = 0,
    share: Share | None = None,
    patience: float = PATIENCE,
) -> Summary | None:
    """The same for the command line, where `floor` is 0: the budget is the whole process.

    With a `share` it does that share of the work and nothing else, and returns None.
    """
    config.require_for_preprocess()
    started = time.monotonic()
    elsewhere = config.engine if config.engine.name != "local" else None
    limit, threads = worker_part(elsewhere, config.memory, config.threads)
    load_databases(config)
    load_engine(elsewhere)

    def needs(sizes: InputSizes | None, *, made: bool = False) -> list[Need]:
        own = preprocess_needs(config, threads, sizes, own_steps=steps, made=made)
        return [*own, *driver_needs(elsewhere)]

    with ExitStack() as stack:
        stack.enter_context(bounded_process(threads, parquet=writes_parquet(config)))
        meter = stack.enter_context(Meter(limit, floor))
        refuse_early(config, meter, needs)
        made = steps_of(config.preprocess, steps)
        corpus, against = open_input(config), open_against(config)
        place = _place_of(config, shared=share is not None)
        plan = meter.plan(needs(sizes_of(corpus), made=True))
        run = describe_run(config, corpus, against, made)
        earlier = earlier_runs(config, run["identity"])
        with place as folder:
            state = folder.begin(run, overwrite=overwrite)
            if state == PUBLISHED:
                progress.note(PUT_INTO_PLACE)
            if state in (FINISHED, PUBLISHED):
                if earlier is not None:
                    earlier.adopt()
                return Summary(_output_of(config), FINISHED, _finished(folder))
            if state == CONTINUE:
                progress.note("continuing an earlier run of this config")
            disk = DiskCap(config.disk, folder_bytes(folder.stages))
            with (
                _engine_of(config, steps, share) as engine,
                Context(config, corpus, made, plan, meter, threads, folder, progress, disk) as context,
            ):
                stages = Stages(context, folder.discard, against, earlier)
                if share is not None:
                    stages.fleet = ShareFleet(share, context, patience)
                elif engine is not None:
                    fleet = EngineFleet(engine, config.engine.name, context, folder, run["identity"])
                    stages.fleet = fleet
                predicted = _run(stages)
            if share is not None:
                return None
            plan = plan.expecting(needs(predicted.sizes, made=True))
            pending = stages.prepare_index()
            manifest = _manifest(
                stages, run, plan, predicted, time.monotonic() - started, continued=state == CONTINUE
            )
            _publish(folder, manifest, pending, threads)
    return Summary(_output_of(config), "done", manifest)


def _output_of(config: KrillConfig) -> Path | str:
    """The output as it is told to people."""
    output = config.preprocess.prepared_path
    return output if is_object_url(output) else Path(output)


def _place_of(config: KrillConfig, *, shared: bool) -> RunFolder | RemoteRun:
    """Where the run is going to be; nothing is touched there yet."""
    output = config.preprocess.prepared_path
    spill_dir = None if config.spill_dir is None else Path(config.spill_dir)
    setting = "preprocess.prepared_path"
    if not is_object_url(output):
        return RunFolder(
            Path(output), spill_dir, setting=setting, differences=differences, kind=_KIND, shared=shared
        )
    if config.engine.name == "datatrove":
        raise ConfigError(
            f"the workers of the engine `datatrove` take their orders from a folder that they share, and"
            f" `{setting}` is `{output}`",
            hint="use `engine: ray` or --task, or a folder that all machines see",
        )
    if config.preprocess.dedup_cache_dir is not None:
        raise ConfigError(
            f"`preprocess.dedup_cache_dir` is a folder, and `{setting}` is `{output}`, which workers reach"
            " without one",
            hint="leave it out, and name earlier datasets under `dedup.against`",
        )
    return RemoteRun(output, spill_dir, setting=setting, differences=differences, kind=_KIND, shared=shared)


def _finished(folder: RunFolder | RemoteRun) -> Manifest:
    """The manifest of an output that was there before."""
    if isinstance(folder, RunFolder):
        return Manifest.load(folder.output)
    return Manifest.from_fields(Fields(folder.finished(), source=f"{folder.output}/{MANIFEST_NAME}"))


@contextmanager
def _engine_of(
    config: KrillConfig, steps: Sequence[Function], share: Share | None
) -> Iterator[Engine | None]:
    """The engine that the config names, until the run ends; None for this process itself."""
    if share is not None and config.engine.name != "local":
        raise ConfigError(
            f"--task {share} is a share of the work without a scheduler, and `engine` is"
            f" `{config.engine.name}`",
            hint="leave out --task, or set --engine local",
        )
    if config.engine.name != "local" and steps:
        raise ConfigError(
            f"functions given as `steps` can't be sent to the workers of the engine `{config.engine.name}`",
            hint="put them into a module and name them under `preprocess.filters` as module:function",
        )
    engine = open_engine(config.engine)
    try:
        yield engine
    finally:
        if engine is not None:
            engine.close()


def _run(stages: Stages) -> Prediction:
    """All stages, after a look at what they will take."""
    context = stages.context
    encoder = stages.open_encoder()
    predicted = stages.predict(encoder)
    context.disk.check_estimate(predicted.spill_bytes)
    folder = context.folder
    if folder.files is LOCAL:
        check_free_space({folder.stages: predicted.spill_bytes, folder.dataset: predicted.output_bytes})
    stages.run(encoder)
    return predicted


def _publish(
    folder: RunFolder | RemoteRun, manifest: Manifest, pending: Pending | PendingRun | None, threads: int
) -> None:
    """The manifest, then the folder in its place; only then may other runs see what this one kept."""
    manifest.save(folder.dataset)
    folder.publish(threads=threads)
    if pending is not None:
        pending.commit()


def _manifest(
    stages: Stages,
    run: Mapping[str, Any],
    plan: Plan,
    predicted: Prediction,
    seconds: float,
    *,
    continued: bool,
) -> Manifest:
    """Everything there is to say of the run."""
    context = stages.context
    return Manifest(
        krill=run["krill"],
        command=_COMMAND,
        identity=run["identity"],
        config=run["config"],
        inputs=run["inputs"],
        budget={
            **plan.to_json(),
            "measured_peak": context.meter.peak,
            "tree_pss": context.meter.tree_pss,
            "threads": context.threads,
        },
        seconds=round(seconds, 3),
        **facts(stages),
        extra={
            "continued": continued,
            "predicted": predicted.to_json(),
            "spilled_bytes": context.disk.used,
            "duplicates": stages.duplicates,
            "settings": to_dict(context.config),
            "tokenizer_fingerprint": run["tokenizer"],
            "against": run["against"],
            "steps": run["steps"],
            "engine": {"name": "local"} if stages.fleet is None else dict(stages.fleet.facts()),
        },
    )


def describe_run(
    config: KrillConfig, corpus: Corpus, against: Corpus | None, steps: Sequence[Step]
) -> dict[str, Any]:
    """What this run is: everything that shapes its output, and the hash of that, its identity."""
    run: dict[str, Any] = {
        "krill": krill.__version__,
        "config": identity_dict(config),
        "inputs": corpus.fingerprints(),
        "against": [] if against is None else against.fingerprints(),
        "steps": fingerprints_of(steps),
        "tokenizer": tokenizer_fingerprint(config.tokenizer) if config.preprocess.output != "text" else None,
    }
    canonical = orjson.dumps(run, listed, orjson.OPT_SORT_KEYS)
    return {**run, "identity": hashlib.sha256(canonical).hexdigest()}


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What makes a run another one than the one that was begun or finished here."""
    found = differing_keys(before.get("config", {}), now["config"])
    for name in ("inputs", "against"):
        found += [f"input `{path}`" for path in changed(before.get(name, []), now[name])]
    if before.get("steps", []) != now["steps"]:
        found.append("the code of a step of your own")
    if before.get("tokenizer_fingerprint", before.get("tokenizer")) != now["tokenizer"]:
        found.append("the tokenizer's content")
    return found
