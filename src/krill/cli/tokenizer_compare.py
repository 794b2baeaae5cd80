"""`krill tokenizer compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from krill.cli.options import OutputOptions
from krill.cli.tokenizer_options import Many, TokenizerBudget


def compare(
    *,
    input: Path,
    vocab_size: int = 32000,
    peers: Annotated[tuple[str, ...] | None, Many] = None,
    peers_python: Path | None = None,
    budget: TokenizerBudget = TokenizerBudget(),  # noqa: B008  a frozen value, never changed
    output: OutputOptions = OutputOptions(),  # noqa: B008
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
    from krill.budget import resolve_limit
    from krill.cli.screen import print_json
    from krill.cli.screen_tokenizer import print_comparison, print_trial
    from krill.tokenizer.compare import compare as compare_trainers
    from krill.tokenizer.peers import PEERS

    shown = not (output.quiet or output.json)
    result = compare_trainers(
        input,
        vocab_size=vocab_size,
        threads=budget.thread_count,
        memory=resolve_limit(budget.memory),
        peers=tuple(PEERS) if peers is None else peers,
        python=peers_python,
        each=print_trial if shown else lambda trial: None,
    )
    if output.json:
        print_json(result.to_json())
    elif shown:
        print_comparison(result)
