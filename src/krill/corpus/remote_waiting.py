"""Signs of life while a server is waited for.

In: what is waited for. Out: a line on the standard error when that takes long, and again every ten seconds,
through the logger `krill`, so that a program that uses Krill can have them elsewhere. Held in memory: a name
for each thread that waits.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from krill.corpus.remote_faults import shown_url

SAID_EVERY: Final = 10.0

_logger: Final = logging.getLogger("krill")

# Of a line: an address may be thousands of characters long, and is said again and again.
_LONGEST: Final = 600


def say(line: str) -> None:
    """One line about something that is not an error yet; of a long one, its beginning and its end."""
    if len(line) > _LONGEST:
        line = f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 2 :]}"
    _logger.warning("%s", line)


def wait(seconds: float, url: str) -> None:
    """Let time pass, with a sign of life."""
    end = time.monotonic() + seconds
    with waiting(url):
        while (left := end - time.monotonic()) > 0:
            time.sleep(left)


@contextmanager
def waiting(url: str) -> Iterator[None]:
    """Says that a server is waited for, if it is for long."""
    thread = threading.get_ident()
    _watch.begin(thread, url)
    try:
        yield
    finally:
        _watch.end(thread)


class _Watch:
    """One thread for all that wait, begun with the first of them; it ends when nobody does for a while."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: dict[int, tuple[float, str]] = {}
        self._process = 0
        """The process in which the thread runs: a fork has none."""

    def begin(self, thread: int, url: str) -> None:
        self._since[thread] = time.monotonic(), url
        if self._process != os.getpid():
            with self._lock:
                if self._process != os.getpid():
                    self._process = os.getpid()
                    threading.Thread(target=self._run, name="krill-waiting", daemon=True).start()

    def end(self, thread: int) -> None:
        self._since.pop(thread, None)

    def _run(self) -> None:
        said: dict[int, float] = {}
        idle = 0.0
        while True:
            time.sleep(1)
            now = time.monotonic()
            held = dict(self._since)
            for thread, (since, url) in held.items():
                if now - max(since, said.get(thread, 0.0)) >= SAID_EVERY - 1:
                    said[thread] = now
                    say(f"waiting for `{shown_url(url)}` for {now - since:.0f} s")
            idle = 0.0 if held else idle + 1
            with self._lock:
                if idle > SAID_EVERY and not self._since:
                    self._process = 0
                    return


_watch: Final = _Watch()
