"""A verb as a step of another: a process of its own, so that no budget is burdened with another's."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import IO

from krill.cli.streams import standard_output
from krill.errors import KrillError


def run_step(step: str, arguments: Sequence[str], *, capture: bool) -> bytes:
    """Run a step to its end; returns what it printed, if that is captured."""
    command = [sys.executable, "-m", "krill", step, *arguments]
    # A terminal is the step's own, for its live line. Elsewhere its lines go through this process: that they
    # can't be written is then no fault of the step, and does not keep the next one from its work.
    inherits = not capture and sys.stdout.isatty()
    with subprocess.Popen(command, stdout=None if inherits else subprocess.PIPE) as process:
        # Ctrl-C reaches the whole group: the step ends by itself, and this process must outlive it.
        before = {
            signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
            signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: process.terminate()),
        }
        try:
            forwarded = None if capture else process.stdout
            printed = process.communicate()[0] if forwarded is None else _forward(forwarded)
        finally:
            if process.stdout is not None:
                process.stdout.close()  # a step whose reader has left ends
            process.wait()
            for number, handler in before.items():  # the next step would inherit what is ignored here
                signal.signal(number, handler)
    if process.returncode:
        raise StepFailed(step, process.returncode)
    return printed or b""


def _forward(lines: IO[bytes]) -> bytes:
    """Print what a step prints, as soon as it does."""
    output = standard_output()
    for line in lines:
        output.write_bytes(line)
        output.flush()
    return b""


class StepFailed(KrillError):
    """A step ended with an error and has said why."""

    def __init__(self, step: str, code: int) -> None:
        super().__init__(f"the step `{step}` ended with exit code {code}")
        # Ended by a signal, a step has a negative code; the shell's way to say so is 128 and the signal.
        self.exit_code = code if code > 0 else 128 - code
