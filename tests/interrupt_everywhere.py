"""`python interrupt_everywhere.py STRIDE WHERE ARGUMENTS...`: run `krill ARGUMENTS`, and see for every
STRIDE-th line of Python that it reaches in files with WHERE in their path, until it starts threads, what
Ctrl-C does there.

At each of them a child is forked that is interrupted there. A line is printed for each that does not end as
an interrupt does, and one with their number.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from types import FrameType
from typing import Any

PATIENCE = 60.0


class Points:
    def __init__(self, stride: int, where: str) -> None:
        self._stride, self._where, self._next = stride, where, 0
        self._seen: set[tuple[str, int]] = set()
        self._forks = self._faults = 0
        self._out = os.dup(1)

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        point = frame.f_code.co_filename, frame.f_lineno
        if event != "line" or point in self._seen or self._where not in point[0]:
            return self.trace
        if point[0].endswith(("logging/__init__.py", "_weakrefset.py")):
            return self.trace  # a copy made inside `logging` has another lock than it is about to release
        if signal.getsignal(signal.SIGHUP) in (signal.SIG_DFL, signal.SIG_IGN):
            return self.trace  # the command does not handle any of them yet
        self._seen.add(point)
        if len(self._seen) < self._next:
            return self.trace
        if threading.active_count() > 1:
            self.end()
            return None
        self._next += self._stride
        sys.settrace(None)
        self._forks += 1
        log = tempfile.TemporaryFile()  # noqa: SIM115  a `with` would close it in the child, too
        child = os.fork()
        if not child:
            above: FrameType | None = frame
            while above is not None:
                above.f_trace, above = None, above.f_back
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            signal.raise_signal(signal.SIGINT)
            return None
        code = self._wait(child)
        log.seek(0)
        printed = log.read().decode(errors="replace")
        log.close()
        if code != 130 or "Traceback" in printed or "gnored" in printed:
            self._faults += 1
            self._say(f"{point[0]}:{point[1]}: exit code {code}\n{printed[-2000:]}")
        sys.settrace(self.trace)
        return self.trace

    def _wait(self, child: int) -> int:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.0003)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return -signal.SIGALRM

    def end(self) -> None:
        sys.settrace(None)
        self._say(f"{self._forks} interrupts, {self._faults} faults")
        os._exit(bool(self._faults))

    def _say(self, text: str) -> None:
        os.write(self._out, f"{text}\n".encode())


if __name__ == "__main__":
    points = Points(int(sys.argv[1]), sys.argv[2])
    sys.argv = ["krill", *sys.argv[3:]]
    from krill.cli import main

    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.settrace(points.trace)
    main()
