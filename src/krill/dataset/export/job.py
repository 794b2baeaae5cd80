"""An export from end to end: plan, files, manifest, publication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import krill
from krill.budget import resident_bytes, resolve_limit
from krill.budget.process import metered_process
from krill.dataset.export.options import Dtype, ExportOptions, Format, LineUnit, Split, What
from krill.dataset.export.sink import ExportedFile, ExportFlow
from krill.dataset.export.source import ExportSource
from krill.dataset.export.write import ExportWriter, costs
from krill.dataset.manifest import Manifest
from krill.errors import ConfigError
from krill.faults import system_errors
from krill.storage.folder_storage import FolderStorage
from krill.storage.outputs import OutputKind, stated_checksums
from krill.storage.run import DONE, FINISHED, PUBLISHED, Run, RunSummary, identity_of
from krill.threads.progress import Metered, Progress, Silent

_KIND: Final = OutputKind("export", stated_checksums)


@dataclass(frozen=True, slots=True)
class ExportSummary(RunSummary[Manifest]):
    @property
    def files(self) -> list[Path]:
        """What was written, without the manifest."""
        return [Path(self.output or "", entry["file"]) for entry in self.manifest.extra["files"]]


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
    floor: int | None = None,
) -> ExportSummary:
    """Write the dataset at `path`, made by `preprocess`, in another tool's format into the folder `output`.

    Without `output` it stands beside the dataset: `dataset-megatron`. `memory` is how much this process may
    grow above `floor`, by default what it holds now; a command gives 0. Calling it again on a finished export
    returns the same and does nothing. With `verify`, what is read is held against the checksums of the
    dataset's manifest, and nothing is written of a damaged one.
    """
    options = ExportOptions(to=to, split=split, what=what, text=text, lines=lines, dtype=dtype)
    options.check()
    limit, held = resolve_limit(memory), resident_bytes() if floor is None else floor
    source = ExportSource.open(path, verify=verify, limit=None if held else limit)
    options = replace(options, what=source.what(options))
    options.check()  # once more: what is exported was perhaps left open
    place = _place(None if output is None else Path(output), source, options)
    tokenizer = None if tokenizer is None else Path(tokenizer)
    parquet = options.to == "parquet" or options.what == "text"
    with metered_process(limit, threads, floor=held, parquet=parquet) as meter:
        cost = costs(source, options, meter.threads, tokenizer)
        plan = meter.plan(cost.needs)
        described = _describe(source, options)
        with Run(FolderStorage(place, setting="--output", kind=_KIND), progress or Silent()) as run:
            if run.begin(described, overwrite=overwrite) in (FINISHED, PUBLISHED):
                manifest = Manifest.load(place)
                return ExportSummary(FINISHED, place, manifest, manifest.to_json())
            shown = Metered(progress or Silent(), meter)
            flow = ExportFlow(meter.threads, cost.bytes_in_flight(plan), meter, shown)
            with meter.stage("export") as stage:
                files = ExportWriter(source, options, cost, plan, run.dataset, flow).write(tokenizer)
            budget, seconds = meter.report(plan), meter.seconds
            figures = _figures(source, files, stage)
            figures["extra"]["timeline"] = meter.timeline.to_json()
            manifest = Manifest(**described, budget=budget, seconds=seconds, **figures)
            manifest.save(run.dataset)
            run.publish()
    return ExportSummary(DONE, place, manifest, manifest.to_json())


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
    """What this run is, and the hash of everything that shapes its files, its identity."""
    fingerprint = source.fingerprint()
    shaping = {"krill": krill.__version__, "config": options.to_json(), "content": fingerprint["content"]}
    return {
        "krill": krill.__version__,
        "command": _KIND.command,
        "config": options.to_json(),
        "inputs": [fingerprint],
        "identity": identity_of(shaping),
    }


def _figures(source: ExportSource, files: Sequence[ExportedFile], stage: dict[str, Any]) -> dict[str, Any]:
    kept = source.manifest.documents["kept"]
    tokens = sum(file.counts.get("tokens", 0) for file in files)
    written = sum(file.bytes for file in files)
    return {
        "stages": [{**stage, "bytes": written, "documents": kept, "tokens": tokens}],
        "documents": {"read": kept, "kept": kept, "dropped": {}, "notes": {}},
        "tokens": {"kept": tokens},
        "tokenizer": source.manifest.tokenizer,
        "extra": {"files": [file.to_json() for file in files]},
    }
