"""`krill evaluate`."""

from __future__ import annotations

import shlex
from pathlib import Path

from krill.cli.config_argument import config_at
from krill.cli.options import BudgetOptions, OutputOptions, VerifyOptions
from krill.errors import ConfigError, InputError


def evaluate(
    model: str,
    data: str | None = None,
    /,
    *,
    checkpoint: str | None = None,
    split: str | None = None,
    text_column: str = "text",
    budget: BudgetOptions = BudgetOptions(),  # noqa: B008  a frozen value, never changed
    believed: VerifyOptions = VerifyOptions(),  # noqa: B008
    output: OutputOptions = OutputOptions(),  # noqa: B008
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
    from krill.budget import resolve_limit
    from krill.cli.progress import watch
    from krill.cli.screen import over_budget, print_json, print_notices
    from krill.cli.screen_evaluation import print_evaluation
    from krill.training.evaluation import run_evaluate

    config = config_at(model)
    memory, threads = budget.of(config)
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
    with watch(output, limit=resolve_limit(memory)) as progress:
        report = run_evaluate(
            model,
            data,
            checkpoint=checkpoint,
            split=split,
            text_column=text_column,
            memory=memory,
            threads=threads,
            verify=believed.verify and (config is None or config.verify),
            progress=progress,
        )
    if report.budget["measured_peak"] > report.budget["limit"]:
        print_notices([over_budget(report.budget)])
    if output.json:
        print_json(report.to_json())
    elif not output.quiet:
        print_evaluation(report)
