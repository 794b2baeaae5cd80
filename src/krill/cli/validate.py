"""`krill validate`."""

from __future__ import annotations

from krill.cli.config_argument import config_at
from krill.cli.options import BudgetOptions, OutputOptions


def validate(
    path: str,
    /,
    *,
    options: BudgetOptions = BudgetOptions(),  # noqa: B008  a frozen value, never changed
    output: OutputOptions = OutputOptions(),  # noqa: B008
) -> None:
    """Check an output: every row, every checksum. Exits with 3 at the first fault.

    Parameters
    ----------
    path
        A folder that Krill has made, or the config (YAML) that names it as its `prepared_path`.
    """
    from krill.cli.screen import print_json
    from krill.cli.screen_dataset import print_report
    from krill.pipeline.look import check_all

    config = config_at(path)
    if config is not None:
        path = config.preprocess.prepared_path
    memory, threads = options.of(config)
    report = check_all(path, memory=memory, threads=threads)
    if output.json:
        print_json(report.to_json())
    elif not output.quiet:
        print_report(path, report)
