"""`krill train`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from krill.cli.options import ConfigOptions, OutputOptions, VerifyOptions
from krill.cli.train_flags import TrainFlags
from krill.errors import ConfigError


def train(
    config: str | None = None,
    /,
    *,
    overwrite: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    push: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    flags: TrainFlags = TrainFlags(),  # noqa: B008  a frozen value, never changed
    options: ConfigOptions = ConfigOptions(),  # noqa: B008
    believed: VerifyOptions = VerifyOptions(),  # noqa: B008
    output: OutputOptions = OutputOptions(),  # noqa: B008
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
    from krill.cli.screen import over_budget, print_json, print_notices
    from krill.cli.screen_train import print_training
    from krill.cli.train_steps import load_for_training

    loaded = load_for_training(config, flags, options, output, overwrite=overwrite, verify=believed.key)
    hub_id = loaded.train.hub_model_id
    if push and hub_id is None:
        raise ConfigError(
            "--push needs a name on the hub, and the config has none", hint="set `train.hub_model_id`"
        )
    from krill.budget import resolve_limit
    from krill.training.job import run_train

    if not output.quiet:
        print_notices(loaded.notices)
    with watch(output, limit=resolve_limit(loaded.memory)) as progress:
        summary = run_train(loaded, overwrite=overwrite, progress=progress)
    facts = summary.to_json()
    if summary.status == "done" and facts["budget"]["measured_peak"] > facts["budget"]["limit"]:
        print_notices([over_budget(facts["budget"])])
    if push and hub_id is not None:
        from krill.training.saved_model import push_model

        facts["pushed"] = push_model(summary.output, hub_id)
    if output.json:
        print_json(facts)
    elif not output.quiet:
        print_training(facts)
