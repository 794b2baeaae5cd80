"""The worker's side of a run, whatever engine started it: from a request to committed tasks.

In: a request, which says what kind of job it is, where the run is and what to do of it: some tasks of a
stage, or a rank's share of all stages. Out: the tasks, committed, and a few figures, or an error, as JSON.
Held in memory: what a stage holds and, from one request to the next, the run.

Requests, results and errors are JSON, and only the kinds below can be opened. A worker that has another Krill
than the one that sends the work refuses it: the two would not make the same bytes. A worker keeps no lock and
publishes nothing: whoever started the run does.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import orjson

import krill
from krill import _native
from krill.budget.meter import peak_bytes
from krill.engines.engine import SPEC_FILE, Resources, WorkerSpec
from krill.engines.rank import Rank, RankEngine
from krill.engines.stage import Stage
from krill.errors import ConfigError, KrillError, StorageError, decode_error, encode_error
from krill.storage.atomic import write_bytes
from krill.storage.input_file import MOST_MANIFEST, read_json
from krill.storage.run import RUN
from krill.threads.processes import end_with
from krill.threads.progress import Silent

KINDS: dict[str, str] = {
    "preprocess": "krill.pipeline.worker",
    "tokenizer": "krill.tokenizer.distributed",
    "qa": "krill.qa.feature_stage",
}
"""The kinds of jobs: the module whose `open_run(address, identity, resources, workers, held)` gives a
`WorkerRun`."""


class CountedProgress(Silent):
    """Progress that is only added up: it is sent back at the end of a request."""

    done = 0

    def advance(self, done: int) -> None:
        self.done += done


@dataclass(frozen=True, slots=True)
class WorkerRun:
    """A run as a worker holds it: its stages in order, what they count, and how to end what one request
    needed."""

    stages: Sequence[Stage]
    progress: CountedProgress = field(default_factory=CountedProgress)
    kept: Callable[[], int] = lambda: 0
    """Bytes that the stages kept on disk so far."""
    end_request: Callable[[], None] = lambda: None


def encode_request(spec: WorkerSpec, **what: Any) -> bytes:
    """A request: `stage` and `tasks`, or `world`, which is how many ranks share all stages."""
    folder = None if spec.anywhere else str(Path.cwd())
    return orjson.dumps({"krill": krill.__version__, "folder": folder, **asdict(spec), **what})


def handle_request(request: bytes, rank: RankEngine | None = None) -> bytes:
    """Do what was sent, of all stages what is this rank's; the result, or an error that a user can mend."""
    try:
        return orjson.dumps({"result": _handle(orjson.loads(request), rank)})
    except KrillError as error:
        return orjson.dumps({"error": encode_error(error)})


def decode_result(content: bytes) -> Mapping[str, Any]:
    """The result that a worker sent; raises the error that it sent instead."""
    found = orjson.loads(content)
    if "error" in found:
        raise decode_error(found["error"])
    result = found["result"]
    assert isinstance(result, dict)
    return result


def release() -> None:
    """Let go of what is kept from one request to the next."""
    global _kept
    if _kept is not None:
        _kept[2].close()
        _kept = None


def load_run(address: str, identity: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a run in a folder is, and what a worker must know of it."""
    run, spec = _read(Path(address) / RUN), _read(Path(address) / SPEC_FILE)
    check_identity(run, address, identity)
    return run, spec


def check_identity(run: Mapping[str, Any], address: str, identity: str) -> None:
    if run.get("identity") != identity:
        raise StorageError(
            f"`{address}` belongs to another run than this task", hint="start the command again"
        )


def _handle(request: Mapping[str, Any], rank: RankEngine | None) -> Mapping[str, Any]:
    if request["krill"] != krill.__version__:
        raise ConfigError(
            f"the worker on `{platform.node()}` has Krill {krill.__version__}, the run was started with"
            f" {request['krill']}",
            hint="install the same version of krill-lm on all machines",
        )
    if request["folder"] is not None:
        _enter(request["folder"])
    try:
        run = _opened(request)
        kept, run.progress.done = run.kept(), 0
        if rank is None:
            for stage in run.stages:
                if stage.name == request["stage"] and request["tasks"]:
                    stage.run(stage.missing(request["tasks"]))
        else:
            for stage in run.stages:
                rank.run(stage)
                stage.finish()
                run.end_request()
                _native.trim()
        run.end_request()
    except BaseException:
        release()  # its threads were stopped, and would stop whatever comes next
        raise
    return {"bytes": run.progress.done, "kept": run.kept() - kept, "peak": peak_bytes()}


_kept: tuple[tuple[Any, ...], WorkerRun, ExitStack] | None = None


def _opened(request: Mapping[str, Any]) -> WorkerRun:
    """The run, in this process; another one is let go."""
    global _kept
    resources = Resources(**request["resources"])
    key = (request["address"], request["identity"], resources, request.get("world", 2))
    if _kept is None or _kept[0] != key:
        release()
        with ExitStack() as stack:
            run = import_module(KINDS[request["kind"]]).open_run(*key, stack)
            _kept = key, run, stack.pop_all()
    _native.trim()  # what the request before has freed, so that a plan has it
    return _kept[1]


def _enter(folder: str) -> None:
    """Relative paths in the config are to mean here what they mean to whoever started the run."""
    try:
        os.chdir(folder)
    except OSError as error:
        raise StorageError(
            f"the worker on `{platform.node()}` can't enter `{folder}`: {error.strerror}",
            hint="start the run in a folder that all machines see under the same path",
        ) from None


def _read(path: Path) -> dict[str, Any]:
    try:
        found = read_json(path, MOST_MANIFEST)
    except (OSError, ValueError) as error:
        raise StorageError(
            f"the worker on `{platform.node()}` can't read `{path}`: {error}",
            hint="put the output and `spill_dir` into folders that all machines see under the same paths",
        ) from None
    assert isinstance(found, dict)
    return found


def main() -> None:
    """The process of a rank: `REQUEST NUMBER`. Its driver touches the file of the request while it lives, and
    finds the result beside it."""
    path, number = Path(sys.argv[1]), int(sys.argv[2])
    request = path.read_bytes()
    asked = orjson.loads(request)
    if asked["driver"] is not None:
        end_with(asked["driver"])
    rank = RankEngine(Rank(number, asked["world"]), alive=lambda: path.stat().st_mtime)
    write_bytes(path.with_name(f"result-{number}"), handle_request(request, rank))
