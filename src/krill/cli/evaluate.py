"""`krill evaluate`."""

from __future__ import annotations

from krill.cli.options import BudgetOptions, OutputOptions


def evaluate(
    model: str,
    data: str,
    /,
    *,
    checkpoint: str | None = None,
    split: str | None = None,
    text_column: str = "text",
    budget: BudgetOptions = BudgetOptions(),  # noqa: B008  a frozen value, never changed
    output: OutputOptions = OutputOptions(),  # noqa: B008
) -> None:
    """How well a model predicts: loss, perplexity, and bits per byte, on a dataset or on any text.

    Bits per byte compare models of different vocabularies. Every token counts once, but for the first of a
    document, which nothing comes before; the bytes are those of the tokens that count.

    Parameters
    ----------
    model
        The folder of a model: `train.output_dir`, finished or not, or a Llama model with tied embeddings.
    data
        A dataset that Krill prepared, or text: a file, glob, folder or URL, in any format that it reads.
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

    memory = budget.memory or "auto"
    with watch(output, limit=resolve_limit(memory)) as progress:
        report = run_evaluate(
            model,
            data,
            checkpoint=checkpoint,
            split=split,
            text_column=text_column,
            memory=memory,
            threads=budget.threads or "auto",
            progress=progress,
        )
    if report.budget["measured_peak"] > report.budget["limit"]:
        print_notices([over_budget(report.budget)])
    if output.json:
        print_json(report.to_json())
    elif not output.quiet:
        print_evaluation(report)
