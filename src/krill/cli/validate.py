"""`krill validate`."""

from __future__ import annotations

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
        A folder that Krill has made.
    """
    from krill.cli.screen import print_json
    from krill.cli.screen_dataset import print_report
    from krill.prepare.look import check_all

    report = check_all(path, memory=options.memory or "auto", threads=options.threads or "auto")
    if output.json:
        print_json(report.to_json())
    elif not output.quiet:
        print_report(path, report)
