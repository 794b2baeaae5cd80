"""Results for people, and for programs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from krill.budget.size import format_size

if TYPE_CHECKING:
    from krill.prepare import Estimate, Summary
    from krill.shards import Inspection, Report
    from krill.shards.duplicates import Cluster
    from krill.shards.inspect import TextFacts, TokenFacts
    from krill.tokenizer.compare import Comparison, Trial

_SAMPLE_CHARS = 300
_TOKEN_CHARS = 24
_LONGEST_SHOWN = 4
_LABEL_WIDTH = 14

Row = tuple[str, str]


def print_error(message: str, hint: str | None) -> None:
    """What went wrong and what to do, on standard error."""
    _labelled("error: ", "bold red", message)
    if hint:
        _labelled("hint: ", "bold cyan", hint)


def print_notices(notices: Iterable[str]) -> None:
    """Things that are worth a line, on standard error."""
    for notice in notices:
        _labelled("notice: ", "bold yellow", notice)


def print_json(value: Mapping[str, Any]) -> None:
    """One object on standard output."""
    import orjson

    # As bytes: JSON is UTF-8, whatever the terminal's encoding.
    sys.stdout.buffer.write(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def print_summary(summary: Summary) -> None:
    """The end of a run."""
    manifest = summary.manifest
    console = _console()
    console.print()
    if summary.status == "finished":
        console.print(f"nothing to do: {summary.output} is finished, made by the same config and input\n")
    rows = _document_rows(manifest.documents)
    if manifest.dataset is not None:
        dataset, tokens = manifest.dataset, manifest.tokens
        rows += [
            ("tokens", f"{tokens['kept']:,} in {dataset.rows:,} rows of {dataset.layout.sequence_len:,}"),
            ("  dropped", _dropped_tokens(tokens)),
        ]
    if manifest.text is not None:
        files = _count(len(manifest.text.shards), "Parquet file")
        rows.append(("text", f"{_count(manifest.text.rows, 'document')} in {files}"))
    rows += [
        ("time", _speed(manifest.seconds, manifest.stages, manifest.extra)),
        ("memory", _memory(manifest.budget)),
        ("output", str(summary.output)),
    ]
    _print_rows(console, rows)
    output = shlex.quote(str(summary.output))
    console.print(f"\nnext: krill inspect {output}\n      krill validate {output}")


def print_training(facts: Mapping[str, Any], files: Sequence[Path] = ()) -> None:
    """The end of a training; `facts` as its summary's `to_json` has them, `files` were written besides."""
    console = _console()
    console.print()
    output = facts["output"]
    if facts["status"] == "finished":
        console.print(f"nothing to do: {output} is finished, made by the same options and input\n")
    rate = f", {format_size(int(facts['input_bytes'] / facts['seconds']))}/s" if facts["seconds"] else ""
    rows = [
        ("vocabulary", f"{facts['vocab_size']:,} tokens, {_count(facts['merges'], 'merge')}"),
        ("  longest", ", ".join(map(_visible, facts["longest_tokens"][:_LONGEST_SHOWN]))),
        ("words", f"{facts['unique_words']:,} unique of {facts['words']:,}"),
        ("compression", _compression(facts["bytes_per_token"])),
        ("time", f"{_duration(facts['seconds'])}{rate} over {format_size(facts['input_bytes'])}"),
    ]
    rows += [(f"  {stage['name']}", _duration(stage["seconds"])) for stage in facts["stages"]]
    rows += [("memory", _memory(facts["budget"])), ("output", str(output))]
    rows += [("", str(file)) for file in files]
    _print_rows(console, rows)
    console.print(f'\nnext: krill tokenizer encode --tokenizer {shlex.quote(str(output))} "some text"')


def print_encoding(facts: Mapping[str, Any]) -> None:
    """The end of encoding files into one file of tokens."""
    rate = f", {format_size(int(facts['input_bytes'] / facts['seconds']))}/s" if facts["seconds"] else ""
    rows = [
        ("documents", f"{facts['documents']:,}, {format_size(facts['input_bytes'])} of text"),
        ("tokens", f"{facts['tokens']:,} as little-endian {facts['token_dtype']}"),
        ("compression", f"{facts['bytes_per_token']:.2f} bytes per token"),
        ("time", f"{_duration(facts['seconds'])}{rate}"),
        ("words", _cached(facts["words"])),
        ("memory", _memory(facts["budget"])),
        ("output", f"{facts['output']} ({format_size(facts['output_bytes'])})"),
    ]
    console = _console()
    console.print()
    _print_rows(console, rows)


def print_trial(trial: Trial) -> None:
    """One line for a trainer that has just ended."""
    if trial.fault is None:
        fact = f"{_duration(trial.seconds)}, {format_size(trial.peak)} peak"
    else:
        fact = trial.fault if trial.remedy is None else f"{trial.fault}: {trial.remedy}"
    _print_rows(_console(), [(trial.name, fact)])


def print_comparison(comparison: Comparison) -> None:
    """All trainers as a table: time, rate, peak, each beside ours."""
    from krill.tokenizer.compare import vocabulary_beside

    ours = comparison.ours
    size = format_size(comparison.bytes)
    threads = _count(comparison.threads, "thread")
    console = _console()
    console.print(f"\n{size}, {comparison.vocab_size:,} tokens, {threads}\n")
    head = ("trainer", "seconds", "MB/s", "peak", "time", "memory", "vocabulary")
    lines = [head]
    for trial in comparison.trials:
        if trial.fault is None:
            lines.append(
                (
                    f"{trial.name} {trial.version}",
                    f"{trial.seconds:.1f}",
                    f"{comparison.bytes / trial.seconds / 1e6:.1f}",
                    format_size(trial.peak),
                    f"{trial.seconds / ours.seconds:.2f}x",
                    f"{trial.peak / ours.peak:.2f}x",
                    vocabulary_beside(ours, trial),
                )
            )
    for line in lines:
        name, *figures, vocabulary = line
        console.print(f"{name:22}{''.join(f'{figure:>10}' for figure in figures)}  {vocabulary}")


def over_budget(budget: Mapping[str, Any]) -> str:
    """The promise was not kept: said even when everything else is quiet."""
    peak, limit = format_size(budget["measured_peak"]), format_size(budget["limit"])
    return f"the run held {peak}, over its budget of {limit}; its output is whole, its plan was wrong"


def print_estimate(estimate: Estimate) -> None:
    """The plan of a run."""
    plan = estimate.plan
    rows = [
        ("input", f"{_count(estimate.files, 'file')}, {format_size(estimate.input_bytes)}"),
        ("memory", f"{format_size(plan.predicted_peak)} predicted peak, {format_size(plan.limit)} given"),
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
    rows.append(("time", f"about {_duration(predicted.seconds)} with {_count(estimate.threads, 'thread')}"))
    rows += [(f"  {name}", f"about {_duration(seconds)}") for name, seconds in predicted.stages.items()]
    _print_rows(_console(), rows)


def print_report(path: str, report: Report) -> None:
    """A check that found nothing wrong."""
    facts = [_count(report.files, "file"), format_size(report.bytes)]
    if report.rows:
        facts += [_count(report.rows, "row"), _count(report.tokens, "token")]
    if report.documents:
        facts.append(_count(report.documents, "document"))
    _console().print(f"{path} is whole: {', '.join(facts)}")


def print_inspection(found: Inspection) -> None:
    """A look into an output."""
    rows = [("output", f"{found.path} (made by krill {found.krill} in {_duration(found.seconds)})")]
    rows += _document_rows(found.documents)
    if found.dataset is not None:
        rows += _token_rows(found.dataset, found.tokens)
    if found.text is not None:
        files = _count(found.text.shards, "file")
        rows.append(
            ("text", f"{_count(found.text.rows, 'document')} in {files}, {format_size(found.text.bytes)}")
        )
    rows += [(f"stage {stage['name']}", _stage(stage)) for stage in found.stages]
    if found.predicted_peak is not None and found.measured_peak is not None:
        measured, predicted = format_size(found.measured_peak), format_size(found.predicted_peak)
        rows.append(("memory", f"{measured} measured, {predicted} predicted"))
    console = _console()
    _print_rows(console, rows)
    _print_samples(console, found.dataset, found.text)


def print_clusters(clusters: Sequence[Cluster]) -> None:
    """Near-duplicates side by side: what was kept, and what was dropped for it."""
    console = _console()
    if not clusters:
        console.print("no near-duplicates were dropped")
    for cluster in clusters:
        console.print(f"\ncluster {cluster.cluster}: {_count(cluster.size, 'document')}", style="bold")
        console.print(_text_block("kept", cluster.kept or "(seen before this run)"))
        for text in cluster.dropped:
            console.print(_text_block("dropped", text))


def _text_block(label: str, text: str) -> Text:
    return Text.assemble((f"{label}: ", "cyan"), " ".join(text.split()))


def _document_rows(documents: Mapping[str, Any]) -> list[Row]:
    from krill.prepare.summary import NOTES, told_reason

    rows = [("documents", f"{documents['read']:,} read, {documents['kept']:,} kept")]
    rows += [("  dropped", f"{count:,} {told_reason(name)}") for name, count in documents["dropped"].items()]
    rows += [("  mended", f"{count:,} {NOTES.get(name, name)}") for name, count in documents["notes"].items()]
    return rows


def _token_rows(dataset: TokenFacts, tokens: Mapping[str, Any]) -> list[Row]:
    rows = [
        (
            "tokens",
            f"{dataset.tokens:,} in {_count(dataset.rows, 'row')} of {dataset.sequence_len:,}"
            f" ({dataset.token_dtype}), {_count(dataset.shards, 'shard')}, {format_size(dataset.bytes)}",
        ),
        ("  dropped", _dropped_tokens(tokens)),
    ]
    spread = dataset.documents_per_row
    if spread is not None:
        rows.append(("  per row", f"{spread.least} to {spread.most} documents, median {spread.median:g}"))
    rows.append(("  lengths", "tokens of a document in a row, and how many there are:"))
    most = max((bucket.count for bucket in dataset.piece_lengths), default=1)
    for bucket in dataset.piece_lengths:
        bar = "#" * -(-30 * bucket.count // most)
        rows.append((f"  {bucket.low:,}-{bucket.high:,}", f"{bucket.count:>9,} {bar}"))
    return rows


def _print_samples(console: Console, dataset: TokenFacts | None, text: TextFacts | None) -> None:
    for row in dataset.samples if dataset else ():
        whole = "full" if len(row.input_ids) == sum(row.seq_lengths) else "WRONG LENGTH"
        lengths = _some(row.seq_lengths)
        console.print(f"\nrow {row.row:,}: {len(row.input_ids):,} tokens, {whole}, documents of {lengths}")
        shown = row.text if row.text is not None else f"ids {_some(row.input_ids)}"
        console.print(Text(_cut(shown), "dim"))
    for document in text.samples if text else ():
        console.print(f"\ndocument {document.row:,}: {document.chars:,} characters")
        console.print(Text(_cut(document.text), "dim"))


def _console(*, stderr: bool = False) -> Console:
    # Names are printed as they are: neither brackets nor colons in them mean anything.
    return Console(stderr=stderr, highlight=False, soft_wrap=True, markup=False, emoji=False)


def _labelled(label: str, style: str, message: str) -> None:
    _console(stderr=True).print(Text(label, style) + Text(message))


def _print_rows(console: Console, rows: Iterable[Row]) -> None:
    for label, fact in rows:
        console.print(Text(f"{label:{_LABEL_WIDTH}} ", "bold") + Text(fact))


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _dropped_tokens(tokens: Mapping[str, Any]) -> str:
    short, tail = tokens["dropped_short"], tokens["dropped_tail"]
    return f"{short:,} in short documents, {tail:,} in the last short row"


def _memory(budget: Mapping[str, Any]) -> str:
    kept = "promise kept" if budget["measured_peak"] <= budget["limit"] else "OVER THE BUDGET"
    sizes = [format_size(budget[name]) for name in ("measured_peak", "predicted_peak", "limit")]
    return "{} peak measured, {} predicted, {} given: ".format(*sizes) + kept


def _speed(seconds: float, stages: Sequence[Mapping[str, Any]], extra: Mapping[str, Any]) -> str:
    if extra.get("continued"):
        return f"{_duration(seconds)} since it was continued"
    read = max((stage["bytes"] for stage in stages if stage["name"] in ("scan", "encode")), default=0)
    rate = f", {format_size(int(read / seconds))}/s over {format_size(read)}" if read and seconds else ""
    return f"{_duration(seconds)}{rate}"


def _stage(stage: Mapping[str, Any]) -> str:
    facts = [_duration(stage["seconds"]), format_size(stage["bytes"])]
    facts += [f"{stage[name]:,} {name}" for name in ("documents", "tokens") if stage[name]]
    return ", ".join([*facts, f"peak {format_size(stage['peak'])}"])


def _compression(bytes_per_token: float | None) -> str:
    return "not measured" if bytes_per_token is None else f"{bytes_per_token:.2f} bytes per token on a sample"


def _cached(words: Mapping[str, Any] | None) -> str:
    """How often the native encoder had a word in its cache, and what the others cost."""
    if words is None:
        return "encoded by Hugging Face: this kind of tokenizer has no native encoder"
    hits = words["hits"] / max(1, words["hits"] + words["misses"])
    return f"{words['words']:,}, {hits:.2%} of them found in the cache"


def _visible(token: str) -> str:
    """A token on one line: its beginning if it is long, with how long it is."""
    text = token if token.isprintable() else token.encode("unicode_escape").decode()
    if len(text) <= _TOKEN_CHARS:
        return f"`{text}`"
    return f"`{text[:_TOKEN_CHARS]}`... ({len(token)} characters)"


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
