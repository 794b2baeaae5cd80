"""Results for people, and for programs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from krill.budget.size import format_size

if TYPE_CHECKING:
    from krill.prepare import Estimate, Summary
    from krill.shards import Inspection, Report
    from krill.shards.inspect import TextFacts, TokenFacts

_SAMPLE_CHARS = 300


def print_error(message: str, hint: str | None) -> None:
    """What went wrong and what to do, on standard error."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(Text("error: ", "bold red") + Text(message))
    if hint:
        console.print(Text("hint: ", "bold cyan") + Text(hint))


def print_notices(notices: Iterable[str]) -> None:
    """Things about the config that are worth a line, on standard error."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for notice in notices:
        console.print(Text("notice: ", "bold yellow") + Text(notice))


def print_json(value: Mapping[str, Any]) -> None:
    """One object on standard output."""
    import orjson

    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n")


def print_summary(summary: Summary) -> None:
    """The end of a run."""
    from krill.prepare.summary import NOTES, REASONS

    manifest = summary.manifest
    console = _console()
    if summary.status == "finished":
        console.print(f"\nnothing to do: [bold]{summary.output}[/] is finished and its config is the same")
    documents, budget = manifest.documents, manifest.budget
    rows = _rows()
    rows.add_row("documents", f"{documents['read']:,} read, {documents['kept']:,} kept")
    for name, count in documents["dropped"].items():
        rows.add_row("  dropped", f"{count:,} {REASONS.get(name, name)}")
    for name, count in documents["notes"].items():
        rows.add_row("  mended", f"{count:,} {NOTES.get(name, name)}")
    if manifest.dataset is not None:
        dataset, tokens = manifest.dataset, manifest.tokens
        rows.add_row(
            "tokens", f"{tokens['kept']:,} in {dataset.rows:,} rows of {dataset.layout.sequence_len:,}"
        )
        rows.add_row(
            "  dropped",
            _dropped_tokens(tokens),
        )
    if manifest.text is not None:
        rows.add_row("text", f"{manifest.text.rows:,} documents in {len(manifest.text.shards)} Parquet files")
    rows.add_row("time", _speed(manifest.seconds, manifest.stages))
    rows.add_row("memory", _memory(budget))
    rows.add_row("output", str(summary.output))
    console.print()
    console.print(rows)
    console.print(f"\nnext: krill inspect {summary.output}\n      krill validate {summary.output}")


def print_estimate(estimate: Estimate) -> None:
    """The plan of a run."""
    plan = estimate.plan
    rows = _rows()
    rows.add_row("input", f"{estimate.files:,} files, {format_size(estimate.input_bytes)}")
    rows.add_row(
        "memory", f"{format_size(plan.predicted_peak)} predicted peak, {format_size(plan.limit)} given"
    )
    rows.add_row("  always", f"{format_size(plan.base)} the program and its libraries")
    for share in plan.shares:
        during = "always" if share.during == "always" else share.during
        rows.add_row(f"  {during}", f"{format_size(share.size)} {share.name} ({share.kind.value})")
    rows.add_row("disk", f"about {format_size(estimate.spill_bytes)} between stages, removed at the end")
    rows.add_row("output", f"about {format_size(estimate.output_bytes)}")
    rows.add_row("time", f"about {_duration(estimate.seconds)} with {estimate.threads} threads")
    console = _console()
    console.print(rows)


def print_report(path: str, report: Report) -> None:
    """A check that found nothing wrong."""
    facts = [f"{report.files} files", format_size(report.bytes)]
    if report.rows:
        facts += [f"{report.rows:,} rows", f"{report.tokens:,} tokens"]
    if report.documents:
        facts.append(f"{report.documents:,} documents")
    _console().print(f"[bold]{path}[/] is whole: {', '.join(facts)}")


def print_inspection(found: Inspection) -> None:
    """A look into an output."""
    from krill.prepare.summary import REASONS

    console = _console()
    rows = _rows()
    rows.add_row("output", f"{found.path} (made by krill {found.krill} in {_duration(found.seconds)})")
    rows.add_row("documents", f"{found.documents['read']:,} read, {found.documents['kept']:,} kept")
    for name, count in found.dropped.items():
        rows.add_row("  dropped", f"{count:,} {REASONS.get(name, name)}")
    if found.dataset is not None:
        _add_token_facts(rows, found.dataset, found.tokens)
    if found.text is not None:
        rows.add_row(
            "text",
            f"{found.text.rows:,} documents in {found.text.shards} files, {format_size(found.text.bytes)}",
        )
    for stage in found.stages:
        rows.add_row(f"stage {stage['name']}", _stage(stage))
    if found.predicted_peak is not None and found.measured_peak is not None:
        rows.add_row(
            "memory",
            f"{format_size(found.measured_peak)} measured, {format_size(found.predicted_peak)} predicted",
        )
    console.print(rows)
    _print_samples(console, found.dataset, found.text)


def _add_token_facts(rows: Table, dataset: TokenFacts, tokens: Mapping[str, Any]) -> None:
    rows.add_row(
        "tokens",
        f"{dataset.tokens:,} in {dataset.rows:,} rows of {dataset.sequence_len:,} ({dataset.token_dtype}),"
        f" {dataset.shards} shards, {format_size(dataset.bytes)}",
    )
    rows.add_row(
        "  dropped",
        _dropped_tokens(tokens),
    )
    spread = dataset.documents_per_row
    if spread is not None:
        rows.add_row("  per row", f"{spread.least} to {spread.most} documents, median {spread.median:g}")
    most = max((bucket.count for bucket in dataset.piece_lengths), default=1)
    for bucket in dataset.piece_lengths:
        bar = "#" * -(-30 * bucket.count // most)
        rows.add_row(f"  {bucket.low:,}-{bucket.high:,}", f"{bucket.count:>9,} {bar}")


def _print_samples(console: Console, dataset: TokenFacts | None, text: TextFacts | None) -> None:
    for row in dataset.samples if dataset else ():
        whole = "full" if len(row.input_ids) == sum(row.seq_lengths) else "WRONG LENGTH"
        console.print(
            f"\nrow {row.row:,}: {len(row.input_ids):,} tokens, {whole},"
            f" documents of {_some(row.seq_lengths)}"
        )
        shown = row.text if row.text is not None else f"ids {_some(row.input_ids)}"
        console.print(Text(_cut(shown), "dim"))
    for document in text.samples if text else ():
        console.print(f"\ndocument {document.row:,}: {document.chars:,} characters")
        console.print(Text(_cut(document.text), "dim"))


def _console() -> Console:
    return Console(highlight=False, soft_wrap=True)


def _rows() -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    return table


def _dropped_tokens(tokens: Mapping[str, Any]) -> str:
    short, tail = tokens["dropped_short"], tokens["dropped_tail"]
    return f"{short:,} in short documents, {tail:,} in the last short row"


def _memory(budget: Mapping[str, Any]) -> str:
    kept = "kept" if budget["measured_peak"] <= budget["limit"] else "BROKEN"
    return (
        f"{format_size(budget['measured_peak'])} peak measured,"
        f" {format_size(budget['predicted_peak'])} predicted,"
        f" {format_size(budget['limit'])} given: promise {kept}"
    )


def _speed(seconds: float, stages: Sequence[Mapping[str, Any]]) -> str:
    read = max((stage["bytes"] for stage in stages if stage["name"] in ("scan", "encode")), default=0)
    rate = f", {format_size(int(read / seconds))}/s over {format_size(read)}" if read and seconds else ""
    return f"{_duration(seconds)}{rate}"


def _stage(stage: Mapping[str, Any]) -> str:
    facts = [_duration(stage["seconds"]), format_size(stage["bytes"])]
    facts += [f"{stage[name]:,} {name}" for name in ("documents", "tokens") if stage[name]]
    return ", ".join([*facts, f"peak {format_size(stage['peak'])}"])


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _some(values: Sequence[int], count: int = 12) -> str:
    shown = ", ".join(map(str, values[:count]))
    return f"{shown}, ..." if len(values) > count else shown


def _cut(text: str) -> str:
    return text if len(text) <= _SAMPLE_CHARS else text[:_SAMPLE_CHARS] + "..."
