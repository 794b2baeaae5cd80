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
    from krill.cli.screen import print_json, print_notices
    from krill.cli.screen_dataset import print_estimate

    loaded = options.load(config)
    from krill.prepare.estimation import run_estimate
    from krill.tokenizer.open import fallback_notice

    result = run_estimate(loaded)
    if output.json:
        print_json(result.to_json())
    elif not output.quiet:
        slower = fallback_notice(loaded.tokenizer) if loaded.preprocess.output != "text" else None
        print_notices([*loaded.notices, *([slower] if slower else [])])
        print_estimate(result)
