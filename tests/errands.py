"""Small tasks for engines: an entry `errand` that every worker process knows, whoever starts it.

Workers know entries by name. These tasks are none of Krill's, so each Python that a test's engine starts gets
them from a `sitecustomize` on its path.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from krill.engines.contract import Resources, Task
from krill.errors import InputError

_AT_START = """
import krill.engines.entries
krill.engines.entries.ENTRIES["errand"] = ("errands", "run")
"""


def teach(monkeypatch, folder: Path) -> None:
    """Let all processes that this test starts know the entry `errand`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(_AT_START)
    paths = [str(folder), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in paths if path))


def errand(work: Path, number: int, does: str = "square", **more: Any) -> Task:
    """A task; `does` is one of the functions below."""
    return Task(f"errand {number}", {"work": str(work), "number": number, "does": does, **more})


def run(payload: Mapping[str, Any], resources: Resources) -> Mapping[str, Any]:
    """The entry."""
    _DOINGS[payload["does"]](payload)
    told = {"worker": os.getpid(), "memory": resources.memory, "threads": resources.threads}
    return {"square": payload["number"] ** 2, **told}


def _once(payload: Mapping[str, Any]) -> bool:
    """Whether this is the first time that the task runs."""
    try:
        (Path(payload["work"]) / f"ran-{payload['number']}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _die(payload: Mapping[str, Any]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _die_once(payload: Mapping[str, Any]) -> None:
    if _once(payload):
        _die(payload)


def _fail(payload: Mapping[str, Any]) -> None:
    raise RuntimeError(f"no luck with {payload['number']}")


def _fail_once(payload: Mapping[str, Any]) -> None:
    if _once(payload):
        _fail(payload)


def _refuse(payload: Mapping[str, Any]) -> None:
    raise InputError("the file `a.jsonl` is damaged", hint="get it again")


def _sleep(payload: Mapping[str, Any]) -> None:
    _once(payload)
    time.sleep(payload["seconds"])


_DOINGS = {
    "square": lambda payload: None,
    "die": _die,
    "die once": _die_once,
    "fail": _fail,
    "fail once": _fail_once,
    "refuse": _refuse,
    "sleep": _sleep,
}
