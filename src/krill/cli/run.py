"""`krill run`."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from krill.cli.options import ConfigOptions, OutputOptions
from krill.errors import KrillError

if TYPE_CHECKING:
    from krill.config import KrillConfig


def run(
    config: str,
    /,
    *,
    overwrite: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    options: ConfigOptions = ConfigOptions(),  # noqa: B008  a frozen value, never changed
    output: OutputOptions = OutputOptions(),  # noqa: B008
) -> None:
    """Everything that a config asks for, each step only if its output is missing.

    Each step is a process of its own, so the budget of one is not burdened with another. The steps of this
    version: train-tokenizer, if `tokenizer.path` names a folder that has none or one that Krill has trained,
    and preprocess. An output that another config has made is refused, and named. With --json, the result is
    that of the last step, and `steps` has those of the steps before it.

    Parameters
    ----------
    config
        The config file (YAML).
    overwrite
        Start anew, and replace what is there in the end.
    """
    loaded = options.load(config)  # a mistake in the config is found before any step starts
    arguments = [config, *_passed_on(options, overwrite, output)]
    results = {step: _run_step(step, arguments, capture=output.json) for step in _steps(loaded)}
    if output.json:
        import orjson

        from krill.cli.screen import print_json

        *before, last = ((step, orjson.loads(result)) for step, result in results.items())
        print_json({**last[1], "steps": dict(before)})


def _steps(config: KrillConfig) -> list[str]:
    """What there is to do, in order; whether a step was done already, it finds out itself."""
    return [*(["train-tokenizer"] if _trains_tokenizer(config) else []), "preprocess"]


def _trains_tokenizer(config: KrillConfig) -> bool:
    """Whether the tokenizer is this config's own work: absent yet, or trained by Krill before."""
    if config.tokenizer.path is None or not config.datasets or config.preprocess.output == "text":
        return False
    path = Path(config.tokenizer.path)
    folder = path.parent if path.name == "tokenizer.json" else path
    return not path.exists() or (folder / "krill-run.json").is_file()


def _passed_on(options: ConfigOptions, overwrite: bool, output: OutputOptions) -> list[str]:
    arguments: list[str] = []
    for name in ("memory", "threads"):
        value = getattr(options, name)
        arguments += [f"--{name}", value] if value is not None else []
    for change in options.set:
        arguments += ["--set", change]
    flags = (("--overwrite", overwrite), ("--quiet", output.quiet), ("--json", output.json))
    return arguments + [flag for flag, wanted in flags if wanted]


def _run_step(step: str, arguments: list[str], *, capture: bool) -> bytes:
    """Run a step to its end; returns what it printed, if that is captured."""
    command = [sys.executable, "-m", "krill", step, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE if capture else None) as process:
        # Ctrl-C reaches the whole group: the step ends by itself, and this process must outlive it.
        before = {
            signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
            signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: process.terminate()),
        }
        printed, _ = process.communicate()
    for number, handler in before.items():  # the next step would inherit what is ignored here
        signal.signal(number, handler)
    if process.returncode:
        raise StepFailed(step, process.returncode)
    return printed or b""


class StepFailed(KrillError):
    """A step ended with an error and has said why."""

    def __init__(self, step: str, code: int) -> None:
        super().__init__(f"the step `{step}` ended with exit code {code}")
        # Ended by a signal, a step has a negative code; the shell's way to say so is 128 and the signal.
        self.exit_code = code if code > 0 else 128 - code
