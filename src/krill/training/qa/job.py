"""Training a reader from end to end: features, plan, loop, export, manifest.

In: a cache of features, its tokenizer, settings. Out: a folder with the model, its metrics and its
checkpoints, and a summary. Held in memory: what the plan says: the program with JAX, the data's share, and
the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import krill
from krill.budget import resident_bytes
from krill.budget.process import metered_process
from krill.model import require_train_extra
from krill.storage.run import FINISHED, Run, RunSummary, identity_of, summarize
from krill.threads.progress import Progress, Silent
from krill.training.folder import TrainFolder
from krill.training.qa.settings import ReaderSettings
from krill.training.xla import bound_xla

COMMAND: Final = "qa train"
SETTING: Final = "--output-dir"
ReaderSummary = RunSummary[Mapping[str, Any]]


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

    `memory` is how much this process may grow above `floor`, by default what it holds now; a command gives 0.
    Calling it again on a training that was killed
    continues it from its last checkpoint; on a finished one it returns the same summary and does nothing.
    With `verify`, features are held against their checksums when they are first read.
    """
    require_train_extra("training a reader")
    folder = TrainFolder(Path(output_dir), command=COMMAND, setting=SETTING)
    held = resident_bytes() if floor is None else floor
    with metered_process(memory, threads, floor=held) as meter, Run(folder) as run:
        bound_xla(meter.threads, meter)
        # Not at the top: they import JAX, for which everything before needs not wait.
        from krill.training.qa.features import open_features
        from krill.training.qa.task import ReaderTask
        from krill.training.session import train_task

        opened = open_features(features, tokenizer, evaluation, settings, verify=verify)
        described = describe_run(opened.identity, settings)
        if run.begin(described, overwrite=overwrite) == FINISHED:
            return summarize(FINISHED, folder.output, folder.finished() or {})
        return train_task(ReaderTask(opened), run, folder, meter, progress or Silent(), described)


def describe_run(identity: Mapping[str, Any], settings: ReaderSettings) -> dict[str, Any]:
    """What this run is: everything that shapes the model, and the hash of that."""
    shaping: dict[str, Any] = {
        "krill": krill.__version__,
        "config": {"reader": settings.shaping()},
        "inputs": dict(identity),
    }
    return {**shaping, "identity": identity_of(shaping)}
