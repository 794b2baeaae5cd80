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
from krill.engines import Resources, TaskRunner, driver_needs, load_engine, open_engine
from krill.engines.local import LocalEngine
from krill.engines.rank import PATIENCE, Rank, RankEngine
from krill.engines.stage import Engine
from krill.engines.worker_share import worker_part
from krill.engines.workers import WorkersEngine, WorkerSpec
from krill.errors import ConfigError
from krill.faults import system_errors
from krill.pipeline.block_encoder import check_tokens, layout_of, missing_bos
from krill.pipeline.context import Context
from krill.pipeline.dedup_needs import load_databases, minhash_of
from krill.pipeline.disk import DiskCap, check_free_space, folder_bytes
from krill.pipeline.early_refusal import refuse_early, writes_parquet
from krill.pipeline.input import open_against, open_input
from krill.pipeline.needs import InputSizes, sizes_of
from krill.pipeline.pipeline import Pipeline, build_stages, preprocess_needs
from krill.pipeline.prediction import Prediction, predict
from krill.pipeline.sampling import sample_input
from krill.pipeline.seen_before import earlier_runs
from krill.pipeline.summary import Summary
from krill.pipeline.worker import SPEC, worker_spec
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
from krill.tokenizer import Encoder, open_encoder
from krill.tokenizer.open import fallback_notice, tokenizer_fingerprint

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
    rank: Rank | None = None,
    patience: float = PATIENCE,
) -> Summary | None:
    """The same for the command line, where `floor` is 0: the budget is the whole process.

    With a `rank` it does that rank's share of the work and nothing else, and returns None.
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
        place = _place_of(config, shared=rank is not None)
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
                _engine_of(config, steps, rank) as runner,
                Context(
                    config,
                    corpus,
                    made,
                    plan,
                    meter,
                    threads,
                    folder,
                    progress,
                    disk,
                    shared=rank is not None,
                ) as context,
            ):
                engine: Engine = LocalEngine()
                if rank is not None:
                    engine = RankEngine(rank, patience, note=progress.note)
                elif runner is not None:
                    engine = _workers(runner, context, folder, run["identity"])
                encoder = _open_encoder(context)
                predicted = _predict(context, encoder)
                stages = build_stages(
                    context, encoder, against=against, earlier=earlier, workers=engine.workers
                )
                pipeline = Pipeline(context, stages, folder.discard)
                pipeline.run(engine)
            if rank is not None:
                return None
            plan = plan.expecting(needs(predicted.sizes, made=True))
            pending = pipeline.write_index(earlier)
            found = {**pipeline.facts(), "tokenizer": _describe_tokenizer(config, encoder)}
            seconds = time.monotonic() - started
            extra = {
                "continued": state == CONTINUE,
                "predicted": predicted.to_json(),
                "duplicates": pipeline.outputs.get("duplicates"),
                "engine": dict(engine.facts()),
            }
            manifest = _manifest(context, run, plan, found, extra, seconds)
            _publish(folder, manifest, pending, threads)
    return Summary(_output_of(config), "done", manifest)


def _output_of(config: KrillConfig) -> Path | str:
    """The output as people see it."""
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
    config: KrillConfig, steps: Sequence[Function], rank: Rank | None
) -> Iterator[TaskRunner | None]:
    """The engine that the config names, until the run ends; None for this process itself."""
    if rank is not None and config.engine.name != "local":
        raise ConfigError(
            f"--task {rank} is a share of the work without a scheduler, and `engine` is"
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


def _workers(
    runner: TaskRunner, context: Context, folder: RunFolder | RemoteRun, identity: str
) -> WorkersEngine:
    """The engine whose workers find this run by its address, or in its object store."""
    folder.note(SPEC, worker_spec(context))

    def done(result: Mapping[str, Any]) -> None:
        context.disk.add(result["kept"])
        context.progress.advance(result["bytes"])

    resources = Resources(context.plan.limit, context.threads)
    anywhere = folder.files is not LOCAL
    spec = WorkerSpec(_COMMAND, folder.address, identity, resources, anywhere)
    return WorkersEngine(runner, context.config.engine.name, spec, done)


def _open_encoder(context: Context) -> Encoder | None:
    """Before anything is read: hours later is too late to learn that a file is no tokenizer."""
    config = context.config
    if config.preprocess.output == "text":
        return None
    notice = fallback_notice(config.tokenizer)
    if notice is not None:
        context.progress.note(notice)
    encoder = open_encoder(config.tokenizer, context.plan, context.threads)
    check_tokens(config, encoder)
    return encoder


def _describe_tokenizer(config: KrillConfig, encoder: Encoder | None) -> dict[str, Any] | None:
    if encoder is None:
        return None
    bos = missing_bos(encoder) if config.preprocess.bos else None
    # The second for whoever turns rows into text again.
    return encoder.describe() if bos is None else {**encoder.describe(), "bos_id": bos}


def _predict(context: Context, encoder: Encoder | None) -> Prediction:
    """What to expect of the run, from a sample of the input; refuses what the disk can't hold."""
    config, folder = context.config, context.folder
    sample = sample_input(context.corpus, context.steps, minhash_of(config.preprocess.dedup), encoder)
    width = 0 if encoder is None else layout_of(config, encoder.vocab_size).dtype.itemsize
    predicted = predict(config, context.corpus, sample, context.threads, width)
    context.disk.check_estimate(predicted.spill_bytes)
    if folder.files is LOCAL:
        check_free_space({folder.stages: predicted.spill_bytes, folder.dataset: predicted.output_bytes})
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
    context: Context,
    run: Mapping[str, Any],
    plan: Plan,
    found: Mapping[str, Any],
    extra: Mapping[str, Any],
    seconds: float,
) -> Manifest:
    """Everything there is to say of the run."""
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
        **found,
        extra={
            **extra,
            "spilled_bytes": context.disk.used,
            "settings": to_dict(context.config),
            "tokenizer_fingerprint": run["tokenizer"],
            "against": run["against"],
            "steps": run["steps"],
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
