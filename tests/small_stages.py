"""Runs of small stages for engines: a kind of job, `squares`, that every worker process knows.

Workers know kinds of jobs by name. This one is none of Krill's, so each Python that a test's engine starts
gets it from a `sitecustomize` on its path.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from krill.engines import Resources, Stage, WorkerSpec
from krill.engines.worker import KINDS, WorkerRun
from krill.errors import InputError
from krill.storage import CommitLog

_AT_START = """
import krill.engines.worker
krill.engines.worker.KINDS["squares"] = "small_stages"
"""


def teach(monkeypatch, folder: Path) -> None:
    """Let this process and all that it starts know the kind `squares`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(_AT_START)
    paths = [str(folder), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in paths if path))
    monkeypatch.setitem(KINDS, "squares", "small_stages")


class Squares(Stage):
    """Squares the numbers of its tasks; `does` says what else becomes of each."""

    def __init__(self, work: Path, name: str, does: list[str], resources: Resources | None = None) -> None:
        super().__init__(name, lambda name: CommitLog(work / name))
        self._work = work
        self._does = does
        self._resources = resources

    def tasks(self) -> Iterable[int]:
        return range(len(self._does))

    def run(self, tasks: Iterable[int]) -> None:
        log = self.log
        for number in tasks:
            _DOINGS[self._does[number].partition(" for ")[0]](self._work, number, self._does[number])
            assert self._resources is not None, "this is a worker's work"
            used = {"memory": self._resources.memory, "threads": self._resources.threads}
            log.commit(number, {"square": number**2, "worker": os.getpid(), **used})

    def results(self, name: str = "square") -> list[Any]:
        return [record[name] for _, record in self.log]


def write_run(work: Path, resources: Resources, *stages: list[str]) -> tuple[WorkerSpec, list[Squares]]:
    """A run of stages whose tasks do these things, and what a worker must know of it."""
    work.mkdir(exist_ok=True, parents=True)
    (work / "stages.json").write_text(json.dumps(stages))
    made = [Squares(work, f"stage-{number}", does) for number, does in enumerate(stages)]
    return WorkerSpec("squares", str(work), "", resources), made


def open_run(address: str, identity: str, resources: Resources, workers: int, held: ExitStack) -> WorkerRun:
    work = Path(address)
    stages = json.loads((work / "stages.json").read_text())
    return WorkerRun(
        [Squares(work, f"stage-{number}", does, resources) for number, does in enumerate(stages)]
    )


def _once(work: Path, number: int) -> bool:
    """Whether this is the first time that the task runs."""
    try:
        (work / f"ran-{number}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _die(work: Path, number: int, does: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _die_once(work: Path, number: int, does: str) -> None:
    if _once(work, number):
        _die(work, number, does)


def _fail(work: Path, number: int, does: str) -> None:
    raise RuntimeError(f"no luck with {number}")


def _fail_once(work: Path, number: int, does: str) -> None:
    if _once(work, number):
        _fail(work, number, does)


def _refuse(work: Path, number: int, does: str) -> None:
    raise InputError("the file `a.jsonl` is damaged", hint="get it again")


def _sleep(work: Path, number: int, does: str) -> None:
    _once(work, number)
    time.sleep(float(does.partition(" for ")[2]))


_DOINGS = {
    "square": lambda *given: None,
    "die": _die,
    "die once": _die_once,
    "fail": _fail,
    "fail once": _fail_once,
    "refuse": _refuse,
    "sleep": _sleep,
}
