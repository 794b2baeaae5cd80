"""`krill estimate`."""

from __future__ import annotations

from krill.cli.options import ConfigOptions, OutputOptions


def estimate(
    config: str,
    /,
    *,
    options: ConfigOptions = ConfigOptions(),  # noqa: B008  a frozen value, never changed
    output: OutputOptions = OutputOptions(),  # noqa: B008
) -> None:
    """The plan of a run before it runs: predicted peak, disk, output size and rough time.

    Parameters
    ----------
    config
        The config file (YAML).
    """
    from krill.cli.screen import print_estimate, print_json, print_notices

    loaded = options.load(config)
    from krill.prepare.estimation import run_estimate

    result = run_estimate(loaded)
    if output.json:
        print_json(result.to_json())
    elif not output.quiet:
        print_notices(loaded.notices)
        print_estimate(result)
