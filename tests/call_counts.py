"""How many calls something takes: what seconds can't tell on a machine that others use."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any


def calls_of(work: Callable[[], Any]) -> int:
    """Calls into Python functions and into compiled ones, made from Python, while `work` runs once."""
    work()  # what is imported or remembered the first time
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    gc.disable()  # others may have asked to be called at each collection
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls
