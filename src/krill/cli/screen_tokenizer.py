"""What the verbs of tokenizers print for people."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from krill.budget.size import format_size
from krill.cli.screen import console_of, counted, print_rows, told_duration, told_memory

if TYPE_CHECKING:
    from krill.tokenizer.compare import Comparison, Trial

_TOKEN_CHARS = 24
_LONGEST_SHOWN = 4


def print_training(facts: Mapping[str, Any], files: Sequence[Path] = ()) -> None:
    """The end of a training; `facts` as its summary's `to_json` has them, `files` were written besides."""
    console = console_of()
    console.print()
    output = facts["output"]
    if facts["status"] == "finished":
        console.print(f"nothing to do: {output} is finished, made by the same options and input\n")
    rate = f", {format_size(int(facts['input_bytes'] / facts['seconds']))}/s" if facts["seconds"] else ""
    rows = [
        ("vocabulary", f"{facts['vocab_size']:,} tokens, {counted(facts['merges'], 'merge')}"),
        ("  longest", ", ".join(map(_visible, facts["longest_tokens"][:_LONGEST_SHOWN]))),
        ("words", f"{facts['unique_words']:,} unique of {facts['words']:,}"),
        ("compression", _compression(facts["bytes_per_token"])),
        ("time", f"{told_duration(facts['seconds'])}{rate} over {format_size(facts['input_bytes'])}"),
    ]
    rows += [(f"  {stage['name']}", told_duration(stage["seconds"])) for stage in facts["stages"]]
    rows += [("memory", told_memory(facts["budget"])), ("output", str(output))]
    rows += [("", str(file)) for file in files]
    print_rows(console, rows)
    console.print(f'\nnext: krill tokenizer encode --tokenizer {shlex.quote(str(output))} "some text"')


def print_encoding(facts: Mapping[str, Any]) -> None:
    """The end of encoding files into one file of tokens."""
    rate = f", {format_size(int(facts['input_bytes'] / facts['seconds']))}/s" if facts["seconds"] else ""
    rows = [
        ("documents", f"{facts['documents']:,}, {format_size(facts['input_bytes'])} of text"),
        ("tokens", f"{facts['tokens']:,} as little-endian {facts['token_dtype']}"),
        ("compression", f"{facts['bytes_per_token']:.2f} bytes per token"),
        ("time", f"{told_duration(facts['seconds'])}{rate}"),
        ("words", _cached(facts["words"])),
        ("memory", told_memory(facts["budget"])),
        ("output", f"{facts['output']} ({format_size(facts['output_bytes'])})"),
    ]
    console = console_of()
    console.print()
    print_rows(console, rows)


def print_trial(trial: Trial) -> None:
    """One line for a trainer that has just ended."""
    if trial.fault is None:
        fact = f"{told_duration(trial.seconds)}, {format_size(trial.peak)} peak"
    else:
        fact = trial.fault if trial.remedy is None else f"{trial.fault}: {trial.remedy}"
    print_rows(console_of(), [(trial.name, fact)])


def print_comparison(comparison: Comparison) -> None:
    """All trainers as a table: time, rate, peak, each beside ours."""
    from krill.tokenizer.compare import vocabulary_beside

    ours = comparison.ours
    size = format_size(comparison.bytes)
    threads = counted(comparison.threads, "thread")
    console = console_of()
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
