"""A cache of features on disk: prepared once, found again by what it is.

Comes in: a source of questions, a tokenizer, the shape of features. Goes out: a folder with three tables for
each unit and `krill-run.json`. Held in memory: the units in flight, and a hash of each question's id,
to find those that come twice.

A unit is a fixed stretch of the input, so memory and threads don't shape what is written, and a run that was
killed goes on behind the units that it has committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import krill
from krill.budget import Meter, resident_bytes
from krill.budget.process import metered_process
from krill.config.engine import EngineConfig
from krill.engines import Resources, driver_needs, engine_named, worker_part
from krill.qa.encoding import looks_native, open_tokenizer, opening_needs
from krill.qa.feature_stage import make_features
from krill.qa.features import Shape
from krill.qa.needs import reading_needs, unit_needs
from krill.qa.sources import DEFAULT_SPLIT, open_source
from krill.qa.tables import SCHEMAS, table_name
from krill.qa.units import FeatureJob
from krill.storage.atomic import in_one_line, write_json
from krill.storage.folder_storage import FolderStorage
from krill.storage.outputs import MANIFEST, OutputKind
from krill.storage.run import DONE, FINISHED, PUBLISHED, Run, RunSummary, identity_of
from krill.threads.progress import Metered, Progress, Silent

FORMAT: Final = 1
COMMAND: Final = "qa prepare"


def _written_files(manifest: Mapping[str, Any]) -> list[str]:
    units = manifest.get("units")
    count = len(units) if isinstance(units, list) else 0
    return [table_name(number, table) for number in range(count) for table in SCHEMAS]


_KIND: Final = OutputKind(COMMAND, _written_files)


@dataclass(frozen=True, slots=True)
class Prepared(RunSummary[Mapping[str, Any]]):
    @property
    def folder(self) -> Path:
        return Path(self.output or "")

    @property
    def features(self) -> int:
        return int(self.manifest["features"])


def prepare(
    source: str | Path,
    tokenizer: Any,
    *,
    output: str | Path,
    split: str | None = None,
    shape: Shape = Shape(),  # noqa: B008  a frozen value, never changed
    max_examples: int | None = None,
    memory: str | int = "auto",
    threads: int | str = "auto",
    engine: str | Mapping[str, Any] = "local",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Prepared:
    """Make the features of `source` and keep them in the folder `output`.

    `memory` is how much this process may grow while it works; neither it nor `threads` changes the result.
    Calling it again on a run that was killed continues it; on a finished one it does nothing.

    With an `engine`, named as in a config ("ray", or {"name": "ray", "address": "auto"}), its workers make
    the features, and `memory` and `threads` are what each of them has.
    """
    floor = resident_bytes()
    place = engine_named(engine)
    limit, workers = worker_part(place, memory, threads)
    resources = Resources(limit, workers, floor)
    job = open_job(source, split, tokenizer, shape, max_examples, resources=resources, engine=place)
    return run_job(job, Path(output), overwrite=overwrite, progress=progress or Silent())


def open_job(
    source: str | Path,
    split: str | None,
    tokenizer: Any,
    shape: Shape,
    max_examples: int | None,
    *,
    resources: Resources,
    engine: EngineConfig | None = None,
) -> FeatureJob:
    """The job, if the budget can hold it, which is decided before the tokenizer is read.

    `resources` are those of this process, or of each of the engine's workers; the `floor` of a command is 0.
    """
    opening = opening_needs(tokenizer)
    opened = open_source(source, split)
    here = [*reading_needs(opened), *driver_needs(engine)]
    making = here if engine else unit_needs(opened, looks_native(tokenizer), resources.threads)
    meter = Meter(resources.memory, resources.floor)  # only to plan with: nothing is guarded yet
    meter.plan([*opening, *(replace(need, during="features") for need in making)])
    encoder = open_tokenizer(tokenizer, resources.threads)
    return FeatureJob(opened, split or DEFAULT_SPLIT, encoder, shape, max_examples, resources, engine)


def run_job(job: FeatureJob, output: Path, *, overwrite: bool, progress: Progress) -> Prepared:
    job.check()
    engine, threads = job.engine, job.resources.threads
    with metered_process(job.resources.memory, threads, floor=job.resources.floor) as meter:
        progress = Metered(progress, meter)
        needs = unit_needs(job.source, job.tokenizer.native, threads)
        here = [*reading_needs(job.source), *driver_needs(engine)]
        plan = meter.plan(here if engine else needs)
        described = describe(job)
        with Run(FolderStorage(output, setting="--output", kind=_KIND), progress) as run:
            if run.begin(described, overwrite=overwrite) in (FINISHED, PUBLISHED):
                found = run.storage.finished() or {}
                return Prepared(FINISHED, run.output, found, found)
            run.watch(meter)
            with meter.stage("features"):
                found = make_features(job, run, plan, meter, progress)
            manifest = {**described, **found, "seconds": meter.seconds, "budget": meter.report(plan)}
            manifest["timeline"] = meter.timeline.to_json()
            write_manifest(run.dataset, manifest)
            run.publish()
    return Prepared(DONE, run.output, manifest, manifest)


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    # One line for all units, and one for each file: indented like the rest, every value would take its own.
    long = {name: in_one_line(manifest[name]) for name in ("units", "timeline") if name in manifest}
    files = [in_one_line(file) for file in manifest.get("files", [])]
    write_json(folder / MANIFEST, {**manifest, **long, "files": files})


def describe(job: FeatureJob) -> dict[str, Any]:
    """For the manifest; `identity` is the hash of what shapes the features, wherever the files are."""
    inputs = job.source.fingerprints()
    config = {"split": job.split, "max_examples": job.max_examples, **asdict(job.shape)}
    shaping = {
        "format": FORMAT,
        "krill": krill.__version__,
        "config": config,
        "inputs": [entry["fingerprint"] for entry in inputs],
        "tokenizer": job.tokenizer.fingerprint,
    }
    return {
        "format": FORMAT,
        "krill": krill.__version__,
        "command": COMMAND,
        "identity": identity_of(shaping),
        "config": config,
        "inputs": inputs,
        "tokenizer": {
            "fingerprint": job.tokenizer.fingerprint,
            "native": job.tokenizer.native,
            "space_ids": list(job.tokenizer.space_ids),
        },
        "layout": job.tokenizer.layout.to_json(),
    }
