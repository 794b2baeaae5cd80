"""`krill tokenizer compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from krill.budget import format_size, resolve_limit, resolve_threads
from krill.cli.formats import format_count, format_duration
from krill.cli.options import Many, OutputOptions, TokenizerBudget

if TYPE_CHECKING:
    from krill.tokenizer.compare import Comparison, Trial


def compare(
    *,
    input: Path,
    vocab_size: int = 32000,
    peers: Annotated[tuple[str, ...] | None, Many] = None,
    peers_python: Path | None = None,
    budget: TokenizerBudget = TokenizerBudget(),  # noqa: B008  a frozen value, never changed
    display: OutputOptions = OutputOptions(),  # noqa: B008
) -> None:
    """Train with Krill and with each installed peer on one file: time, true peak, ratios.

    Each trainer has a process of its own, one after the other. The budget holds for Krill; the peers take
    none.

    Parameters
    ----------
    input
        A plain text file.
    vocab_size
        Tokens in the vocabulary, the special token `<|endoftext|>` included.
    peers
        Which ones: tokenizers, gigabpe, gigatoken, rustbpe, sentencepiece. All of them if not given.
    peers_python
        The Python interpreter that has the peers installed, if not the one that runs this.
    """
    from krill.cli.screen import print_json
    from krill.tokenizer.compare import compare as compare_trainers
    from krill.tokenizer.peers import PEERS

    memory, threads = budget.resolve()
    shown = not (display.quiet or display.json)
    result = compare_trainers(
        input,
        vocab_size=vocab_size,
        threads=resolve_threads(threads),
        memory=resolve_limit(memory),
        peers=tuple(PEERS) if peers is None else peers,
        python=peers_python,
        each=print_trial if shown else lambda trial: None,
    )
    if display.json:
        print_json(result.to_json())
    elif shown:
        print_comparison(result)


def print_trial(trial: Trial) -> None:
    from krill.cli.screen import print_rows

    if trial.fault is None:
        fact = f"{format_duration(trial.seconds)}, {format_size(trial.peak)} peak"
    else:
        fact = trial.fault if trial.remedy is None else f"{trial.fault}: {trial.remedy}"
    print_rows([(trial.name, fact)])


def print_comparison(comparison: Comparison) -> None:
    from krill.cli.screen import console_of
    from krill.tokenizer.compare import vocabulary_beside

    ours = comparison.ours
    size = format_size(comparison.bytes)
    threads = format_count(comparison.threads, "thread")
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
