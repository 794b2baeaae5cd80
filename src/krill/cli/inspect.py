"""`krill inspect`, also as the seed's `krill inspect-dataset CONFIG`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from krill.budget import format_size
from krill.cli.formats import Row, format_count, format_duration
from krill.cli.options import OutputOptions, at_least, load_if_config
from krill.cli.preprocess import document_rows, dropped_tokens, learned_tokens

if TYPE_CHECKING:
    from rich.console import Console

    from krill.dataset import Inspection
    from krill.dataset.duplicates import Cluster
    from krill.dataset.inspection import TextFacts, TokenFacts

_SAMPLE_CHARS = 300
_END_CHARS = 60


def inspect(
    path: str,
    /,
    *,
    samples: Annotated[int, at_least(0)] = 2,
    seed: int = 0,
    duplicates: bool = False,
    memory: str = "auto",
    display: OutputOptions = OutputOptions(),  # noqa: B008  a frozen value, never changed
) -> None:
    """Look into an output: samples, lengths, reasons for drops, stages, memory.

    Parameters
    ----------
    path
        A folder that Krill has made, or the config (YAML) that names it as its `prepared_path`.
    samples
        How many rows, or clusters, to show.
    seed
        Which rows: the same seed shows the same.
    duplicates
        Show clusters of near-duplicates instead, side by side: what was kept, and what was dropped for it.
        The run must have kept them (`rejected: true`, `dedup: {method: minhash, clusters: true}`).
    memory
        The memory budget, such as 512MB, 2GiB or auto: half of what this process may use.
    """
    from krill.cli.screen import print_json
    from krill.pipeline.output_checks import inspect_duplicates, inspect_output

    config = load_if_config(path)
    folder = Path(path if config is None else config.preprocess.prepared_path)
    if duplicates:
        clusters = inspect_duplicates(folder, count=samples, memory=memory)
        if display.json:
            print_json({"clusters": [cluster.to_json() for cluster in clusters]})
        elif not display.quiet:
            _print_clusters(clusters)
        return
    inspection = inspect_output(folder, samples=samples, seed=seed, memory=memory)
    if display.json:
        print_json(inspection.to_json())
    elif not display.quiet:
        _print_inspection(inspection)


def _print_inspection(found: Inspection) -> None:
    from krill.cli.screen import console_of, print_rows

    rows = [("output", f"{found.path} (made by krill {found.krill} in {format_duration(found.seconds)})")]
    rows += document_rows(found.documents)
    for part in (found.dataset, found.validation):
        if part is not None:
            rows += _token_rows(part, found.tokens)
    if found.text is not None:
        documents, files = format_count(found.text.rows, "document"), format_count(found.text.shards, "file")
        rows.append(("text", f"{documents} in {files}, {format_size(found.text.bytes)}"))
    rows += [(f"stage {stage['name']}", _stage_facts(stage)) for stage in found.stages]
    if found.predicted_peak is not None and found.measured_peak is not None:
        measured, predicted = format_size(found.measured_peak), format_size(found.predicted_peak)
        rows.append(("memory", f"{measured} measured, {predicted} predicted"))
    print_rows(rows)
    _print_samples(console_of(), [found.dataset, found.validation], found.text)


def _token_rows(part: TokenFacts, tokens: Mapping[str, Any]) -> list[Row]:
    split = "" if part.split is None else f", split {part.split}"
    spread = part.row_lengths
    length = f"{part.sequence_len:,}"
    if spread is not None:
        length = f"{spread.least:,} to {spread.most:,}, median {spread.median:g}"
    rows = [
        (
            "tokens",
            f"{part.tokens:,} in {format_count(part.rows, 'row')} of {length} ({part.token_dtype}),"
            f" {format_count(part.shards, 'shard')}, {format_size(part.bytes)}{split}",
        )
    ]
    if part.split in (None, "train"):
        rows += learned_tokens(tokens)
        rows.append(("  dropped", dropped_tokens(tokens)))
    for source in part.sources:
        share = f"dataset {source.dataset}, weight {source.weight:g}"
        rows.append(("  source", f"{share}: {format_count(source.rows, 'row')}, {source.tokens:,} tokens"))
    spread = part.documents_per_row
    if spread is not None:
        rows.append(("  per row", f"{spread.least} to {spread.most} documents, median {spread.median:g}"))
    rows.append(("  lengths", "tokens of a document in a row, and how many there are:"))
    most = max((bucket.count for bucket in part.piece_lengths), default=1)
    for bucket in part.piece_lengths:
        bar = "#" * -(-30 * bucket.count // most)
        rows.append((f"  {bucket.low:,}-{bucket.high:,}", f"{bucket.count:>9,} {bar}"))
    return rows


def _print_samples(console: Console, parts: Sequence[TokenFacts | None], text: TextFacts | None) -> None:
    from krill.cli.screen import plain
    from krill.dataset.inspection import SampleChats

    for part, row in [(each, row) for each in parts if each is not None for row in each.samples]:
        size = len(row.input_ids)
        full = ", full" if size == part.sequence_len else ""
        state = full if size == sum(row.seq_lengths) else ", WRONG LENGTH"
        lengths = _first_values(row.seq_lengths)
        console.print(f"\nrow {row.row:,}: {size:,} tokens{state}, documents of {lengths}")
        if isinstance(row, SampleChats) and row.pieces is not None:
            _print_conversations(console, row.pieces)
            continue
        shown = row.text if row.text is not None else f"ids {_first_values(row.input_ids)}"
        console.print(plain(_first_characters(shown), "dim"))
    for document in text.samples if text else ():
        console.print(f"\ndocument {document.row:,}: {document.chars:,} characters")
        console.print(plain(_first_characters(document.text), "dim"))


def _print_conversations(console: Console, pieces: Sequence[tuple[str, bool]]) -> None:
    """What is learned in green, or where there are no colours between guillemets."""
    from krill.cli.screen import plain

    left, shown = _SAMPLE_CHARS, plain("")
    for whole, learned in pieces:
        text = whole if learned else _both_ends(whole)
        cut = text[:left]
        left -= len(cut)
        marked = f"\u00ab{cut}\u00bb" if learned and not console.color_system else cut
        shown += plain(marked, "green" if learned else "dim")
        if len(cut) < len(text):
            shown += plain("...", "dim")
            break
    console.print(shown)


def _print_clusters(clusters: Sequence[Cluster]) -> None:
    """Near-duplicates side by side: what was kept, and what was dropped for it."""
    from krill.cli.screen import console_of, plain

    console = console_of()
    if not clusters:
        console.print("no near-duplicates were dropped")
    for cluster in clusters:
        size = format_count(cluster.size, "document")
        console.print(f"\ncluster {cluster.cluster}: {size}", style="bold")
        texts = [("kept", cluster.kept or "(seen before this run)")]
        for label, text in [*texts, *(("dropped", text) for text in cluster.dropped)]:
            console.print(plain(f"{label}: ", "cyan") + plain(" ".join(text.split())))


def _stage_facts(stage: Mapping[str, Any]) -> str:
    facts = [format_duration(stage["seconds"]), format_size(stage["bytes"])]
    facts += [f"{stage[name]:,} {name}" for name in ("documents", "tokens") if stage[name]]
    return ", ".join([*facts, f"peak {format_size(stage['peak'])}"])


def _first_values(values: Sequence[int], count: int = 12) -> str:
    shown = ", ".join(map(str, values[:count]))
    return f"{shown}, ..." if len(values) > count else shown


def _both_ends(text: str) -> str:
    """Tools and instructions before an answer may be longer than all that is shown."""
    return text if len(text) <= 2 * _END_CHARS else f"{text[:_END_CHARS]} [...] {text[-_END_CHARS:]}"


def _first_characters(text: str) -> str:
    return text if len(text) <= _SAMPLE_CHARS else text[:_SAMPLE_CHARS] + "..."
