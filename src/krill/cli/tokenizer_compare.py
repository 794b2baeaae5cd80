"""`krill tokenizer compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from krill.budget import format_size, resolve_limit, resolve_threads
from krill.cli.formats import format_count, format_duration
from krill.cli.options import Many, OutputOptions, TokenizerBudget

if TYPE_CHECKING:
    from krill.tokenizer.compare import Comparison, ProgramTrial
    from krill.tokenizer.compare_encode import EncodeComparison


def compare(
    *,
    input: Path,
    vocab_size: int = 32000,
    encode: Path | None = None,
    peers: Annotated[tuple[str, ...] | None, Many] = None,
    peers_python: Path | None = None,
    output: Path | None = None,
    budget: TokenizerBudget = TokenizerBudget(),  # noqa: B008  a frozen value, never changed
    display: OutputOptions = OutputOptions(),  # noqa: B008
) -> None:
    """Train, or encode, with Krill and with each installed peer on one file: time, true peak, what is equal.

    Each has a process of its own, one after the other. The budget holds for Krill; the peers take none.

    Parameters
    ----------
    input
        A plain text file.
    vocab_size
        Tokens in the vocabulary, the special token `<|endoftext|>` included.
    encode
        A tokenizer.json, or the folder that holds one: encode with it instead of training.
    peers
        Which ones, all of them if not given. Trainers: tokenizers, gigabpe, gigatoken, rustbpe,
        sentencepiece. Encoders: tokenizers, tiktoken, gigatoken, fastokens, tokie.
    peers_python
        The Python interpreter that has the peers installed, if not the one that runs this.
    output
        A page to look at, such as compare.html, with what was measured as bars; an earlier report of that
        name is replaced.
    """
    from krill.cli.screen import console_of, print_json
    from krill.report.page import check_target, write_page
    from krill.report.trials import trials_page
    from krill.tokenizer.compare import compare as compare_trainers
    from krill.tokenizer.compare_encode import ENCODE_PEERS, compare_encoders
    from krill.tokenizer.peers import PEERS

    if output is not None:
        check_target(output)
    memory, threads = budget.resolve()
    shown = not (display.quiet or display.json)
    given: dict[str, Any] = {
        "threads": resolve_threads(threads),
        "memory": resolve_limit(memory),
        "python": peers_python,
        "each": print_trial if shown else lambda trial: None,
    }
    result: Comparison | EncodeComparison
    if encode is None:
        result = compare_trainers(input, vocab_size=vocab_size, peers=peers or tuple(PEERS), **given)
    else:
        result = compare_encoders(encode, input, peers=peers or ENCODE_PEERS, **given)
    if output is not None:
        write_page(trials_page(result), output)
    if display.json:
        print_json(result.to_json())
    elif shown:
        print_comparison(result)
        if output is not None:
            console_of().print(f"\n{output}: open it in a browser")


def print_trial(trial: ProgramTrial) -> None:
    from krill.cli.screen import print_rows

    if trial.fault is None:
        fact = f"{format_duration(trial.seconds)}, {format_size(trial.peak)} peak"
    else:
        fact = trial.fault if trial.remedy is None else f"{trial.fault}: {trial.remedy}"
    print_rows([(trial.name, fact)])


def print_comparison(comparison: Comparison | EncodeComparison) -> None:
    from krill.cli.screen import console_of
    from krill.tokenizer.compare import Comparison

    about, head, *lines = (
        _trainers(comparison) if isinstance(comparison, Comparison) else _encoders(comparison)
    )
    console = console_of()
    size, threads = format_size(comparison.bytes), format_count(comparison.threads, "thread")
    console.print(f"\n{size}, {about[0]}, {threads}\n")
    for name, *figures, last in (head, *lines):
        console.print(f"{name:22}{''.join(f'{figure:>12}' for figure in figures)}  {last}")


def _trainers(comparison: Comparison) -> list[tuple[str, ...]]:
    from krill.tokenizer.compare import vocabulary_beside

    ours = comparison.ours
    return [
        (f"{comparison.vocab_size:,} tokens",),
        ("trainer", "seconds", "MB/s", "peak", "time", "memory", "vocabulary"),
        *(
            (
                f"{trial.name} {trial.version}",
                f"{trial.seconds:.1f}",
                f"{comparison.bytes / trial.seconds / 1e6:.1f}",
                format_size(trial.peak),
                f"{trial.seconds / ours.seconds:.2f}x",
                f"{trial.peak / ours.peak:.2f}x",
                vocabulary_beside(ours, trial),
            )
            for trial in comparison.trials
            if trial.fault is None
        ),
    ]


def _encoders(comparison: EncodeComparison) -> list[tuple[str, ...]]:
    ours = comparison.trials[0]
    return [
        (format_count(comparison.documents, "document"),),
        ("encoder", "load", "MB/s", "tokens", "peak", "ids"),
        *(
            (
                f"{trial.name} {trial.version}",
                f"{trial.load:.2f} s",
                f"{comparison.bytes / trial.seconds / 1e6:.1f}",
                f"{trial.tokens:,}",
                format_size(trial.peak),
                "ours" if trial is ours else f"{trial.differing:,} differ" if trial.differing else "equal",
            )
            for trial in comparison.trials
            if trial.fault is None
        ),
    ]
