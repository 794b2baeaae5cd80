"""`krill validate`."""

from __future__ import annotations

from krill.budget import format_size
from krill.cli.formats import format_count
from krill.cli.options import BudgetOptions, OutputOptions, load_if_config


def validate(
    path: str,
    /,
    *,
    budget: BudgetOptions = BudgetOptions(),  # noqa: B008  a frozen value, never changed
    display: OutputOptions = OutputOptions(),  # noqa: B008
) -> None:
    """Check an output: every row, every checksum. Exits with 3 at the first fault.

    Parameters
    ----------
    path
        A folder that Krill has made, or the config (YAML) that names it as its `prepared_path`.
    """
    from krill.cli.screen import console_of, print_json
    from krill.pipeline.output_checks import validate_output

    config = load_if_config(path)
    if config is not None:
        path = config.preprocess.prepared_path
    memory, threads = budget.resolve(config)
    report = validate_output(path, memory=memory, threads=threads)
    if display.json:
        print_json(report.to_json())
    elif not display.quiet:
        facts = [format_count(report.files, "file"), format_size(report.bytes)]
        if report.rows:
            facts += [format_count(report.rows, "row"), format_count(report.tokens, "token")]
        if report.documents:
            facts.append(format_count(report.documents, "document"))
        console_of().print(f"{path} is whole: {', '.join(facts)}")
