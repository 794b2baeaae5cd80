"""`krill validate`."""

from __future__ import annotations

from krill.cli.options import OutputOptions


def validate(path: str, *, output: OutputOptions = OutputOptions()) -> None:  # noqa: B008  a frozen value
    """Check an output: every row, every checksum. Exits with 3 at the first fault.

    Parameters
    ----------
    path
        A folder that Krill has made.
    """
    from krill.cli.screen import print_json, print_report
    from krill.shards import validate as check

    report = check(path)
    if output.json:
        print_json(report.to_json())
    elif not output.quiet:
        print_report(path, report)
