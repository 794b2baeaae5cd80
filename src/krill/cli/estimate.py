"""`krill estimate`."""

from __future__ import annotations

from krill.cli.options import ConfigOptions, OutputOptions


def estimate(
    config: str,
    /,
    *,
    workers: int = 1,
    options: ConfigOptions = ConfigOptions(),  # noqa: B008  a frozen value, never changed
    output: OutputOptions = OutputOptions(),  # noqa: B008
) -> None:
    """The plan of a run before it runs: predicted peak, disk, output size and rough time.

    Where the config has a section `train`, also the model: its shape, its parameters by part, and what a step
    of its training holds.

    Parameters
    ----------
    config
        The config file (YAML).
    workers
        How many workers of an engine share the work, each with this budget and these threads.
    """
    if workers < 1:
        from krill.errors import ConfigError

        raise ConfigError(f"--workers is `{workers}`: must be at least 1")
    from krill.cli.screen import print_json, print_notices
    from krill.cli.screen_dataset import print_estimate
    from krill.cli.screen_train import print_outline

    loaded = options.load(config)
    from krill.pipeline.estimation import run_estimate
    from krill.tokenizer.open import fallback_notice

    result = run_estimate(loaded, workers=workers)
    model = None
    if loaded.trains and result.vocab_size is not None:
        from krill.model.outline import outline

        model = outline(
            loaded.train, result.vocab_size, loaded.train.seq_len or loaded.preprocess.sequence_len
        )
    if output.json:
        print_json({**result.to_json(), **({"model": model.to_json()} if model else {})})
    elif not output.quiet:
        slower = fallback_notice(loaded.tokenizer) if loaded.preprocess.output != "text" else None
        print_notices([*loaded.notices, *([slower] if slower else [])])
        print_estimate(result)
        if model is not None:
            print_outline(model)
