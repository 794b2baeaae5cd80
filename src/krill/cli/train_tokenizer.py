"""`krill train-tokenizer`: the tokenizer that a config describes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from krill.cli.options import ConfigOptions, OutputOptions, VerifyOptions
from krill.errors import ConfigError

if TYPE_CHECKING:
    from krill.config import KrillConfig, TokenizerConfig

# Where a tokenizer goes that the config only has a name on the hub for.
_DEFAULT_FOLDER = "artifacts/tokenizer"


def train_tokenizer(
    config: str,
    /,
    *,
    overwrite: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    push: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    options: ConfigOptions = ConfigOptions(),  # noqa: B008  a frozen value, never changed
    believed: VerifyOptions = VerifyOptions(),  # noqa: B008
    output: OutputOptions = OutputOptions(),  # noqa: B008
) -> None:
    """Train the tokenizer of a config on its datasets, into `tokenizer.path`.

    The same command on a killed run continues it; on a finished one it says so and does nothing.

    Parameters
    ----------
    config
        The config file (YAML).
    overwrite
        Start anew, and replace the finished tokenizer in the end; refused while its folder holds files that
        Krill did not write.
    push
        Upload the tokenizer to the Hugging Face hub, as `tokenizer.hub_id`.
    """
    from krill.cli.screen import print_notices
    from krill.cli.tokenizer_training import train_and_tell

    loaded = options.load(config, verify=believed.key)
    folder = output_folder(loaded)
    hub_id = _hub_name(loaded.tokenizer) if push else None
    if not output.quiet:
        print_notices(loaded.notices)
    from krill.corpus import DatasetSource
    from krill.tokenizer.options import TrainOptions

    settings = loaded.tokenizer
    train_and_tell(
        [
            DatasetSource(dataset.path, dataset.split, dataset.text_column, dataset.separator)
            for dataset in loaded.datasets
        ],
        TrainOptions(
            vocab_size=settings.vocab_size,
            pattern=settings.pattern,
            special_tokens=settings.special_tokens,
            min_frequency=settings.min_frequency,
            max_token_length=settings.max_token_length,
            initial_alphabet=settings.initial_alphabet,
            limit_alphabet=settings.limit_alphabet,
            tie_break=settings.tie_break,
            boundaries=settings.boundaries,
        ),
        output,
        output=folder,
        memory=loaded.memory,
        threads=loaded.threads,
        engine=loaded.engine,
        overwrite=overwrite,
        verify=loaded.verify,
        push=hub_id,
    )


def _hub_name(settings: TokenizerConfig) -> str:
    """Where the tokenizer is to be uploaded."""
    if settings.hub_id is not None and settings.local_path != settings.hub_id:
        return settings.hub_id
    told = "has none" if settings.hub_id is None else f"has the folder `{settings.hub_id}` in its place"
    raise ConfigError(
        f"--push needs a name on the hub, and the config {told}",
        hint="set `tokenizer.hub_id` to one, such as `org/name`; `tokenizer.path` is the folder here",
    )


def output_folder(config: KrillConfig) -> Path:
    """Where the config's tokenizer goes; raises if there is nothing to train, or nothing to train it on."""
    settings = config.tokenizer
    if settings.builtin is not None:
        raise ConfigError(
            f"`tokenizer.builtin` is `{settings.builtin}`: it needs no training",
            hint="set `tokenizer.path` to a folder instead, and a tokenizer is trained into it",
        )
    if not config.datasets:
        raise ConfigError(
            "`datasets` is missing from the config, so there is nothing to train on",
            hint="add, for example,\ndatasets:\n  - path: data/*.jsonl",
        )
    if settings.path is None and settings.hub_id is None:
        raise ConfigError(
            "`tokenizer.path` is missing from the config, so the tokenizer has no place to go",
            hint=f"add, for example,\ntokenizer:\n  path: {_DEFAULT_FOLDER}",
        )
    path = Path(settings.local_path or _DEFAULT_FOLDER)
    if path.suffix == ".json" and path.name != "tokenizer.json":
        key = "path" if settings.path is not None else "hub_id"
        raise ConfigError(
            f"`tokenizer.{key}` is `{path}`, and a tokenizer is trained into a folder",
            hint=f"set `tokenizer.{key}` to `{path.parent}`",
        )
    return path.parent if path.name == "tokenizer.json" else path
