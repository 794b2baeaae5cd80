"""What `krill train` does before it trains: the config, and for a run by flags what its training reads.

Each step is a process of its own, so that the budget of one is not burdened with another.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from krill.cli.options import ConfigOptions, OutputOptions
from krill.cli.steps import run_step
from krill.cli.train_flags import FLAG_RUN, TrainFlags
from krill.errors import ConfigError

if TYPE_CHECKING:
    from krill.config import KrillConfig


def load_for_training(
    config: str | None,
    flags: TrainFlags,
    options: ConfigOptions,
    output: OutputOptions,
    *,
    overwrite: bool,
    verify: bool | None = None,
) -> KrillConfig:
    """The config with its flags; without a file, one made of the flags alone, whose data is made here."""
    from krill.config import load_config

    budget = {"memory": options.memory, "threads": options.threads, "verify": verify}
    given: dict[str, Any] = {**budget, **flags.keys()}
    if config is not None:
        return load_config(config, overrides=options.set, **given)
    if flags.dataset_id is None:
        raise ConfigError(
            "there is nothing to train on",
            hint="give a config (`krill train config.yaml`), or --dataset-id with a path or a hub id",
        )
    loaded = load_config(FLAG_RUN, overrides=options.set, **given)
    loaded = load_config(_with_places(loaded), overrides=options.set, **given)
    _make_missing(loaded, output, overwrite=overwrite)
    return loaded


def _with_places(config: KrillConfig) -> dict[str, Any]:
    """The settings of a run by flags, with what it makes inside its output folder."""
    folder = Path(config.train.output_dir)
    # How large a vocabulary is says something only of one that is trained here.
    own = {**FLAG_RUN["tokenizer"], "path": str(folder / "tokenizer")}
    tokenizer = {} if config.tokenizer.is_given else own
    preprocess = {
        **FLAG_RUN["preprocess"],
        "prepared_path": str(folder / "dataset"),
        "sequence_len": config.train.seq_len,
        # All of the text, as where it is streamed.
        "min_length": 0,
        "min_chars": 0,
        "strip": False,
        "dedup": "none",
    }
    return {**FLAG_RUN, "tokenizer": tokenizer, "preprocess": preprocess}


def _make_missing(config: KrillConfig, output: OutputOptions, *, overwrite: bool) -> None:
    """A tokenizer and a dataset, where the run reads its own; what is finished is left as it is."""
    from krill.storage.atomic import storage_errors, write_bytes
    from krill.training.folder import check_ours

    folder = Path(config.train.output_dir)
    own_tokenizer = config.tokenizer.path == str(folder / "tokenizer")
    steps = [
        *(["train-tokenizer"] if own_tokenizer else []),
        *([] if config.train.streaming else ["preprocess"]),
    ]
    check_ours(folder)
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    file = folder / "config.yaml"
    write_bytes(file, _as_yaml(config))
    arguments = [str(file)]
    # With --json the result is that of the training alone.
    arguments += ["--quiet"] if output.quiet or output.json else []
    arguments += ["--overwrite"] if overwrite else []
    for step in steps:
        run_step(step, arguments, capture=False)


def _as_yaml(config: KrillConfig) -> bytes:
    """The keys that were given and no defaults: some mean something only if they are given."""
    import yaml

    given = config.model_dump(mode="json", exclude_unset=True)
    return yaml.safe_dump(given, sort_keys=False, allow_unicode=True).encode()
