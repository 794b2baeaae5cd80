"""Training a reader from end to end: features, plan, loop, export, manifest.

In: a cache of features, its tokenizer, settings. Out: a folder with the model, its metrics and its
checkpoints, and a summary. Held in memory: what the plan says: the program with JAX, the data's share, and
the step.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

import krill
from krill.budget import Meter, resident_bytes, resolve_limit, resolve_threads
from krill.budget.process import bounded_process
from krill.config import differing_keys
from krill.model import require_train_extra
from krill.threads.progress import Progress, Silent
from krill.training.folder import TrainFolder
from krill.training.qa.settings import ReaderSettings
from krill.training.xla import bound_xla

COMMAND: Final = "qa train"
SETTING: Final = "--output-dir"
_TOLD: Final = {"features": "the features", "tokenizer": "the tokenizer"}


@dataclass(frozen=True, slots=True)
class ReaderSummary:
    """The end of a training; `status` is "done", or "finished" if an earlier run had done everything."""

    status: str
    output: Path
    facts: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {"status": self.status, "output": str(self.output), **self.facts}


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
    started = time.monotonic()
    limit, count = resolve_limit(memory), resolve_threads(threads)
    with (
        bounded_process(count, parquet=False),
        Meter(limit, floor) as meter,
        TrainFolder(request.output, _differences, command=COMMAND, setting=SETTING) as folder,
    ):
        bound_xla(count, meter)
        # Not at the top: they import JAX, for which everything before needs not wait.
        from krill.training.qa.features import open_request
        from krill.training.qa.task import ReaderTask
        from krill.training.session import Session

        opened = open_request(request)
        run = _describe(opened.identity, request.settings)
        state = folder.decide(run, overwrite=overwrite, anew=False)
        if state == "finished":
            return ReaderSummary(state, request.output, _told(folder.manifest() or {}))
        session = Session(ReaderTask(opened), folder, meter, progress, run)
        facts = session.train(continues=state == "continue")
        manifest = {
            "format": 1,
            "command": COMMAND,
            **run,
            "seconds": round(time.monotonic() - started, 3),
            "continued": state == "continue",
            **facts,
            "budget": {**session.budget(), "threads": count},
        }
        folder.finish(manifest)
    return ReaderSummary("done", request.output, _told(manifest))


def _describe(identity: Mapping[str, Any], settings: ReaderSettings) -> dict[str, Any]:
    """What this run is: everything that shapes the model, and the hash of that."""
    run: dict[str, Any] = {
        "krill": krill.__version__,
        "config": {"reader": settings.shaping()},
        "inputs": dict(identity),
    }
    canonical = orjson.dumps(run, option=orjson.OPT_SORT_KEYS)
    return {**run, "identity": hashlib.sha256(canonical).hexdigest()}


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What makes a run another one than the one that was begun or finished here."""
    found = differing_keys(before.get("config", {}), now["config"])
    old, new = before.get("inputs", {}), now["inputs"]
    return found + [_TOLD.get(name, name) for name in {**old, **new} if old.get(name) != new.get(name)]


def _told(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What a summary says: the manifest without what only a later run needs."""
    return {name: value for name, value in manifest.items() if name not in ("config", "inputs")}
