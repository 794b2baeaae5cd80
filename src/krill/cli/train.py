"""`krill train`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from krill.budget import format_size
from krill.cli.formats import Row, format_count, format_duration, format_memory
from krill.cli.options import ConfigOptions, OutputOptions, Switch, VerifyOptions
from krill.cli.train_flags import TrainFlags, load_for_training
from krill.errors import ConfigError


def train(
    config: str | None = None,
    /,
    *,
    overwrite: Switch = False,
    push: Switch = False,
    flags: TrainFlags = TrainFlags(),  # noqa: B008  a frozen value, never changed
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
    from krill.training.job import run_train

    if not display.quiet:
        print_notices(loaded.notices)
    with watch(display, loaded.memory) as progress:
        summary = run_train(loaded, overwrite=overwrite, progress=progress)
    facts = summary.to_json()
    if push and hub_id is not None:
        from krill.training.saved_model import push_model

        facts["pushed"] = push_model(Path(str(summary.output)), hub_id)
    print_result(
        facts,
        display,
        lambda: _rows(facts),
        made="by the same config and data",
        then=f'krill generate {shlex.quote(str(facts["output"]))} --prompt "Once upon a time"',
    )


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
