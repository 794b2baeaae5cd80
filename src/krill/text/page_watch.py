"""A watch on pages whose extraction does not come to an end.

In: the pages that are being extracted, by thread or process. Out: nothing, while each takes less than a
minute of that one's own time. One that takes longer, in spite of all limits, ends the run with its address: a
command at once, for nothing can interrupt a library; in Python when the page is done, and a line in the
logger `krill` says meanwhile what is waited for. What decides is never the output: no page is dropped for the
time it takes.

Held in memory: an address for each thread.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from krill.budget.meter import owns_process
from krill.corpus.remote import report
from krill.errors import InputError, escape

LONGEST_SECONDS: Final = 60.0
_LOOKS_PER_PAGE: Final = 6


def too_slow(url: str, seconds: float) -> InputError:
    return InputError(
        f"the text of the page `{url}` was not found in {seconds:.0f} s",
        hint="leave the page out by `skip_urls:` in its entry of `datasets:`, and run the same command again",
    )


class PageWatch:
    """Watches the pages of one step; `seconds` is how long one may take."""

    def __init__(self, seconds: float = LONGEST_SECONDS) -> None:
        self._seconds = seconds
        self._begun: dict[int, tuple[str, float, int]] = {}
        self._lock = threading.Lock()
        self._process = 0
        """The process in which the watching thread runs: a fork has none."""

    @contextmanager
    def page(self, url: str, process: int = 0) -> Iterator[None]:
        """The body extracts the page at `url`, in this thread, or has another process do it."""
        thread = process or threading.get_native_id()
        begun = _seconds_of(thread, process) if process else time.thread_time()
        self._begun[thread] = url, begun, process
        if self._process != os.getpid():
            self._start()
        try:
            yield
        finally:
            del self._begun[thread]
        taken = (_seconds_of(thread, process) if process else time.thread_time()) - begun
        if taken > self._seconds:
            raise too_slow(url, taken)

    def _start(self) -> None:
        with self._lock:
            if self._process != os.getpid():
                self._process = os.getpid()
                threading.Thread(target=self._run, name="krill-pages", daemon=True).start()

    def _run(self) -> None:
        process = self._process
        while process == os.getpid():
            time.sleep(self._seconds / _LOOKS_PER_PAGE)
            for thread, (url, begun, other) in list(self._begun.items()):
                taken = _seconds_of(thread, other or process) - begun
                if taken > self._seconds and self._begun.get(thread) == (url, begun, other):
                    self._stop(too_slow(url, taken), other)

    def _stop(self, error: InputError, other: int) -> None:
        if not owns_process():
            report(error.message)
            return
        if other:  # while its library computes, it would not see that this process has ended
            with suppress(ProcessLookupError):
                os.kill(other, signal.SIGKILL)
        sys.stderr.write(f"error: {escape(str(error))}\n")
        sys.stderr.flush()
        os._exit(error.exit_code)


def _seconds_of(thread: int, process: int) -> float:
    """The processor's time that a thread of a process has taken; 0 if it has ended, or the system does not
    tell."""
    try:
        return int(Path(f"/proc/{process}/task/{thread}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
