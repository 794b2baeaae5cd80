"""`krill run`: verbs as steps, each a process of its own, so that no budget is burdened with another's."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from krill.cli.options import ConfigOptions, OutputOptions, Overwrite, Switch, VerifyOptions
from krill.cli.streams import standard_output
from krill.errors import KrillError

if TYPE_CHECKING:
    from krill.config import KrillConfig

HELD_OUT: Final = 0.01
"""The share of documents that is kept for validation where a config trains and doesn't say."""


def run(
    config: str,
    /,
    *,
    overwrite: Overwrite = False,
    no_samples: Switch = False,
    options: ConfigOptions = ConfigOptions(),  # noqa: B008  a frozen value, never changed
    verify: VerifyOptions = VerifyOptions(),  # noqa: B008
    display: OutputOptions = OutputOptions(),  # noqa: B008
) -> None:
    """Everything that a config asks for, each step only if its output is missing.

    Each step is a process of its own, so the budget of one is not burdened with another. The steps:
    train-tokenizer, if `tokenizer.path` names a folder that has none or one that Krill has trained;
    preprocess; and where the config has a section `train`, train and evaluate. A hundredth of the documents
    is then held out for validation, unless `preprocess.split` says otherwise. An output that another config
    has made is refused, and named. With --json, the result is that of the last step, and `steps` has those
    of the steps before it.

    Parameters
    ----------
    config
        The config file (YAML).
    no_samples
        Keep no text of documents that are dropped (`preprocess.samples: false`), for a run that is shared.
    """
    options = options.without_samples(no_samples)
    # A mistake in the config is found before any step starts.
    loaded = options.load(config, verify=verify.override)
    steps = _steps(loaded)
    if "train" in steps:
        from krill.model import require_train_extra

        require_train_extra()  # before hours of preparing, not after
    results = {}
    for step in steps:
        arguments = _arguments(step, config, loaded, options, display, overwrite)
        results[step] = run_step(step, arguments, capture=display.json)
    if display.json:
        import orjson

        from krill.cli.screen import print_json

        *before, last = ((step, orjson.loads(result)) for step, result in results.items())
        print_json({**last[1], "steps": dict(before)})
    elif not display.quiet and len(steps) > 1:
        from krill.cli.screen import console_of

        outputs = shlex.join(_outputs(steps, loaded))
        console_of().print(f"\nall steps in one page: krill report {outputs}")


def _outputs(steps: Sequence[str], config: KrillConfig) -> list[str]:
    """What the steps have made, the dataset first."""
    places = {
        "preprocess": config.preprocess.prepared_path,
        "train-tokenizer": _tokenizer_folder(config),
        "train": config.train.output_dir,
    }
    return [str(place) for step, place in places.items() if step in steps]


def _steps(config: KrillConfig) -> list[str]:
    """The steps in order; each finds out itself whether it was done already."""
    trains = _trains(config)
    streams = trains and config.train.streaming
    return [
        *(["train-tokenizer"] if _trains_tokenizer(config) else []),
        *([] if streams else ["preprocess"]),
        *(["train"] if trains else []),
        # Text that is streamed has no part that was held out.
        *(["evaluate"] if trains and not streams else []),
    ]


def _trains_tokenizer(config: KrillConfig) -> bool:
    """Whether the tokenizer is this config's own work: absent yet, or trained by Krill before."""
    local = config.tokenizer.local_path
    if local is None or not config.datasets or config.preprocess.output == "text":
        return False
    return not Path(local).exists() or (_tokenizer_folder(config) / "krill-run.json").is_file()


def _tokenizer_folder(config: KrillConfig) -> Path:
    path = Path(config.tokenizer.local_path or "")
    return path.parent if path.name == "tokenizer.json" else path


def _trains(config: KrillConfig) -> bool:
    return config.trains and config.preprocess.output != "text"


def _arguments(
    step: str,
    config: str,
    loaded: KrillConfig,
    options: ConfigOptions,
    display: OutputOptions,
    overwrite: bool,
) -> list[str]:
    if step == "evaluate":
        # It reads no config, so what the config says of the budget goes along.
        arguments = [loaded.train.output_dir, loaded.preprocess.prepared_path]
        arguments += [f"--memory={loaded.memory}", f"--threads={loaded.threads}"]
    else:
        arguments = [config]
        for name in ("memory", "threads"):
            value = getattr(options, name)
            arguments += [] if value is None else [f"--{name}", value]
        changes = [*_held_out(loaded), *options.set]
        arguments += [part for change in changes for part in ("--set", change)]
        arguments += ["--overwrite"] if overwrite else []
    flags = (("--quiet", display.quiet), ("--json", display.json), ("--no-verify", not loaded.verify))
    return arguments + [flag for flag, wanted in flags if wanted]


def _held_out(config: KrillConfig) -> list[str]:
    """Hold documents out for validation, where a model is trained and the config doesn't say."""
    if not _trains(config) or config.train.streaming or "split" in config.preprocess.model_fields_set:
        return []
    return [f"preprocess.split.validation={HELD_OUT}"]


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
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
            before[signal.SIGHUP] = signal.signal(signal.SIGHUP, lambda *_: process.terminate())
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
