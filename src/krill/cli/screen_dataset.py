"""What the verbs of preprocessing print for people."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from krill.budget.size import format_size
from krill.cli.screen import Row, console_of, counted, plain, print_rows, told_duration, told_memory

if TYPE_CHECKING:
    from krill.dataset import Inspection, Manifest, Report
    from krill.dataset.duplicates import Cluster
    from krill.dataset.inspection import TextFacts, TokenFacts
    from krill.pipeline import Estimate, Summary

_SAMPLE_CHARS = 300
# Reasons that are listed one by one: all that Krill has, and some of a user's own.
_MOST_REASONS = 100


def print_summary(summary: Summary) -> None:
    """The end of a run."""
    manifest = summary.manifest
    console = console_of()
    console.print()
    if summary.status == "finished":
        console.print(f"nothing to do: {summary.output} is finished, made by the same config and input\n")
    rows = _document_rows(manifest.documents)
    for part in manifest.parts:
        split = "" if part.split is None else f" for {part.split}"
        length = part.layout.sequence_len
        rows_of = f"{counted(part.rows, 'row')} of {'' if part.layout.fixed else 'up to '}{length:,}"
        rows.append(("tokens", f"{part.tokens:,} in {rows_of}{split}"))
    if manifest.dataset is not None:
        rows.append(("  dropped", _dropped_tokens(manifest.tokens)))
    for label, texts in (("text", manifest.text), ("rejected", manifest.rejected)):
        if texts is not None:
            files = counted(len(texts.shards), "Parquet file")
            rows.append((label, f"{counted(texts.rows, 'document')} in {files}"))
    rows += [
        ("time", _speed(manifest.seconds, manifest.stages, manifest.extra)),
        ("memory", told_memory(manifest.budget)),
        *_engine_rows(manifest.extra.get("engine", {})),
        *_disk_rows(manifest),
        ("output", str(summary.output)),
    ]
    print_rows(console, rows)
    if isinstance(summary.output, str):  # in an object store
        console.print(f'\nnext: krill.load("{summary.output}") in Python')
        return
    output = shlex.quote(str(summary.output))
    console.print(f"\nnext: krill inspect {output}\n      krill validate {output}")


def _engine_rows(engine: Mapping[str, Any]) -> list[Row]:
    """Who did the work, where others did it."""
    if "worker_peak" not in engine:
        return []
    peak = f"; {format_size(engine['worker_peak'])} peak of the largest" if engine["tasks"] else ""
    return [("workers", f"{engine['workers']} by {engine['name']}, {counted(engine['tasks'], 'task')}{peak}")]


def print_estimate(estimate: Estimate) -> None:
    """The plan of a run."""
    plan = estimate.plan
    each = "" if estimate.workers == 1 else " of each worker"
    rows = [
        ("input", f"{counted(estimate.files, 'file')}, {format_size(estimate.input_bytes)}"),
        (
            "memory",
            f"{format_size(plan.predicted_peak)} predicted peak{each}, {format_size(plan.limit)} given",
        ),
        ("  always", f"{format_size(plan.base)} the program and its libraries"),
    ]
    rows += [
        (f"  {share.during}", f"{format_size(share.size)} {share.name} ({share.kind.value})")
        for share in plan.shares
    ]
    predicted = estimate.predicted
    rows += [
        ("documents", f"about {predicted.documents:,} before deduplication"),
        ("disk", f"about {format_size(predicted.spill_bytes)} between stages, removed at the end"),
        ("output", f"about {format_size(predicted.output_bytes)}"),
    ]
    if predicted.tokens:
        rows.insert(-2, ("tokens", f"about {predicted.tokens:,}"))
    threads = counted(estimate.threads, "thread")
    if estimate.workers > 1:
        threads = f"{counted(estimate.workers, 'worker')} of {threads}"
    rows.append(("time", f"about {told_duration(predicted.seconds)} with {threads}"))
    rows += [(f"  {name}", f"about {told_duration(seconds)}") for name, seconds in predicted.stages.items()]
    print_rows(console_of(), rows)


def print_report(path: str, report: Report) -> None:
    """A check that found nothing wrong."""
    facts = [counted(report.files, "file"), format_size(report.bytes)]
    if report.rows:
        facts += [counted(report.rows, "row"), counted(report.tokens, "token")]
    if report.documents:
        facts.append(counted(report.documents, "document"))
    console_of().print(f"{path} is whole: {', '.join(facts)}")


def print_inspection(found: Inspection) -> None:
    """A look into an output."""
    rows = [("output", f"{found.path} (made by krill {found.krill} in {told_duration(found.seconds)})")]
    rows += _document_rows(found.documents)
    for part in (found.dataset, found.validation):
        if part is not None:
            rows += _token_rows(part, found.tokens)
    if found.text is not None:
        files = counted(found.text.shards, "file")
        rows.append(
            ("text", f"{counted(found.text.rows, 'document')} in {files}, {format_size(found.text.bytes)}")
        )
    rows += [(f"stage {stage['name']}", _stage(stage)) for stage in found.stages]
    if found.predicted_peak is not None and found.measured_peak is not None:
        measured, predicted = format_size(found.measured_peak), format_size(found.predicted_peak)
        rows.append(("memory", f"{measured} measured, {predicted} predicted"))
    console = console_of()
    print_rows(console, rows)
    _print_samples(console, [found.dataset, found.validation], found.text)


def print_clusters(clusters: Sequence[Cluster]) -> None:
    """Near-duplicates side by side: what was kept, and what was dropped for it."""
    console = console_of()
    if not clusters:
        console.print("no near-duplicates were dropped")
    for cluster in clusters:
        console.print(f"\ncluster {cluster.cluster}: {counted(cluster.size, 'document')}", style="bold")
        console.print(_text_block("kept", cluster.kept or "(seen before this run)"))
        for text in cluster.dropped:
            console.print(_text_block("dropped", text))


def _text_block(label: str, text: str) -> Text:
    return plain(f"{label}: ", "cyan") + plain(" ".join(text.split()))


def _document_rows(documents: Mapping[str, Any]) -> list[Row]:
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


def _token_rows(part: TokenFacts, tokens: Mapping[str, Any]) -> list[Row]:
    split = "" if part.split is None else f", split {part.split}"
    rows = [
        (
            "tokens",
            f"{part.tokens:,} in {counted(part.rows, 'row')} of {_row_length(part)}"
            f" ({part.token_dtype}), {counted(part.shards, 'shard')}, {format_size(part.bytes)}{split}",
        )
    ]
    if part.split in (None, "train"):
        rows.append(("  dropped", _dropped_tokens(tokens)))
    for source in part.sources:
        share = f"dataset {source.dataset}, weight {source.weight:g}"
        rows.append(("  source", f"{share}: {counted(source.rows, 'row')}, {source.tokens:,} tokens"))
    spread = part.documents_per_row
    if spread is not None:
        rows.append(("  per row", f"{spread.least} to {spread.most} documents, median {spread.median:g}"))
    rows.append(("  lengths", "tokens of a document in a row, and how many there are:"))
    most = max((bucket.count for bucket in part.piece_lengths), default=1)
    for bucket in part.piece_lengths:
        bar = "#" * -(-30 * bucket.count // most)
        rows.append((f"  {bucket.low:,}-{bucket.high:,}", f"{bucket.count:>9,} {bar}"))
    return rows


def _row_length(part: TokenFacts) -> str:
    spread = part.row_lengths
    if spread is None:
        return f"{part.sequence_len:,}"
    return f"{spread.least:,} to {spread.most:,}, median {spread.median:g}"


def _print_samples(console: Console, parts: Sequence[TokenFacts | None], text: TextFacts | None) -> None:
    for row in [row for part in parts if part is not None for row in part.samples]:
        whole = "full" if len(row.input_ids) == sum(row.seq_lengths) else "WRONG LENGTH"
        lengths = _some(row.seq_lengths)
        console.print(f"\nrow {row.row:,}: {len(row.input_ids):,} tokens, {whole}, documents of {lengths}")
        shown = row.text if row.text is not None else f"ids {_some(row.input_ids)}"
        console.print(plain(_cut(shown), "dim"))
    for document in text.samples if text else ():
        console.print(f"\ndocument {document.row:,}: {document.chars:,} characters")
        console.print(plain(_cut(document.text), "dim"))


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


def _dropped_tokens(tokens: Mapping[str, Any]) -> str:
    facts = [f"{tokens['dropped_short']:,} in short documents"]
    if "dropped_long" in tokens:
        facts.append(f"{tokens['dropped_long']:,} in long ones")
    return ", ".join([*facts, f"{tokens['dropped_tail']:,} in the last short row"])


def _speed(seconds: float, stages: Sequence[Mapping[str, Any]], extra: Mapping[str, Any]) -> str:
    if extra.get("continued"):
        return f"{told_duration(seconds)} since it was continued"
    read = max((stage["bytes"] for stage in stages if stage["name"] in ("scan", "encode")), default=0)
    rate = f", {format_size(int(read / seconds))}/s over {format_size(read)}" if read and seconds else ""
    predicted = extra.get("predicted")
    expected = f", {told_duration(predicted['seconds'])} predicted" if isinstance(predicted, Mapping) else ""
    return f"{told_duration(seconds)}{rate}{expected}"


def _stage(stage: Mapping[str, Any]) -> str:
    facts = [told_duration(stage["seconds"]), format_size(stage["bytes"])]
    facts += [f"{stage[name]:,} {name}" for name in ("documents", "tokens") if stage[name]]
    return ", ".join([*facts, f"peak {format_size(stage['peak'])}"])


def _some(values: Sequence[int], count: int = 12) -> str:
    shown = ", ".join(map(str, values[:count]))
    return f"{shown}, ..." if len(values) > count else shown


def _cut(text: str) -> str:
    return text if len(text) <= _SAMPLE_CHARS else text[:_SAMPLE_CHARS] + "..."
