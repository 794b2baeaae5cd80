"""Training from end to end: data, plan, loop, export, manifest; of a language model, and of a reader.

In: a config; or a cache of features, its tokenizer and settings. Out: a folder with the model, its metrics
and its checkpoints, and a summary. Held in memory: what the plan says: the program with JAX, the share of the
data, and the step.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import krill
from krill.budget import resident_bytes
from krill.budget.process import metered_process
from krill.config import KrillConfig, load_config, to_dict
from krill.errors import ConfigError, InputError
from krill.faults import system_errors
from krill.model import require_train_extra
from krill.storage.input_file import open_regular
from krill.storage.run import FINISHED, START, Run, RunSummary, identity_of, summarize
from krill.threads.progress import Progress, Silent
from krill.training.data import TrainData, open_data
from krill.training.folder import TrainFolder
from krill.training.metrics import check_loggers
from krill.training.qa.settings import ReaderSettings
from krill.training.xla import bound_xla

TrainSummary = RunSummary[Mapping[str, Any]]
ReaderSummary = RunSummary[Mapping[str, Any]]

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
    floor: int | None = None,
) -> TrainSummary:
    """Train the model that `config` describes.

    `memory` is how much this process may grow above `floor`, by default what it holds now; a command gives 0.
    Calling it again on a training that was killed continues it from its last checkpoint; on a finished one it
    returns the same summary and does nothing.
    """
    loaded = load_config(config, memory=memory, threads=threads)
    require_train_extra()
    check_loggers(loaded.train.loggers)
    folder = TrainFolder(Path(loaded.train.output_dir))
    held = resident_bytes() if floor is None else floor
    with metered_process(loaded.memory, loaded.threads, floor=held) as meter, Run(folder) as run:
        data = open_data(loaded, meter.limit)
        anew = loaded.train.resume is False
        state = run.begin(describe_run(loaded, data), overwrite=overwrite, anew=anew)
        if state == FINISHED:
            return summarize(FINISHED, folder.output, folder.finished() or {})
        if state == START and loaded.train.resume is True:
            raise ConfigError(
                f"`train.resume` is `true`, and there is no checkpoint in `{folder.output}`",
                hint="set it to `auto`, or `train.output_dir` to where the checkpoint is",
            )
        bound_xla(meter.threads, meter)
        # Not at the top: it imports JAX, for which everything before it needs not wait.
        from krill.training.language_task import LanguageModelTask
        from krill.training.session import Session

        task = LanguageModelTask(loaded, data)
        return Session(task, run, folder, meter, progress or Silent()).train(to_dict(loaded))


def train_reader(
    features: str | Path,
    *,
    tokenizer: str | Path,
    output_dir: str | Path,
    evaluation: str | Path | None = None,
    settings: ReaderSettings = ReaderSettings(),  # noqa: B008  a frozen value, never changed
    memory: str | int = "auto",
    threads: int | str = "auto",
    overwrite: bool = False,
    verify: bool = True,
    progress: Progress | None = None,
    floor: int | None = None,
) -> ReaderSummary:
    """Train a reader on the cache `features`; `evaluation` is a cache that it is scored on meanwhile.

    `memory`, `floor` and calling it again are as in `train`. With `verify`, features are verified against
    their checksums when they are first read.
    """
    require_train_extra("training a reader")
    folder = TrainFolder(Path(output_dir), command="qa train", setting="--output-dir")
    held = resident_bytes() if floor is None else floor
    with metered_process(memory, threads, floor=held) as meter, Run(folder) as run:
        bound_xla(meter.threads, meter)
        # Not at the top: they import JAX, for which everything before needs not wait.
        from krill.training.qa.task import ReaderTask
        from krill.training.session import Session

        task = ReaderTask(features, tokenizer, evaluation, settings, verify=verify)
        if run.begin(describe_reader_run(task.identity, settings), overwrite=overwrite) == FINISHED:
            return summarize(FINISHED, folder.output, folder.finished() or {})
        return Session(task, run, folder, meter, progress or Silent()).train()


def describe_run(config: KrillConfig, data: TrainData) -> dict[str, Any]:
    """What this run is: everything that shapes the model, and the hash of that, its identity."""
    settings = config.train.model_dump(mode="json", exclude=_SHAPES_NOTHING)
    inputs = data.identity()
    base = settings["base_model"]
    if base is None:  # as it was before there was such a key
        del settings["base_model"]
    else:
        inputs = {**inputs, "base_model": base_fingerprint(base)}
    return _described({"seed": config.seed, "train": settings}, inputs)


def base_fingerprint(path: str) -> str:
    """Of the weights that training begins with."""
    weights = Path(path) / "model.safetensors"
    try:
        with open_regular(weights) as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(
            f"can't read the weights `{weights}` of `train.base_model`: {error.strerror}",
            hint="set it to the folder of a finished model",
        ) from None


def describe_reader_run(inputs: Mapping[str, Any], settings: ReaderSettings) -> dict[str, Any]:
    return _described({"reader": settings.shaping()}, inputs)


def _described(config: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    shaping = {"krill": krill.__version__, "config": config, "inputs": dict(inputs)}
    return {**shaping, "identity": identity_of(shaping)}
