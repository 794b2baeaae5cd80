"""Signs of life: a file that a process touches while it lives, and others listen to.

In: a path in a folder that both sides see. Out: whether the process behind it still lives. On the same
machine that is known at once, from its number; elsewhere a file that stands still for minutes means death.
Clocks need not agree, as only the change of the file's time counts. Held in memory: two numbers, and a
sleeping thread in the process that touches.
"""

from __future__ import annotations

import os
import platform
import threading
import time
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Self

import orjson
import psutil

from krill.storage.atomic import write_json

BEAT_SECONDS = 10.0
"""How often a living process touches its file."""
SILENT_SECONDS = 180.0
"""How long a file may stand still: a network file system may show a change after a minute."""


class Life(Enum):
    """What a listener knows."""

    ABSENT = "absent"
    ALIVE = "alive"
    DEAD = "dead"


class Pulse:
    """Touches `path` while the body of the `with` runs; then the file goes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="krill-pulse", daemon=True)

    def __enter__(self) -> Self:
        write_json(self._path, {"place": _place(), "process": os.getpid()})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        with suppress(OSError):
            self._path.unlink()

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            # A folder that is gone, or storage that is away for a moment: silence says enough.
            with suppress(OSError):
                os.utime(self._path)


class Listener:
    """Asked again and again whether the process behind `path` lives."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._owner: tuple[str, int] | None = None
        self._time = -1
        self._heard = 0.0

    def life(self) -> Life:
        """What is known now."""
        try:
            touched = self._path.stat().st_mtime_ns
            if self._owner is None:
                found = orjson.loads(self._path.read_bytes())
                self._owner = (found["place"], found["process"])
        except FileNotFoundError:
            return Life.ABSENT
        except OSError:
            touched = self._time  # storage that is away for a moment: as if nothing had changed
        if touched != self._time or not self._heard:
            self._time, self._heard = touched, time.monotonic()
        if self._owner is not None and self._owner[0] == _place() and not _runs(self._owner[1]):
            return Life.DEAD
        return Life.DEAD if time.monotonic() - self._heard > SILENT_SECONDS else Life.ALIVE


def _place() -> str:
    """Where process numbers mean the same: a machine, and on it one namespace of processes."""
    try:
        return f"{platform.node()} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return platform.node()


def _runs(process: int) -> bool:
    try:
        return bool(psutil.Process(process).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
