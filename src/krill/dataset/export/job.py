"""An export from end to end: plan, files, manifest, publication."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import orjson

import krill
from krill.budget import Meter, resident_bytes, resolve_limit, resolve_threads
from krill.budget.process import bounded_process
from krill.dataset.export.needs import costs
from krill.dataset.export.options import Dtype, ExportOptions, Format, LineUnit, Split, What
from krill.dataset.export.sink import ExportedFile, ExportFlow
from krill.dataset.export.source import ExportSource
from krill.dataset.export.write import ExportWriter
from krill.dataset.manifest import Manifest
from krill.errors import ConfigError
from krill.faults import system_errors
from krill.storage.decision import FINISHED, PUBLISHED, PUT_INTO_PLACE
from krill.storage.outputs import OutputKind, stated_checksums
from krill.storage.run_folder import RunFolder
from krill.threads.progress import Progress, Silent

_KIND: Final = OutputKind("export", stated_checksums)


@dataclass(frozen=True, slots=True)
class ExportSummary:
    """The end of an export; `status` is "done", or "finished" if an earlier run had done everything."""

    output: Path
    status: str
    manifest: Manifest

    @property
    def files(self) -> list[Path]:
        """What was written, without the manifest."""
        return [self.output / entry["file"] for entry in self.manifest.extra["files"]]

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {"output": str(self.output), "status": self.status, **self.manifest.to_json()}


@system_errors()
def export(
    path: str | Path,
    *,
    to: Format,
    output: str | Path | None = None,
    split: Split = "all",
    what: What | None = None,
    text: bool = False,
    lines: LineUnit | None = None,
    dtype: Dtype = "auto",
    tokenizer: str | Path | None = None,
    memory: str | int = "auto",
    threads: int | str = "auto",
    overwrite: bool = False,
    verify: bool = True,
    progress: Progress | None = None,
) -> ExportSummary:
    """Write the dataset at `path`, made by `preprocess`, in another tool's format into the folder `output`.

    Without `output` it stands beside the dataset: `dataset-megatron`. `memory` is how much this process may
    grow while it works. Calling it again on a finished export returns the same and does nothing. With
    `verify`, what is read is held against the checksums of the dataset's manifest, and nothing is written of
    a damaged one.
    """
    return run_export(
        path,
        ExportOptions(to=to, split=split, what=what, text=text, lines=lines, dtype=dtype),
        output=None if output is None else Path(output),
        tokenizer=None if tokenizer is None else Path(tokenizer),
        memory=memory,
        threads=threads,
        overwrite=overwrite,
        verify=verify,
        progress=progress or Silent(),
        floor=resident_bytes(),
    )


def run_export(
    path: str | Path,
    options: ExportOptions,
    *,
    output: Path | None,
    tokenizer: Path | None,
    memory: str | int,
    threads: int | str,
    overwrite: bool,
    progress: Progress,
    verify: bool = True,
    floor: int = 0,
) -> ExportSummary:
    """The same for the command line, where `floor` is 0: the budget is the whole process."""
    options.check()
    started = time.monotonic()
    limit = resolve_limit(memory)
    source = ExportSource.open(path, verify=verify, limit=None if floor else limit)
    options = replace(options, what=source.what(options))
    options.check()  # once more: what is exported was perhaps left open
    place = _place(output, source, options)
    workers = resolve_threads(threads)
    with (
        bounded_process(workers, parquet=options.to == "parquet" or options.what == "text"),
        Meter(limit, floor) as meter,
    ):
        cost = costs(source, options, workers, tokenizer)
        plan = meter.plan(cost.needs)
        run = _describe(source, options)
        with RunFolder(place, None, setting="--output", differences=_differences, kind=_KIND) as folder:
            state = folder.begin(run, overwrite=overwrite)
            if state == PUBLISHED:
                progress.note(PUT_INTO_PLACE)
            if state in (FINISHED, PUBLISHED):
                return ExportSummary(place, "finished", Manifest.load(place))
            flow = ExportFlow(workers, cost.bytes_in_flight(plan), meter, progress)
            export_into = ExportWriter(source, options, cost, plan, folder.dataset, flow)
            begun = time.monotonic()
            with meter.stage("export"):
                files = export_into.write(tokenizer)
            budget = {**plan.to_json(), "measured_peak": meter.peak, "threads": workers}
            seconds = time.monotonic() - begun
            stage = {"name": "export", "seconds": round(seconds, 3), "peak": meter.stages["export"]}
            manifest = _manifest(run, source, files, budget, stage, time.monotonic() - started)
            manifest.save(folder.dataset)
            folder.publish()
    return ExportSummary(place, "done", manifest)


def _place(output: Path | None, source: ExportSource, options: ExportOptions) -> Path:
    """The folder for the files, which is neither in the dataset's nor around it."""
    dataset = source.folder.resolve()
    if output is None:
        named = source.folder if source.folder.name not in ("", "..") else dataset
        return named.with_name(f"{named.name}-{options.to}")
    place = output.resolve()
    if place == dataset or place in dataset.parents or dataset in place.parents:
        raise ConfigError(
            f"--output `{output}` and the dataset `{source.folder}` are one inside the other",
            hint=f"choose a folder beside it, such as `{dataset.name}-{options.to}`",
        )
    return output


def _describe(source: ExportSource, options: ExportOptions) -> dict[str, Any]:
    """What this run is: everything that shapes its files, and the hash of that, its identity."""
    fingerprint = source.fingerprint()
    shaping = {"krill": krill.__version__, "config": options.to_json(), "content": fingerprint["content"]}
    canonical = orjson.dumps(shaping, option=orjson.OPT_SORT_KEYS)
    return {
        "krill": krill.__version__,
        "command": _KIND.command,
        "config": options.to_json(),
        "inputs": [fingerprint],
        "identity": hashlib.sha256(canonical).hexdigest(),
    }


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What makes an export another one than the one that is there."""
    old = before.get("config", {})
    found = [
        f"`{key}` was `{old.get(key)}` and is `{value}`"
        for key, value in now["config"].items()
        if old.get(key) != value
    ]
    contents = [[entry.get("content") for entry in run.get("inputs", [])] for run in (before, now)]
    return found + ([] if contents[0] == contents[1] else ["the dataset's content"])


def _manifest(
    run: Mapping[str, Any],
    source: ExportSource,
    files: Sequence[ExportedFile],
    budget: Mapping[str, Any],
    stage: Mapping[str, Any],
    seconds: float,
) -> Manifest:
    """Everything there is to say of the export."""
    kept = source.manifest.documents["kept"]
    tokens = sum(file.counts.get("tokens", 0) for file in files)
    return Manifest(
        krill=run["krill"],
        command=run["command"],
        identity=run["identity"],
        config=run["config"],
        inputs=run["inputs"],
        budget=budget,
        seconds=round(seconds, 3),
        stages=[{**stage, "bytes": sum(file.bytes for file in files), "documents": kept, "tokens": tokens}],
        documents={"read": kept, "kept": kept, "dropped": {}, "notes": {}},
        tokens={"kept": tokens},
        tokenizer=source.manifest.tokenizer,
        extra={"files": [file.to_json() for file in files]},
    )
