"""`krill`: the verbs, and how every one of them ends."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, cast

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError

from krill import __version__
from krill.budget.meter import guard_process
from krill.cli import INTERRUPTS
from krill.cli.options import check_number
from krill.cli.streams import guard_streams, standard_output
from krill.errors import ConfigError, Interrupted, KrillError, StorageError
from krill.faults import refused_by_system

if TYPE_CHECKING:
    from rich.console import Console

app = App(
    name="krill",
    help="""Prepare text for language models, and train small ones, inside a memory budget that you state.

    Say `--memory 512MB` and the run stays under it, as `/usr/bin/time -v` would see it. A dataset is the
    same, byte for byte, at any budget, with any number of threads, and however often it was killed and
    resumed.
    """,
    version=__version__,
    version_flags=["--version", "-V"],
    help_format="markdown",
    result_action="return_value",
    # The last of repeated flags counts, as a script that adds its own to a user's expects.
    default_parameter=Parameter(validator=check_number, allow_repeating=True),
    suppress_keyboard_interrupt=False,  # `main` says what is kept and how to go on
)
tokenizer = App(name="tokenizer", help="Train tokenizers in bounded memory, and use them.")
qa = App(name="qa", help="Question answering on long documents: prepare features, train a reader, score it.")


def _verb(module: str, name: str) -> Callable[..., None]:
    verb: Callable[..., None] = getattr(import_module(f"krill.cli.{module}"), name)
    return verb


for verb in ("train", "encode", "decode", "compare"):
    tokenizer.command(_verb(f"tokenizer_{verb}", verb))
for verb in ("prepare", "train", "evaluate"):
    qa.command(_verb(f"qa_{verb}", verb))
for verb in ("preprocess", "run", "train", "evaluate", "estimate", "validate", "export", "report"):
    app.command(_verb(verb, verb))
app.command(_verb("tokenizer_train", "train_tokenizer"))
app.command(_verb("generate", "generate"), name=["generate", "inference"])
app.command(_verb("inspect", "inspect"), name=["inspect", "inspect-dataset"])
app.command(tokenizer)
app.command(qa)


class Interrupts:
    """Ctrl-C and a scheduler's SIGTERM end a command alike: a KeyboardInterrupt, nothing half-written.

    `raised` once there was one: a library may make another exception of it.
    """

    def __init__(self) -> None:
        self.raised = False

    def install(self) -> None:
        """Handle them from now on, except those that are ignored, as under nohup."""
        for number in INTERRUPTS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._raise)

    def ignore(self) -> None:
        """While the command cleans up and prints its result, another one must not interrupt it."""
        for number in INTERRUPTS:
            signal.signal(number, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _raise(self, signal_number: int, frame: FrameType | None) -> None:
        """Not inside an import: what libraries do to load themselves crashes on an exception, or loses it.

        That is over in a moment, and then the signal comes again.
        """
        if _is_importing(frame):
            signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal_number))
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            return
        self.ignore()
        self.raised = True
        raise KeyboardInterrupt


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib._bootstrap"):
            return True
        frame = frame.f_back
    return False


_interrupts = Interrupts()


def main() -> None:
    _interrupts.install()
    guard_process()
    guard_streams()
    try:
        code = _run_verb()
    except KeyboardInterrupt:
        stop = Interrupted("interrupted: what was done is kept", hint="run the same command to continue")
        code = _fail(stop.message, stop.hint, stop.exit_code)
    _interrupts.ignore()  # the command has ended, and what comes now is to keep its code
    _end(code)


def _end(code: int) -> NoReturn:
    """End as Python does, but for taking every module apart: that takes 60 ms and touches memory that the
    meter can no longer count. The system takes all of it back at once."""
    for thread in threading.enumerate():
        # One that an interrupt kept from starting is listed, too.
        if thread is not threading.current_thread() and not thread.daemon and thread.ident is not None:
            thread.join()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # whoever read it has gone
            stream.flush()
    os._exit(code)


class _HelpConsole:
    """The console of `--help`, loaded when it is needed: Rich takes a moment, and most commands have none."""

    def __getattr__(self, name: str) -> Any:
        from krill.cli.screen import Screen

        return getattr(Screen(), name)


def _run_verb() -> int:
    """Run what was typed and return its exit code; print what went wrong."""
    try:
        _refuse_other_encodings(sys.argv[1:])
        app(
            console=cast("Console", _HelpConsole()),
            exit_on_error=False,
            print_error=False,
            help_on_error=False,
        )
        output = standard_output()
        output.flush()
        return 0 if output.lost is None else _fail(*_explain_lost_output(output.lost), StorageError.exit_code)
    except CycloptsError as error:
        return _fail(*_explain_usage_error(error), ConfigError.exit_code)
    except KrillError as error:
        return _fail(error.message, error.hint, error.exit_code)
    except BrokenPipeError:
        # Whoever read our output has gone; a second error while flushing would say the same.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Interrupted.exit_code
    except Exception as error:
        if _interrupts.raised:
            raise KeyboardInterrupt from None
        _interrupts.ignore()
        refused = refused_by_system(error)
        if refused is not None:
            return _fail(refused.message, refused.hint, refused.exit_code)
        traceback.print_exc()
        return _fail("this is a bug in Krill", "please report it with the lines above", 1)


def _refuse_other_encodings(arguments: Sequence[str]) -> None:
    """Arguments get into manifests and messages, which are UTF-8."""
    for argument in arguments:
        shown = argument.encode("utf-8", "backslashreplace").decode()
        if shown != argument:
            raise ConfigError(f"the argument `{shown}` is not UTF-8", hint="rename the file, or fix the text")


def _explain_lost_output(error: OSError) -> tuple[str, str]:
    """The command has done its work, and its output could not be written."""
    fact = f"cannot write to standard output: {(error.strerror or str(error)).lower()}"
    return fact, "files that the command made are whole; send its output elsewhere and run it again to see it"


def _explain_usage_error(error: CycloptsError) -> tuple[str, str]:
    """A command line that can't be parsed: the fact, and where to look."""
    if isinstance(error, UnusedCliTokensError):
        fact = f"the command takes no more arguments: `{' '.join(error.unused_tokens or [])}`"
    else:
        fact = str(error).strip().rstrip(".").replace('"', "`") or "the command can't be understood"
        fact = fact[0].lower() + fact[1:]
    verb = " ".join(error.command_chain or [])
    command, what = (f"krill {verb} --help", "options") if verb else ("krill --help", "commands")
    return fact, f"`{command}` lists the {what}"


def _fail(message: str, hint: str | None, code: int) -> int:
    _interrupts.ignore()
    from krill.cli.screen import print_error

    print_error(message, hint)
    return code
