"""Training from end to end: data, plan, loop, export, manifest.

In: a config. Out: a folder with the model in Hugging Face's Llama layout, its metrics and its checkpoints,
and a summary. Held in memory: what the plan says: the program with JAX, the data's share, and the step.
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
from krill.config import KrillConfig, differing_keys, load_config, to_dict
from krill.errors import ConfigError
from krill.faults import system_errors
from krill.model import require_train_extra
from krill.threads.progress import Progress, Silent
from krill.training.data import TrainData, open_data
from krill.training.folder import COMMAND, TrainFolder
from krill.training.metrics import check_loggers
from krill.training.xla import bound_xla

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


@dataclass(frozen=True, slots=True)
class TrainSummary:
    """The end of a training; `status` is "done", or "finished" if an earlier run had done everything."""

    status: str
    output: Path
    facts: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {"status": self.status, "output": str(self.output), **self.facts}


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
    started = time.monotonic()
    limit = resolve_limit(config.memory)
    threads = resolve_threads(config.threads)
    output = Path(config.train.output_dir)
    with (
        bounded_process(threads, parquet=False),
        Meter(limit, floor) as meter,
        TrainFolder(output, differences) as folder,
    ):
        data = open_data(config, limit)
        run = describe_run(config, data)
        state = folder.decide(run, overwrite=overwrite, anew=config.train.resume is False)
        if state == "finished":
            return TrainSummary(state, output, _told(folder.manifest() or {}))
        if state == "start" and config.train.resume is True:
            raise ConfigError(
                f"`train.resume` is `true`, and there is no checkpoint in `{output}`",
                hint="set it to `auto`, or `train.output_dir` to where the checkpoint is",
            )
        bound_xla(threads, meter)
        # Not at the top: it imports JAX, for which everything before it needs not wait.
        from krill.training.language_task import LanguageModelTask
        from krill.training.session import Session

        session = Session(LanguageModelTask(config, data), folder, meter, progress, run)
        facts = session.train(continues=state == "continue")
        manifest = {
            "format": 1,
            "krill": run["krill"],
            "command": COMMAND,
            "identity": run["identity"],
            "config": run["config"],
            "inputs": run["inputs"],
            "seconds": round(time.monotonic() - started, 3),
            "continued": state == "continue",
            **facts,
            "budget": {**session.budget(), "threads": threads},
            "settings": to_dict(config),
        }
        folder.finish(manifest)
    return TrainSummary("done", output, _told(manifest))


def describe_run(config: KrillConfig, data: TrainData) -> dict[str, Any]:
    """What this run is: everything that shapes the model, and the hash of that, its identity."""
    run: dict[str, Any] = {
        "krill": krill.__version__,
        "config": {
            "seed": config.seed,
            "train": config.train.model_dump(mode="json", exclude=_SHAPES_NOTHING),
        },
        "inputs": data.identity(),
    }
    canonical = orjson.dumps(run, option=orjson.OPT_SORT_KEYS)
    return {**run, "identity": hashlib.sha256(canonical).hexdigest()}


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What makes a run another one than the one that was begun or finished here."""
    found = differing_keys(before.get("config", {}), now["config"])
    told = {"rows": "the dataset's rows", "tokenizer": "the tokenizer's content", "input": "the input"}
    old, new = before.get("inputs", {}), now["inputs"]
    return found + [told.get(name, name) for name in {**old, **new} if old.get(name) != new.get(name)]


def _told(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What a summary says: the manifest without what only a later run needs."""
    return {name: value for name, value in manifest.items() if name not in ("config", "settings", "inputs")}
