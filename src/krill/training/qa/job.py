"""Training a reader from end to end: features, plan, loop, export, manifest.

In: a cache of features, its tokenizer, settings. Out: a folder with the model, its metrics and its
checkpoints, and a summary. Held in memory: what the plan says: the program with JAX, the data's share, and
the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import krill
from krill.budget import resident_bytes
from krill.budget.process import metered_process
from krill.model import require_train_extra
from krill.storage.run import FINISHED, Run, RunSummary, identity_of, summarize
from krill.threads.progress import Progress, Silent
from krill.training.folder import TrainFolder
from krill.training.job import train_and_publish
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
) -> ReaderSummary:
    """Train a reader on the cache `features`; `evaluation` is a cache that it is scored on meanwhile.

    `memory` is how much this process may grow while it works. Calling it again on a training that was killed
    continues it from its last checkpoint; on a finished one it returns the same summary and does nothing.
    With `verify`, features are held against their checksums when they are first read.
    """
    request = TrainRequest(
        Path(features),
        tokenizer,
        Path(output_dir),
        None if evaluation is None else Path(evaluation),
        settings,
        verify,
    )
    return run_train(
        request,
        memory=memory,
        threads=threads,
        overwrite=overwrite,
        progress=progress or Silent(),
        floor=resident_bytes(),
    )


@dataclass(frozen=True, slots=True)
class TrainRequest:
    """What is trained on what, and where it goes."""

    features: Path
    tokenizer: str | Path
    output: Path
    evaluation: Path | None
    settings: ReaderSettings
    verify: bool = True


def run_train(
    request: TrainRequest,
    *,
    memory: str | int,
    threads: int | str,
    overwrite: bool,
    progress: Progress,
    floor: int = 0,
) -> ReaderSummary:
    """The same for the command line, where `floor` is 0: the budget is the whole process."""
    require_train_extra("training a reader")
    folder = TrainFolder(request.output, command=COMMAND, setting=SETTING)
    with metered_process(memory, threads, floor=floor) as meter, Run(folder) as run:
        bound_xla(meter.threads, meter)
        # Not at the top: they import JAX, for which everything before needs not wait.
        from krill.training.qa.features import open_request
        from krill.training.qa.task import ReaderTask
        from krill.training.session import Session

        opened = open_request(request)
        described = describe_run(opened.identity, request.settings)
        if run.begin(described, overwrite=overwrite) == FINISHED:
            return summarize(FINISHED, request.output, folder.finished() or {})
        session = Session(ReaderTask(opened), folder, meter, progress, described)
        return train_and_publish(session, run, meter)


def describe_run(identity: Mapping[str, Any], settings: ReaderSettings) -> dict[str, Any]:
    """What this run is: everything that shapes the model, and the hash of that."""
    shaping: dict[str, Any] = {
        "krill": krill.__version__,
        "config": {"reader": settings.shaping()},
        "inputs": dict(identity),
    }
    return {**shaping, "identity": identity_of(shaping)}
