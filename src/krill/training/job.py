"""Training from end to end: data, plan, loop, export, manifest.

In: a config. Out: a folder with the model in Hugging Face's Llama layout, its metrics and its checkpoints,
and a summary. Held in memory: what the plan says: the program with JAX, the data's share, and the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import krill
from krill.budget import resident_bytes
from krill.budget.process import metered_process
from krill.config import KrillConfig, load_config, to_dict
from krill.errors import ConfigError
from krill.faults import system_errors
from krill.model import require_train_extra
from krill.storage.run import FINISHED, START, Run, RunSummary, identity_of, summarize
from krill.threads.progress import Progress, Silent
from krill.training.data import TrainData, open_data
from krill.training.folder import TrainFolder
from krill.training.metrics import check_loggers
from krill.training.xla import bound_xla

if TYPE_CHECKING:
    pass

TrainSummary = RunSummary[Mapping[str, Any]]

# Keys of `train:` that change neither the weights nor how they come about.
_SHAPES_NOTHING: Final = {
    "output_dir",
    "hub_model_id",
    "save_every",
    "keep_checkpoints",
    "log_every",
    "evaluate_every",
    "evaluate_rows",
    "loggers",
    "resume",
}


@system_errors()
def train(
    config: str | Path | Mapping[str, Any] | KrillConfig,
    *,
    memory: str | int | None = None,
    threads: int | str | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> TrainSummary:
    """Train the model that `config` describes.

    `memory` is how much this process may grow while it works. Calling it again on a training that was killed
    continues it from its last checkpoint; on a finished one it returns the same summary and does nothing.
    """
    loaded = load_config(config, memory=memory, threads=threads)
    return run_train(loaded, overwrite=overwrite, progress=progress or Silent(), floor=resident_bytes())


def run_train(config: KrillConfig, *, overwrite: bool, progress: Progress, floor: int = 0) -> TrainSummary:
    """The same for the command line, where `floor` is 0: the budget is the whole process."""
    require_train_extra()
    check_loggers(config.train.loggers)
    output = Path(config.train.output_dir)
    folder = TrainFolder(output)
    with metered_process(config.memory, config.threads, floor=floor) as meter, Run(folder) as run:
        data = open_data(config, meter.limit)
        described = describe_run(config, data)
        state = run.begin(described, overwrite=overwrite, anew=config.train.resume is False)
        if state == FINISHED:
            return summarize(FINISHED, output, folder.finished() or {})
        if state == START and config.train.resume is True:
            raise ConfigError(
                f"`train.resume` is `true`, and there is no checkpoint in `{output}`",
                hint="set it to `auto`, or `train.output_dir` to where the checkpoint is",
            )
        bound_xla(meter.threads, meter)
        # Not at the top: it imports JAX, for which everything before it needs not wait.
        from krill.training.language_task import LanguageModelTask
        from krill.training.session import train_task

        task = LanguageModelTask(config, data)
        return train_task(task, run, folder, meter, progress, described, to_dict(config))


def describe_run(config: KrillConfig, data: TrainData) -> dict[str, Any]:
    """What this run is: everything that shapes the model, and the hash of that, its identity."""
    shaping: dict[str, Any] = {
        "krill": krill.__version__,
        "config": {
            "seed": config.seed,
            "train": config.train.model_dump(mode="json", exclude=_SHAPES_NOTHING),
        },
        "inputs": data.identity(),
    }
    return {**shaping, "identity": identity_of(shaping)}
