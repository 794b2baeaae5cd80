"""`krill tokenizer encode`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from krill.budget import format_size, resolve_threads
from krill.cli.formats import Row, format_duration, format_memory, format_rate
from krill.cli.options import Many, OutputOptions, Switch, TokenizerBudget, VerifyOptions
from krill.errors import ConfigError


def encode(
    *text: str,
    tokenizer: Path,
    input: Annotated[tuple[str, ...], Many] = (),
    output: Path | None = None,
    text_column: str = "text",
    max_document_bytes: str = "4MB",
    overwrite: Switch = False,
    budget: TokenizerBudget = TokenizerBudget(),  # noqa: B008  a frozen value, never changed
    verify: VerifyOptions = VerifyOptions(),  # noqa: B008
    display: OutputOptions = OutputOptions(),  # noqa: B008
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
    memory, threads = budget.resolve()
    config = {
        "datasets": [{"path": path, "text_column": text_column} for path in input],
        "tokenizer": {"path": str(tokenizer)},
        "preprocess": {"dedup": "none", "max_document_bytes": max_document_bytes},
        "memory": memory,
        "threads": resolve_threads(threads),
        "verify": verify.enabled,
    }
    _encode_files(config, output, overwrite, display)


def _encode_files(
    settings: dict[str, Any], output: Path | None, overwrite: bool, display: OutputOptions
) -> None:
    from krill.cli.progress import watch
    from krill.cli.screen import print_result
    from krill.config import load_config
    from krill.pipeline.token_file import encode_files

    config = load_config(settings, environ={})
    if output is None:
        display = OutputOptions(quiet=True)  # nothing but ids goes to standard output
    with watch(display, config.memory) as progress:
        facts = encode_files(config, output, overwrite=overwrite, progress=progress).to_json()
    print_result(facts, display, lambda: _rows(facts))


def _rows(facts: Mapping[str, Any]) -> list[Row]:
    words = "encoded by Hugging Face: this kind of tokenizer has no native encoder"
    if facts["words"] is not None:
        hits, misses = facts["words"]["hits"], facts["words"]["misses"]
        share = hits / max(1, hits + misses)
        words = f"{facts['words']['words']:,}, {share:.2%} of them found in the cache"
    seconds, size = facts["seconds"], facts["input_bytes"]
    return [
        ("documents", f"{facts['documents']:,}, {format_size(size)} of text"),
        ("tokens", f"{facts['tokens']:,} as little-endian {facts['token_dtype']}"),
        ("compression", f"{facts['bytes_per_token']:.2f} bytes per token"),
        ("time", f"{format_duration(seconds)}{format_rate(size, seconds)}"),
        ("words", words),
        ("memory", format_memory(facts["budget"])),
        ("output", f"{facts['output']} ({format_size(facts['output_bytes'])})"),
    ]


def _print_ids(texts: tuple[str, ...], tokenizer: Path, budget: TokenizerBudget) -> None:
    lines = texts or (line.decode("utf-8", "ignore").rstrip("\r\n") for line in sys.stdin.buffer)
    with budget.open(tokenizer) as loaded:
        for line in lines:
            print(*loaded.encode(line).tolist())
