"""`krill preprocess`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from krill.budget import format_size
from krill.cli.formats import Row, format_count, format_duration, format_memory, format_rate
from krill.cli.options import (
    ConfigOptions,
    EngineOptions,
    OutputOptions,
    Overwrite,
    Switch,
    VerifyOptions,
    at_least,
)

if TYPE_CHECKING:
    from krill.dataset import Manifest
    from krill.pipeline import Summary

# Reasons that are listed one by one: all that Krill has, and some of a user's own.
_MOST_REASONS = 100


def preprocess(
    config: str,
    /,
    *,
    overwrite: Overwrite = False,
    no_samples: Switch = False,
    disk: str | None = None,
    task: str | None = None,
    wait: Annotated[float | None, at_least(0)] = None,
    engine: EngineOptions = EngineOptions(),  # noqa: B008
    options: ConfigOptions = ConfigOptions(),  # noqa: B008  a frozen value, never changed
    verify: VerifyOptions = VerifyOptions(),  # noqa: B008
    display: OutputOptions = OutputOptions(),  # noqa: B008
) -> None:
    """Documents in, packed dataset out: read, clean, deduplicate, tokenise, pack.

    The same command on a killed run continues it; on a finished one it says so and does nothing.

    Parameters
    ----------
    config
        The config file (YAML). Relative paths in it are relative to the working directory.
    disk
        The most that may be kept on disk between stages, such as 20GB.
    task
        Do one share of the work, such as 3/16, beside other processes on any machines that see the same
        folders; when all have ended, `--task finish` puts the dataset in its place.
    no_samples
        Keep no text of documents that are dropped (`preprocess.samples: false`), for a run that is shared.
    wait
        With --task, the seconds to wait while none of the others gets on; 600 by default.
    """
    from krill.cli.progress import watch
    from krill.cli.screen import print_notices, print_result

    options = options.without_samples(no_samples)
    loaded = options.load(config, engine, disk=disk, verify=verify.override)
    from krill.engines.rank import FINISH, PATIENCE, Rank
    from krill.errors import ConfigError
    from krill.pipeline.job import run_preprocess

    rank = None if task is None or task == FINISH else Rank.parse(task)
    if wait is not None and rank is None:
        raise ConfigError("--wait is given, and no share of the work that could wait", hint="add --task 1/2")
    if rank is not None and overwrite:
        raise ConfigError(
            f"--overwrite starts a run anew, and task {rank} is a part of one",
            hint="start the first task of a new run without it, in another `preprocess.prepared_path`",
        )
    if not display.quiet:
        print_notices(loaded.notices)
    with watch(display, loaded.memory) as progress:
        summary = run_preprocess(
            loaded,
            overwrite=overwrite,
            progress=progress,
            rank=rank,
            patience=PATIENCE if wait is None else wait,
        )
    if summary is None:
        if not display.quiet:
            print_notices([f"task {rank} is done; when all are: krill preprocess {config} --task {FINISH}"])
        return
    then = f'krill.load("{summary.output}") in Python'
    if not isinstance(summary.output, str):  # not in an object store
        output = shlex.quote(str(summary.output))
        then = f"krill inspect {output}\n      krill validate {output}"
    made = "by the same config and input"
    print_result(summary.to_json(), display, lambda: _summary_rows(summary), made=made, then=then)


def _summary_rows(summary: Summary) -> list[Row]:
    manifest = summary.manifest
    rows = document_rows(manifest.documents)
    for part in manifest.parts:
        split = "" if part.split is None else f" for {part.split}"
        length = f"{'' if part.layout.fixed else 'up to '}{part.layout.sequence_len:,}"
        rows.append(("tokens", f"{part.tokens:,} in {format_count(part.rows, 'row')} of {length}{split}"))
    rows += learned_tokens(manifest.tokens)
    if manifest.dataset is not None:
        rows.append(("  dropped", dropped_tokens(manifest.tokens)))
    for label, texts in (("text", manifest.text), ("rejected", manifest.rejected)):
        if texts is not None:
            files = format_count(len(texts.shards), "Parquet file")
            rows.append((label, f"{format_count(texts.rows, 'document')} in {files}"))
    return [
        *rows,
        ("time", _speed(manifest.seconds, manifest.stages, manifest.extra)),
        ("memory", format_memory(manifest.budget)),
        *_engine_rows(manifest.extra.get("engine", {})),
        *_disk_rows(manifest),
        ("output", str(summary.output)),
    ]


def document_rows(documents: Mapping[str, Any]) -> list[Row]:
    """Documents read, kept, dropped by reason, and repaired."""
    from krill.pipeline.summary import NOTES, describe_reason

    rows = [("documents", f"{documents['read']:,} read, {documents['kept']:,} kept")]
    dropped = documents["dropped"]
    shown = islice(dropped.items(), _MOST_REASONS)
    rows += [("  dropped", f"{count:,} {describe_reason(name)}") for name, count in shown]
    if len(dropped) > _MOST_REASONS:
        more = sum(islice(dropped.values(), _MOST_REASONS, None))
        rows.append(("  dropped", f"{more:,} for {len(dropped) - _MOST_REASONS:,} other reasons"))
    notes = islice(documents["notes"].items(), _MOST_REASONS)
    rows += [("  mended", f"{count:,} {NOTES.get(name, name)}") for name, count in notes]
    return rows


def learned_tokens(tokens: Mapping[str, Any]) -> list[Row]:
    """Of conversations, how much is learned."""
    if "trained" not in tokens:
        return []
    learned, kept = tokens["trained"], max(1, tokens["kept"])
    return [("  learned", f"{learned:,}, {learned / kept:.0%} of them")]


def dropped_tokens(tokens: Mapping[str, Any]) -> str:
    facts = [f"{tokens['dropped_short']:,} in short documents"]
    if "dropped_long" in tokens:
        facts.append(f"{tokens['dropped_long']:,} in long ones")
    return ", ".join([*facts, f"{tokens['dropped_tail']:,} in the last short row"])


def _engine_rows(engine: Mapping[str, Any]) -> list[Row]:
    """Which workers did the work, where it was not this process."""
    if "worker_peak" not in engine:
        return []
    peak = f"; {format_size(engine['worker_peak'])} peak of the largest" if engine["tasks"] else ""
    tasks = format_count(engine["tasks"], "task")
    return [("workers", f"{engine['workers']} by {engine['name']}, {tasks}{peak}")]


def _disk_rows(manifest: Manifest) -> list[Row]:
    """What was kept between stages and what was written, beside what was expected."""
    predicted = manifest.extra.get("predicted")
    if not isinstance(predicted, Mapping):
        return []
    parts = (*manifest.parts, manifest.text, manifest.rejected)
    written = sum(shard.bytes for part in parts if part is not None for shard in part.shards)
    kept = int(manifest.extra.get("spilled_bytes", 0))
    return [
        (
            "disk",
            f"{format_size(written)} written, {format_size(int(predicted['output_bytes']))} predicted;"
            f" {format_size(kept)} between stages, {format_size(int(predicted['spill_bytes']))} predicted",
        )
    ]


def _speed(seconds: float, stages: Sequence[Mapping[str, Any]], extra: Mapping[str, Any]) -> str:
    duration = format_duration(seconds)
    if extra.get("continued"):
        return f"{duration} since it was continued"
    read = max((stage["bytes"] for stage in stages if stage["name"] in ("scan", "encode")), default=0)
    rate = f"{format_rate(read, seconds)} over {format_size(read)}" if read and seconds else ""
    predicted = extra.get("predicted")
    expected = ""
    if isinstance(predicted, Mapping):
        expected = f", {format_duration(predicted['seconds'])} predicted"
    return f"{duration}{rate}{expected}"
