"""`krill run`."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Annotated

from cyclopts import Parameter

from krill.cli.options import ConfigOptions, OutputOptions
from krill.errors import KrillError


def run(
    config: str,
    /,
    *,
    overwrite: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    options: ConfigOptions = ConfigOptions(),  # noqa: B008  a frozen value, never changed
    output: OutputOptions = OutputOptions(),  # noqa: B008
) -> None:
    """Everything that a config asks for, each step only if its output is missing.

    Each step is a process of its own, so the budget of one is not burdened with another. This version has
    one step: preprocess. An output that another config has made is refused, and named.

    Parameters
    ----------
    config
        The config file (YAML).
    overwrite
        Start anew, and replace what is there in the end.
    """
    options.load(config)  # a mistake in the config is found before any step starts
    arguments = [sys.executable, "-m", "krill", "preprocess", config]
    for name in ("memory", "threads"):
        value = getattr(options, name)
        arguments += [f"--{name}", value] if value is not None else []
    for change in options.set:
        arguments += ["--set", change]
    flags = (("--overwrite", overwrite), ("--quiet", output.quiet), ("--json", output.json))
    arguments += [flag for flag, wanted in flags if wanted]
    with subprocess.Popen(arguments) as step:
        # Ctrl-C reaches the whole group: the step ends by itself, and this process must outlive it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: step.terminate())
        code = step.wait()
    if code:
        raise StepFailed(code)


class StepFailed(KrillError):
    """A step ended with an error and has said why."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the step `preprocess` ended with exit code {code}")
        # Ended by a signal, a step has a negative code; the shell's way to say so is 128 and the signal.
        self.exit_code = code if code > 0 else 128 - code
