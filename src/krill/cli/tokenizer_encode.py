"""`krill tokenizer encode`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from krill.cli.options import OutputOptions, VerifyOptions
from krill.cli.tokenizer_options import Many, TokenizerBudget
from krill.errors import ConfigError


def encode(
    *text: str,
    tokenizer: Path,
    input: Annotated[tuple[str, ...], Many] = (),
    output: Path | None = None,
    text_column: str = "text",
    max_document_bytes: str = "4MB",
    overwrite: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    budget: TokenizerBudget = TokenizerBudget(),  # noqa: B008  a frozen value, never changed
    believed: VerifyOptions = VerifyOptions(),  # noqa: B008
    shown: OutputOptions = OutputOptions(),  # noqa: B008
) -> None:
    """Text in, token ids out.

    Text comes from the arguments, from --input, or else from standard input, where each line is a text of its
    own. Ids go to standard output, separated by spaces, one line for each text or document; or with --output
    into a file, as little-endian numbers one after the other, each document ended by the tokenizer's
    end-of-text token if it has one.

    Parameters
    ----------
    text
        Texts to encode.
    tokenizer
        A tokenizer.json, or the folder that holds one.
    input
        Files, globs or folders: plain text, JSON lines, CSV, Parquet, Arrow, compressed or not.
    output
        A file for the ids: two bytes each, or four where the vocabulary has more than 65,536 tokens. With the
        ending .npy it opens with numpy.load.
    text_column
        The column or JSON key that holds the text.
    max_document_bytes
        Longer documents are cut at a paragraph, line or character, as in preprocessing.
    overwrite
        Replace the output if it exists.
    """
    if not input:
        if output is not None:
            raise ConfigError("--output needs --input", hint="name the files to encode with --input")
        _print_ids(text, tokenizer, budget)
        return
    if text:
        raise ConfigError("give either texts or --input, not both", hint="leave one of them out")
    config = {
        "datasets": [{"path": path, "text_column": text_column} for path in input],
        "tokenizer": {"path": str(tokenizer)},
        "preprocess": {"dedup": "none", "max_document_bytes": max_document_bytes},
        "memory": budget.memory,
        "threads": budget.thread_count,
        "verify": believed.verify,
    }
    _encode_files(config, output, overwrite, shown)


def _encode_files(
    settings: dict[str, Any], output: Path | None, overwrite: bool, shown: OutputOptions
) -> None:
    from krill.budget import resolve_limit
    from krill.cli.progress import watch
    from krill.cli.screen import over_budget, print_json, print_notices
    from krill.cli.screen_tokenizer import print_encoding
    from krill.config import load_config
    from krill.pipeline.token_file import encode_files

    config = load_config(settings, environ={})
    if output is None:
        shown = OutputOptions(quiet=True)  # nothing but ids goes to standard output
    with watch(shown, limit=resolve_limit(config.memory)) as progress:
        facts = encode_files(config, output, overwrite=overwrite, progress=progress).to_json()
    if facts["budget"]["measured_peak"] > facts["budget"]["limit"]:
        print_notices([over_budget(facts["budget"])])
    if shown.json:
        print_json(facts)
    elif not shown.quiet:
        print_encoding(facts)


def _print_ids(texts: tuple[str, ...], tokenizer: Path, budget: TokenizerBudget) -> None:
    lines = texts or (line.decode("utf-8", "ignore").rstrip("\r\n") for line in sys.stdin.buffer)
    with budget.open(tokenizer) as loaded:
        for line in lines:
            print(*loaded.encode(line).tolist())
