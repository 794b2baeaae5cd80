"""`krill train`: by a config, or by flags alone.

A run by flags alone first makes what its training reads, a tokenizer and perhaps a dataset. Each step is a
process of its own, so that the budget of one is not burdened with another.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from krill.budget import format_size
from krill.cli.formats import Row, format_count, format_duration, format_memory
from krill.cli.options import ConfigOptions, OutputOptions, Switch, VerifyOptions
from krill.cli.run import run_step
from krill.errors import ConfigError
from krill.storage.atomic import make_folder

if TYPE_CHECKING:
    from krill.config import KrillConfig

# What a run without a config does unless a flag says otherwise.
FLAG_RUN: Final[dict[str, Any]] = {
    "tokenizer": {"vocab_size": 10_000},
    # Streaming holds the longest document several times.
    "preprocess": {"max_document_bytes": 1_000_000},
    "train": {
        "streaming": True,
        "seq_len": 128,
        "epochs": 3,
        "output_dir": "output_optimized",
    },
}


@Parameter(name="*")
@dataclass(frozen=True)
class TrainFlags:
    """What is trained, on what; each flag is a key of the config."""

    dataset_id: str | None = None
    """What to read: a file, glob, folder, URL or a dataset of the Hugging Face hub. Required without a
    config."""

    dataset_config: str | None = None
    """The configuration of a dataset of the hub."""

    text_column: str | None = None
    """The column or JSON key that holds the text. Default: text."""

    split: str | None = None
    """The split to read. Default: train."""

    max_examples: int | None = None
    """Read no more documents than this."""

    tokenizer: str | None = None
    """A tokenizer.json or its folder. Without it, one is trained in the output folder."""

    vocab_size: int | None = None
    """Tokens of a tokenizer that is trained. Default: 10000."""

    target_params: int | None = None
    """Parameters of the model; width, depth and heads follow. Default: 1000000."""

    width: int | None = None
    """Numbers in a hidden state. With --layers, both decide the size instead of --target-params."""

    layers: int | None = None
    """Layers of the model."""

    heads: int | None = None
    """Attention heads in a layer."""

    seq_len: int | None = None
    """Tokens in a row. Default: 128."""

    stride: int | None = None
    """Tokens from where a row begins to where the next one does. Default: rows that don't overlap."""

    epochs: int | None = None
    """Times that the text is read. Default: 3."""

    batch_size: int | None = None
    """Rows in a batch. Default: 32."""

    learning_rate: float | None = None
    """Peak learning rate. Default: 0.0005."""

    gradient_accumulation_steps: int | None = None
    """Batches added up for one step of the optimizer. Default: one, cut into pieces if the budget needs
    it."""

    streaming: Annotated[bool | None, Parameter(name="--use-streaming", negative="--no-streaming")] = None
    """Tokenise text while training on it, or prepare a dataset first. Default: --use-streaming."""

    use_mixed_precision: Switch = False
    """Compute activations and gradients in bfloat16."""

    use_8bit_optimizer: Switch = False
    """Keep the optimizer's state in 8 bits: a quarter of the memory."""

    shuffle_buffer_size: int | None = None
    """Streaming: rows that are shuffled together. Default: 10000."""

    output_dir: str | None = None
    """The folder for the model. Default: output_optimized."""

    log_every: int | None = None
    """Steps between lines of progress. Default: 10."""

    save_every: int | None = None
    """Steps between checkpoints. Default: 1000."""

    seed: int | None = None
    """Seed of everything that is drawn at random. Default: 42."""

    def keys(self) -> dict[str, Any]:
        """The keys that were given, as a nested config."""
        from krill.config import TrainConfig

        # Most flags are keys of `train:` by the same name.
        train = {
            **{name: value for name, value in vars(self).items() if name in TrainConfig.model_fields},
            "mixed_precision": "bf16" if self.use_mixed_precision else None,
            "optimizer": "adamw8bit" if self.use_8bit_optimizer else None,
        }
        keys: dict[str, Any] = {
            "seed": self.seed,
            "datasets": self._datasets(),
            "tokenizer": _given({"path": self.tokenizer, "vocab_size": self.vocab_size}),
            "train": _given(train),
        }
        return _given(keys)

    def _datasets(self) -> list[dict[str, Any]] | None:
        if self.dataset_id is None:
            stray = ("dataset_config", "text_column", "split", "max_examples")
            if given := [name for name in stray if getattr(self, name) is not None]:
                raise ConfigError(
                    f"--{given[0].replace('_', '-')} has no effect without --dataset-id",
                    hint="add --dataset-id, or write the key under `datasets:` in the config",
                )
            return None
        path = self.dataset_id if self.dataset_config is None else f"{self.dataset_id}:{self.dataset_config}"
        split = self.split or "train"
        if self.max_examples is not None:
            if "[" in split:
                raise ConfigError(
                    f"--split is `{split}`, a part already, and --max-examples is given too",
                    hint="say it with one of them",
                )
            split = f"{split}[:{self.max_examples}]"
        return [{"path": path, "split": split, "text_column": self.text_column or "text"}]


def _given(keys: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in keys.items() if value is not None and value != {}}


def train(
    config: str | None = None,
    /,
    *,
    overwrite: Switch = False,
    push: Switch = False,
    flags: TrainFlags = TrainFlags(),
    options: ConfigOptions = ConfigOptions(),  # noqa: B008
    verify: VerifyOptions = VerifyOptions(),  # noqa: B008
    display: OutputOptions = OutputOptions(),  # noqa: B008
) -> None:
    """A model from prepared rows, or straight from text, inside the budget.

    With a config, the model is trained on `preprocess.prepared_path`, or with `train.streaming` on the text
    of `datasets`; flags change single keys of it. Without one, --dataset-id says what to read, and what is
    missing is made first, in the output folder: a tokenizer, and with --no-streaming a prepared dataset.

    The same command on a training that was killed continues it from its last checkpoint; on a finished one
    it says so and does nothing.

    Parameters
    ----------
    config
        The config file (YAML).
    overwrite
        Start anew: what an earlier training left in the output folder is removed when the first step is
        ready; refused while it holds files that Krill did not write.
    push
        Upload the finished model to the Hugging Face hub, as `train.hub_model_id`.
    """
    from krill.cli.progress import watch
    from krill.cli.screen import print_notices, print_result

    loaded = load_for_training(config, flags, options, display, overwrite=overwrite, verify=verify.override)
    hub_id = loaded.train.hub_model_id
    if push and hub_id is None:
        raise ConfigError(
            "--push needs a name on the hub, and the config has none", hint="set `train.hub_model_id`"
        )
    from krill.training.job import train as train_model

    if not display.quiet:
        print_notices(loaded.notices)
    with watch(display, loaded.memory) as progress:
        summary = train_model(loaded, overwrite=overwrite, progress=progress, floor=0)
    facts = summary.to_json()
    if push and hub_id is not None:
        from krill.training.saved_model import push_model

        facts["pushed"] = push_model(Path(str(summary.output)), hub_id)
    print_result(
        facts,
        display,
        lambda: _rows(facts),
        made="by the same config and data",
        then=_next(loaded, str(facts["output"])),
    )


def _next(config: KrillConfig, output: str) -> str:
    command = f"krill generate {shlex.quote(output)}"
    if not config.is_chat:
        return f'{command} --prompt "Once upon a time"'
    template = config.chat_template
    other = "" if template == "tokenizer_default" else f" --chat-template {shlex.quote(template)}"
    return f'{command} --chat{other} --prompt "Hello"'


def _rows(facts: Mapping[str, Any]) -> list[Row]:
    model, plan = facts["model"], facts["plan"]
    layers, heads = format_count(model["layers"], "layer"), format_count(model["heads"], "head")
    shape = f"{layers} of width {model['width']}, {heads}"
    cut = f" (each step in pieces of {plan['microbatch']} rows)"
    step = f"{facts['steps']:,} of {plan['rows']} rows, {facts['tokens']:,} tokens"
    return [
        ("model", f"{facts['parameters']:,} parameters: {shape}, {model['vocab_size']:,} tokens"),
        ("steps", step if plan["microbatch"] == plan["rows"] else step + cut),
        ("loss", _format_loss(facts)),
        ("speed", f"{facts['tokens_per_second'] or 0:,.0f} tokens/s"),
        ("time", format_duration(facts["seconds"])),
        ("memory", f"{format_memory(facts['budget'])}; the step {format_size(plan['step_bytes'])}"),
        ("output", str(facts["output"])),
        *([("pushed", facts["pushed"])] if "pushed" in facts else []),
    ]


def _format_loss(facts: Mapping[str, Any]) -> str:
    validation = facts["validation"]
    parts = [] if facts["final_loss"] is None else [f"{facts['final_loss']:.4f} in training"]
    if validation is not None:
        parts.append(f"{validation['loss']:.4f} on {validation['tokens']:,} tokens of validation")
    if facts["bits_per_byte"] is not None:
        parts.append(f"{facts['bits_per_byte']:.3f} bits per byte of {facts['bits_per_byte_on']} text")
    return ", ".join(parts)


def load_for_training(
    config: str | None,
    flags: TrainFlags,
    options: ConfigOptions,
    display: OutputOptions,
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
    loaded = load_config(_with_output_paths(loaded), overrides=options.set, **given)
    _make_missing(loaded, display, overwrite=overwrite)
    return loaded


def _with_output_paths(config: KrillConfig) -> dict[str, Any]:
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


def _make_missing(config: KrillConfig, display: OutputOptions, *, overwrite: bool) -> None:
    """A tokenizer and a dataset, where the run reads its own; finished ones are left as they are."""
    import yaml

    from krill.storage.atomic import write_bytes
    from krill.training.folder import check_ours

    folder = Path(config.train.output_dir)
    own_tokenizer = config.tokenizer.path == str(folder / "tokenizer")
    steps = [
        *(["train-tokenizer"] if own_tokenizer else []),
        *([] if config.train.streaming else ["preprocess"]),
    ]
    check_ours(folder)
    make_folder(folder)
    # The keys that were given and no defaults: some mean something only if they are given.
    given = config.model_dump(mode="json", exclude_unset=True)
    file = folder / "config.yaml"
    write_bytes(file, yaml.safe_dump(given, sort_keys=False, allow_unicode=True).encode())
    arguments = [str(file)]
    # With --json the result is that of the training alone.
    arguments += ["--quiet"] if display.quiet or display.json else []
    arguments += ["--overwrite"] if overwrite else []
    for step in steps:
        run_step(step, arguments, capture=False)
