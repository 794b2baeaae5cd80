"""`krill export`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from krill.budget import format_size
from krill.cli.formats import Row, format_duration, format_memory, format_rate
from krill.cli.options import BudgetOptions, OutputOptions, Overwrite, Switch, VerifyOptions
from krill.errors import Interrupted

# Formats of small files have thousands of them.
_SHOWN: Final = 20

if TYPE_CHECKING:
    from krill.dataset.export import ExportSummary


def export(
    path: str,
    /,
    *,
    to: Literal["parquet", "megatron", "bin", "datatrove", "mds", "litdata", "litdata-tokens", "jsonl"],
    output: Path | None = None,
    split: Literal["train", "validation", "all"] = "all",
    what: Literal["tokens", "text"] | None = None,
    text: Switch = False,
    lines: Literal["rows", "documents"] | None = None,
    dtype: Literal["auto", "uint16", "uint32", "int32"] = "auto",
    tokenizer: Path | None = None,
    overwrite: Overwrite = False,
    budget: BudgetOptions = BudgetOptions(),  # noqa: B008  a frozen value, never changed
    verify: VerifyOptions = VerifyOptions(),  # noqa: B008
    display: OutputOptions = OutputOptions(),  # noqa: B008
) -> None:
    """Write a prepared dataset in another tool's format.

    The files and a manifest appear in a folder of their own when everything is written. The same command on
    a finished export says so and does nothing.

    Parameters
    ----------
    path
        The folder that `krill preprocess` made.
    to
        The format: parquet (rows), megatron (.bin and .idx of Megatron-LM, a document a sequence), bin
        (train.bin and val.bin of nanoGPT), datatrove (its .ds files with index and metadata), mds (shards of
        MosaicML Streaming), litdata (chunks of LitData, a row a sample), litdata-tokens (the same for its
        TokensLoader) or jsonl (JSON lines).
    output
        The folder to make; by default beside the dataset, named after it and the format.
    split
        Which part of the dataset to write.
    what
        What to write: tokens, or text (the documents of `output: text` and `both`, as jsonl); by default
        tokens if there are some.
    text
        Write the text of the tokens, as jsonl, one document a line.
    lines
        What a line of jsonl is; by default a row, and with --text a document.
    dtype
        The type of tokens in bin and datatrove (uint16, uint32) and megatron (uint16, int32); auto chooses
        by the vocabulary.
    tokenizer
        Where the dataset's tokenizer is now, for --text; by default where it was.
    """
    from krill.cli.progress import bounded
    from krill.cli.screen import print_result
    from krill.dataset.export import export as run

    try:
        with bounded(display, budget, verify) as bounds:
            summary = run(
                path,
                to=to,
                output=output,
                split=split,
                what=what,
                text=text,
                lines=lines,
                dtype=dtype,
                tokenizer=tokenizer,
                overwrite=overwrite,
                **bounds,
            )
    except KeyboardInterrupt:
        raise Interrupted(
            "interrupted: nothing was written", hint="run the same command to start anew"
        ) from None
    print_result(summary.to_json(), display, lambda: _rows(summary), made="from the same dataset")


def _rows(summary: ExportSummary) -> list[Row]:
    manifest = summary.manifest
    files = manifest.extra["files"]
    size = sum(file["bytes"] for file in files)
    return [
        *((file["file"], ", ".join([*_counts(file), format_size(file["bytes"])])) for file in files[:_SHOWN]),
        *([("...", f"{len(files) - _SHOWN:,} more files")] if len(files) > _SHOWN else []),
        ("time", f"{format_duration(manifest.seconds)}{format_rate(size, manifest.seconds)}"),
        ("memory", format_memory(manifest.budget)),
        ("output", str(summary.output)),
    ]


def _counts(file: Mapping[str, Any]) -> Iterator[str]:
    for name in ("rows", "documents", "lines", "tokens"):
        if file.get(name):
            yield f"{file[name]:,} {name}"
