"""`krill` commands without the wait: each a process of its own, forked from one that has loaded everything.

A command imports for most of a second before it does anything, and the tests run hundreds that then work for
a moment. Here a server (`preloaded_server.py`) loads the packages once for each process of pytest. What is
launched is a fork with its own working directory, environment, output, limits, session and signals, and it
ends as any process does: by `krill.cli.main`, by a signal, by an exit code.

Commands that compute with JAX have a server of their own, which has loaded that too; it reads the settings
of JAX's own in the environment of pytest, and no other ones later.

Two things are not as in a fresh process: how it starts, and what it holds at its start. So what is about
imports, the locale, RLIMIT_DATA or peak memory starts `KRILL` itself (`fresh_krill`).
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import Any

import preloaded_server
from measured import Outcome

WITH_JAX = (("train",), ("evaluate",), ("generate",), ("qa", "train"), ("qa", "evaluate"))
SCRIPT_WITH_JAX = re.compile(r"\bjax\b|\bkrill\.train|\btrain_\w+\.py")


class Launched:
    """A process under way: what the tests need of `subprocess.Popen`."""

    def __init__(self, report: int) -> None:
        self._report = os.fdopen(report, "r")
        begun = self._report.readline()
        assert begun, "the server has ended: see its standard error"
        self.pid = int(begun)
        self.returncode: int | None = None
        self.usage: dict[str, float] = {}

    def poll(self) -> int | None:
        """The exit code, or minus the signal that ended it; None while it runs."""
        return self.returncode if self._ended_within(0) else None

    def wait(self, timeout: float | None = None) -> int:
        """The same, when it has ended."""
        if not self._ended_within(timeout):
            raise subprocess.TimeoutExpired("krill", timeout)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended, and the report is on its way
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended_within(self, seconds: float | None) -> bool:
        if self.returncode is None and select.select([self._report], [], [], seconds)[0]:
            self.usage = json.loads(self._report.readline())
            self.returncode = int(self.usage.pop("code"))
            self._report.close()
        return self.returncode is not None


def launch(
    arguments: Sequence[object],
    *,
    out: int,
    err: int,
    source: int | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    file_limit: int | None = None,
    script: str | None = None,
    server: socket.socket | None = None,
) -> Launched:
    """Start `krill ARGUMENTS`, or the Python `script` with them, perhaps under RLIMIT_FSIZE.

    It reads from the descriptor `source` (nothing, if None) and prints to `out` and `err`. With `server`
    it is a fork of another one than those that are started here.
    """
    words = tuple(map(str, arguments))
    computes = any(words[: len(verb)] == verb for verb in WITH_JAX)
    if server is None:
        server = _server(computes if script is None else bool(SCRIPT_WITH_JAX.search(script)))
    request = {
        "arguments": words,
        "cwd": str(cwd or Path.cwd()),
        "env": {**os.environ, **(env or {})},
        "file_limit": file_limit,
        "script": script,
    }
    ours, theirs = os.pipe()
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        descriptors = [nothing if source is None else source, out, err, theirs]
        socket.send_fds(server, [json.dumps(request).encode()], descriptors)
    finally:
        os.close(theirs)
        os.close(nothing)
    return Launched(ours)


def run(
    arguments: Sequence[object], *, given: str = "", timeout: float | None = 300, **options: Any
) -> Outcome:
    """Launch with `given` on standard input, and wait for the end."""
    with ExitStack() as files:
        source, out, err = (files.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        source.write(given.encode())
        source.seek(0)
        launched = launch(arguments, source=source.fileno(), out=out.fileno(), err=err.fileno(), **options)
        try:
            code = launched.wait(timeout)
        except subprocess.TimeoutExpired:
            launched.kill()
            raise
        return Outcome(code & 255, _text_of(out), _text_of(err), **launched.usage)


def _text_of(file: Any) -> str:
    file.seek(0)
    return file.read().decode()


@cache
def _server(jax: bool) -> socket.socket:
    """The connection to the server without or with JAX, which ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, preloaded_server.MOST_REQUEST)
    with theirs:
        subprocess.Popen(
            [sys.executable, preloaded_server.__file__, str(theirs.fileno()), *(["jax"] if jax else [])],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )
    return ours
