"""The hand of a worker: a process that does what it is given, and may die.

In: orders, through a pipe. Out: answers, the same way; the answer to an order that it did not survive says
so, and the next one gets a new process. It holds Krill and nothing of datatrove's or Ray's, so that its
memory is that of the command; and as soon as its worker is gone, it is gone too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection

import orjson

# How soon each side sees that the other is gone.
_LOOK_SECONDS = 1.0


class Hand:
    """The worker's end: starts the process when there is something to do."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None

    def perform(self, order: bytes, wanted: Callable[[], bool]) -> bytes | None:
        """The answer; None if it is not `wanted` any more."""
        if self._process is None or self._pipe is None:
            self._process, self._pipe = _start()
        try:
            self._pipe.send_bytes(order)
            while not self._pipe.poll(_LOOK_SECONDS):
                if not wanted():
                    self.close()
                    return None
            return self._pipe.recv_bytes()
        except (EOFError, OSError):
            code = self._process.wait()
            self.close()
            return orjson.dumps({"fault": f"the process that ran it {ended_with(code)}", "trace": ""})

    def close(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None and self._pipe is not None:
            self._process.kill()
            self._process.wait()
            self._pipe.close()
        self._process = self._pipe = None


def ended_with(code: int) -> str:
    """What the return code of a process says."""
    return f"ended with the code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"


def _start() -> tuple[subprocess.Popen[bytes], Connection]:
    near, far = Pipe()
    with far:
        command = [sys.executable, "-m", "krill.engines.datatrove_hand", str(far.fileno())]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[far.fileno()]), near


def _serve(pipe: Connection) -> None:
    """The process's end: one order after the other, until the worker hangs up."""
    from krill.engines.entries import perform

    threading.Thread(target=_leave_with, args=[os.getppid()], daemon=True).start()
    try:
        while True:
            pipe.send_bytes(perform(pipe.recv_bytes()))
    except EOFError:
        return


def _leave_with(worker: int) -> None:
    while os.getppid() == worker:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
