"""`krill evaluate`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from krill.cli.formats import Row, format_count, format_duration, format_memory
from krill.cli.options import BudgetOptions, OutputOptions, VerifyOptions, load_if_config
from krill.errors import ConfigError, InputError

if TYPE_CHECKING:
    from krill.training.evaluate import EvaluationReport


def evaluate(
    model: str,
    data: str | None = None,
    /,
    *,
    checkpoint: str | None = None,
    split: str | None = None,
    text_column: str = "text",
    budget: BudgetOptions = BudgetOptions(),  # noqa: B008  a frozen value, never changed
    verify: VerifyOptions = VerifyOptions(),  # noqa: B008
    display: OutputOptions = OutputOptions(),  # noqa: B008
) -> None:
    """How well a model predicts: loss, perplexity, and bits per byte, on a dataset or on any text.

    Bits per byte compare models of different vocabularies. Every token counts once, but for the first of a
    document, which nothing comes before; the bytes are those of the tokens that count.

    Parameters
    ----------
    model
        The folder of a model: `train.output_dir`, finished or not, or a Llama model with tied embeddings.
        Or the config (YAML) that it was trained with.
    data
        A dataset that Krill prepared, or text: a file, glob, folder or URL, in any format that it reads. With
        a config, by default the dataset that it names.
    checkpoint
        Instead of the finished model: latest, best, or the number of a step.
    split
        Which part of the data; of a dataset, `validation` where there is one, else `train`.
    text_column
        The column or JSON key that holds the text.
    """
    from krill.cli.progress import watch
    from krill.cli.screen import print_result
    from krill.training.evaluate import run_evaluate

    config = load_if_config(model)
    memory, threads = budget.resolve(config)
    if config is not None:
        prepared = config.preprocess.prepared_path
        if data is None and "://" not in prepared and not Path(prepared).exists():
            remedy = f"krill preprocess {shlex.quote(model)}, or name other data after the config"
            raise InputError(f"the dataset of the config, `{prepared}`, is not there", hint=remedy)
        model, data = config.train.output_dir, data or prepared
    if data is None:
        raise ConfigError(
            "there is nothing to evaluate the model on",
            hint=f"krill evaluate {shlex.quote(model)} DATA, with a dataset or text",
        )
    with watch(display, memory) as progress:
        report = run_evaluate(
            model,
            data,
            checkpoint=checkpoint,
            split=split,
            text_column=text_column,
            memory=memory,
            threads=threads,
            verify=verify.enabled and (config is None or config.verify),
            progress=progress,
        )
    print_result(report.to_json(), display, lambda: _rows(report))


def _rows(report: EvaluationReport) -> list[Row]:
    found = report.evaluation
    which = "" if report.step is None else f", step {report.step:,}"
    bits = "unknown: the tokenizer is not beside the model"
    if found.bits_per_byte is not None:
        bits = f"{found.bits_per_byte:.4f}" + ("" if report.exact else " (bytes of tokens estimated)")
    scored = format_count(found.tokens, "token")
    if found.bytes is not None:
        scored += f", {format_count(found.bytes, 'byte')} of text"
    return [
        ("model", f"{report.model}{which}"),
        ("data", report.data if report.split is None else f"{report.data} ({report.split})"),
        ("bits per byte", bits),
        ("loss", f"{found.loss:.4f} nats a token"),
        ("perplexity", f"{found.perplexity:,.2f}"),
        ("scored", scored),
        ("time", format_duration(report.seconds)),
        ("memory", format_memory(report.budget)),
    ]
