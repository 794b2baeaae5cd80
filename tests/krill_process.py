"""A `krill` command in a process of its own, to be killed or interrupted; another one continues its run."""

from __future__ import annotations

import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import preloaded
from conftest import KRILL

PATIENCE = 60


class KrillProcess:
    """`krill ARGUMENTS` (or the Python `script`) in a folder, where it writes its output `out`.

    With `fresh=True` its imports are a part of it; `server` is as of `preloaded.launch`.
    """

    def __init__(
        self,
        folder: Path,
        *arguments: object,
        script: str | None = None,
        fresh: bool = False,
        server: socket.socket | None = None,
    ) -> None:
        self.work = folder / ".out.krill"
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115  lives as long as this
        if fresh:
            self.process = subprocess.Popen(
                [KRILL, *map(str, arguments)],
                cwd=folder,
                stdout=self.log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # Whoever started the tests in the background has left Ctrl-C ignored; children inherit that.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
        else:
            log = self.log.fileno()
            self.process = preloaded.launch(
                arguments, cwd=folder, out=log, err=log, script=script, server=server
            )

    def wait_until_begun(self) -> None:
        """Until it holds the lock."""
        lock = self.work / "lock"
        self.wait_until(lambda: lock.exists() and lock.read_text() == str(self.process.pid))

    def wait_until(self, reached: Callable[[], bool]) -> None:
        """Until something is so, or it has ended."""
        deadline = time.monotonic() + PATIENCE
        while not reached() and self.process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.001)

    def kill_after(self, seconds: float) -> bool:
        """Kill it so many seconds after it has begun; whether it was still running."""
        self.wait_until_begun()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
        return self.wait() == -signal.SIGKILL

    def kill(self) -> None:
        """Kill it, which must still be running, and see it end."""
        self.process.kill()
        assert self.wait() == -signal.SIGKILL

    def wait(self) -> int:
        """Its exit code, or minus the signal that ended it."""
        return self.process.wait(PATIENCE)

    @property
    def output(self) -> str:
        """What it has printed."""
        self.log.seek(0)
        return self.log.read()
