"""The job from end to end: plan, stages, manifest, publication."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import krill
from krill.budget import Need, Plan, resident_bytes
from krill.budget.process import metered_process
from krill.config import KrillConfig, identity_dict, load_config, to_dict
from krill.corpus import Corpus
from krill.dataset import Manifest
from krill.dataset.dataset_files import output_kind
from krill.dataset.fields import Fields
from krill.dataset.manifest import MANIFEST_NAME
from krill.engines import Engine, Resources, WorkerSpec, driver_needs, open_engine, worker_part
from krill.engines.engine import LocalEngine
from krill.engines.rank import PATIENCE, Rank, RankEngine
from krill.errors import ConfigError
from krill.faults import system_errors
from krill.pipeline.block_encoder import check_tokens, missing_bos
from krill.pipeline.chat_input import chat_steps, chat_warnings
from krill.pipeline.context import Context
from krill.pipeline.dedup_needs import load_databases
from krill.pipeline.disk import DiskCap, check_free_space, folder_bytes
from krill.pipeline.input import open_against, open_input, refuse_early, writes_parquet
from krill.pipeline.needs import InputSizes, plan_run, sizes_of
from krill.pipeline.pipeline import Pipeline, build_stages, predict, preprocess_needs
from krill.pipeline.prediction import RunPrediction
from krill.pipeline.processes import in_processes
from krill.pipeline.seen_before import EarlierRuns, earlier_runs
from krill.pipeline.summary import Summary, summarize_dataset
from krill.pipeline.web_input import web_steps
from krill.pipeline.worker import worker_spec
from krill.storage.commits import LOCAL
from krill.storage.folder_storage import FolderStorage
from krill.storage.object_storage import ObjectStorage
from krill.storage.object_store import is_object_url
from krill.storage.run import DONE, FINISHED, PUBLISHED, Run, RunStorage, identity_of
from krill.text import Step
from krill.text.build import fingerprints_of, steps_of
from krill.text.user_step import Function
from krill.threads.progress import Metered, Progress, Silent
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
    elsewhere = config.engine if config.engine.name != "local" else None
    limit, threads = worker_part(elsewhere, config.memory, config.threads)

    def needs(sizes: InputSizes | None, processes: int = 0, *, made: bool = False) -> list[Need]:
        own = preprocess_needs(config, threads, sizes, own_steps=steps, made=made, processes=processes)
        return [*own, *driver_needs(elsewhere)]

    output = config.preprocess.prepared_path
    shown = output if is_object_url(output) else Path(output)
    with metered_process(limit, threads, floor=floor, parquet=writes_parquet(config)) as meter:
        progress = Metered(progress, meter)
        load_databases(config)
        refuse_early(config, meter, needs)
        made = steps_of(config.preprocess, steps)
        corpus, against = open_input(config), open_against(config)
        made = web_steps(config, corpus, chat_steps(config, corpus.files, made))
        storage = _storage_of(config, shared=rank is not None)
        plan, processes = plan_run(meter, config, threads, sizes_of(corpus), partial(needs, made=True))
        described = describe_run(config, corpus, against, made)
        earlier = earlier_runs(config, described["identity"])
        with Run(storage, progress) as run:
            if run.begin(described, overwrite=overwrite) in (FINISHED, PUBLISHED):
                if earlier is not None:
                    earlier.adopt()
                return summarize_dataset(FINISHED, shown, _finished(storage))
            if rank is None:
                run.watch(meter)
            disk = DiskCap(config.disk, folder_bytes(run.stages))
            engine: Engine
            if rank is not None:
                engine = _rank_engine(config, rank, patience, progress)
            else:
                spec = partial(worker_spec, config, run.paths, made)
                engine = _engine_of(config, steps, run, spec, Resources(plan.limit, threads), disk, progress)
            moved = in_processes(made, processes, config, meter)
            context = Context(
                config, corpus, moved, plan, meter, threads, run.paths, progress, disk, shared=engine.shared
            )
            for warning in chat_warnings(made):
                progress.note(warning)
            with closing(engine), context:
                encoder = _open_encoder(context)
                predicted = _predict(context, made, encoder, processes)
                plan = plan.expecting(needs(predicted.sizes, processes, made=True))
                context = replace(context, plan=plan)
                stages = build_stages(
                    context, encoder, against=against, earlier=earlier, workers=engine.workers
                )
                pipeline = Pipeline(context, stages, run.discard)
                pipeline.run(engine)
                worked = dict(engine.facts())
            if rank is not None:
                return None
            extra = {"predicted": predicted.to_json(), **pipeline.other_outputs(), "engine": worked}
            tokenizer = _describe_tokenizer(config, encoder)
            manifest = _publish(run, pipeline, plan, earlier, tokenizer, extra)
    return summarize_dataset(DONE, shown, manifest)


def _storage_of(config: KrillConfig, *, shared: bool) -> RunStorage:
    """Where the run is going to be; nothing is touched there yet."""
    output = config.preprocess.prepared_path
    spill_dir = None if config.spill_dir is None else Path(config.spill_dir)
    setting = "preprocess.prepared_path"
    if not is_object_url(output):
        return FolderStorage(Path(output), spill_dir, setting=setting, kind=_KIND, shared=shared)
    if config.engine.name == "datatrove":
        raise ConfigError(
            f"the ranks of the engine `datatrove` find the run in a folder that they share, and"
            f" `{setting}` is `{output}`",
            hint="use `engine: ray` or --task, or a folder that all machines see",
        )
    if config.preprocess.dedup_cache_dir is not None:
        raise ConfigError(
            f"`preprocess.dedup_cache_dir` is a folder, and `{setting}` is `{output}`, which workers reach"
            " without one",
            hint="leave it out, and name earlier datasets under `dedup.against`",
        )
    return ObjectStorage(output, spill_dir, setting=setting, kind=_KIND, shared=shared)


def _finished(storage: RunStorage) -> Manifest:
    """The manifest of an output that was there before."""
    if isinstance(storage, FolderStorage):
        return Manifest.load(storage.output)
    return Manifest.from_fields(Fields(storage.finished(), source=f"{storage.output}/{MANIFEST_NAME}"))


def _engine_of(
    config: KrillConfig,
    steps: Sequence[Function],
    run: Run,
    settings: Callable[[], Mapping[str, Any]],
    resources: Resources,
    disk: DiskCap,
    progress: Progress,
) -> Engine:
    """The engine that the config names; its workers find in the run what they must know."""
    if config.engine.name == "local":
        return LocalEngine()
    if steps:
        raise ConfigError(
            f"functions given as `steps` can't be sent to the workers of the engine `{config.engine.name}`",
            hint="put them into a module and name them under `preprocess.filters` as module:function",
        )

    def done(result: Mapping[str, Any]) -> None:
        disk.add(result["kept"])
        progress.advance(result["bytes"])

    spec = WorkerSpec.of_run(_COMMAND, run, resources, settings())
    return open_engine(config.engine, spec, done)


def _rank_engine(config: KrillConfig, rank: Rank, patience: float, progress: Progress) -> RankEngine:
    if config.engine.name != "local":
        raise ConfigError(
            f"--task {rank} is a share of the work without a scheduler, and `engine` is"
            f" `{config.engine.name}`",
            hint="leave out --task, or set --engine local",
        )
    return RankEngine(rank, patience, note=progress.note)


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


def _predict(
    context: Context, steps: Sequence[Step], encoder: Encoder | None, processes: int
) -> RunPrediction:
    """What to expect of the run, from a sample of the input; refuses what the disk can't hold."""
    folder = context.folder
    config, corpus, threads = context.config, context.corpus, context.threads
    predicted = predict(config, corpus, steps, encoder, threads, processes=processes)
    context.disk.check_estimate(predicted.spill_bytes)
    if folder.files is LOCAL:
        check_free_space({folder.stages: predicted.spill_bytes, folder.dataset: predicted.output_bytes})
    return predicted


def _publish(
    run: Run,
    pipeline: Pipeline,
    plan: Plan,
    earlier: EarlierRuns | None,
    tokenizer: Mapping[str, Any] | None,
    extra: Mapping[str, Any],
) -> Manifest:
    context, described = pipeline.context, run.description
    pending = pipeline.write_index(earlier)
    manifest = Manifest(
        **{name: described[name] for name in ("krill", "identity", "config", "inputs")},
        command=_COMMAND,
        budget=context.meter.report(plan),
        seconds=context.meter.seconds,
        **pipeline.facts(),
        tokenizer=tokenizer,
        extra={
            **extra,
            "timeline": context.meter.timeline.to_json(),
            "continued": run.continued,
            "spilled_bytes": context.disk.used,
            "settings": to_dict(context.config),
            "tokenizer_fingerprint": described["tokenizer"],
            "against": described["against"],
            "steps": described["steps"],
        },
    )
    manifest.save(run.dataset)
    run.publish(threads=context.threads)
    if pending is not None:
        pending.commit()  # only now may other runs see what this one kept
    return manifest


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
    return {**run, "identity": identity_of(run)}
