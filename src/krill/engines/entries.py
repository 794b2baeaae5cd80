"""The worker's side: from an entry's name and a payload to a result, or an error that can travel.

Payloads, results and errors are JSON: nothing is unpickled that another machine has sent, and only the
entries below can be called. A worker that has another Krill than the one that sends the work refuses it: the
two would not make the same bytes.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import orjson

import krill
from krill import errors
from krill.engines.contract import Resources, Task
from krill.errors import ConfigError, KrillError, StorageError

ENTRIES: Mapping[str, tuple[str, str]] = {
    "preprocess": ("krill.pipeline.worker", "run_task"),
    "tokenizer": ("krill.tokenizer.worker", "run_task"),
    "qa": ("krill.qa.worker", "run_task"),
}
"""What workers can be asked for: the module and the function, which takes a payload and `Resources`."""

Entry = Callable[[Mapping[str, Any], Resources], Mapping[str, Any]]


class TaskFault(Exception):
    """A task raised something that is no error of the user's: it may be worth another try."""


def packed(entry: str, task: Task, resources: Resources) -> bytes:
    """What is sent to a worker."""
    return orjson.dumps(
        {
            "krill": krill.__version__,
            "folder": None if task.anywhere else str(Path.cwd()),
            "entry": entry,
            "name": task.name,
            "payload": task.payload,
            "memory": resources.memory,
            "threads": resources.threads,
            "floor": resources.floor,
        }
    )


def perform(order: bytes) -> bytes:
    """Do what was sent; the result or the error, as bytes."""
    try:
        result = _call(orjson.loads(order))
    except KrillError as error:
        return orjson.dumps({"error": _described(error)})
    except Exception as error:
        import traceback

        told = "".join(traceback.format_exception(error)[-4:])
        return orjson.dumps({"fault": f"{type(error).__name__}: {error}", "trace": told})
    return orjson.dumps({"result": result}, option=orjson.OPT_SERIALIZE_NUMPY)


def unpacked(answer: bytes) -> Mapping[str, Any]:
    """The result that a worker sent; raises the error that it sent instead."""
    found = orjson.loads(answer)
    if "error" in found:
        raise _raised(found["error"])
    if "fault" in found:
        raise TaskFault(f"{found['fault']}\n{found['trace']}".rstrip())
    result = found["result"]
    assert isinstance(result, dict)
    return result


def _call(order: Mapping[str, Any]) -> Mapping[str, Any]:
    if order["krill"] != krill.__version__:
        raise ConfigError(
            f"the worker on `{platform.node()}` has Krill {krill.__version__}, the run was started with"
            f" {order['krill']}",
            hint="install the same version of krill-lm on all machines",
        )
    if order["folder"] is not None:
        _enter(order["folder"])
    module, name = ENTRIES[order["entry"]]
    entry: Entry = getattr(import_module(module), name)
    return entry(order["payload"], Resources(order["memory"], order["threads"], order["floor"]))


def _enter(folder: str) -> None:
    """Relative paths in the config are to mean here what they mean to whoever started the run."""
    try:
        os.chdir(folder)
    except OSError as error:
        raise StorageError(
            f"the worker on `{platform.node()}` can't enter `{folder}`: {error.strerror}",
            hint="start the run in a folder that all machines see under the same path",
        ) from None


def _described(error: KrillError) -> dict[str, Any]:
    return {"kind": type(error).__name__, "message": error.message, "hint": error.hint}


def _raised(described: Mapping[str, Any]) -> KrillError:
    kind: type[KrillError] = getattr(errors, described["kind"], KrillError)
    error = kind.__new__(kind)  # not every kind is made of a message and a hint
    KrillError.__init__(error, described["message"], hint=described["hint"])
    return error
