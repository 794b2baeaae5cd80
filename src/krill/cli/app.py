"""`krill`: how every command begins and ends."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from krill.budget.meter import guard_process
from krill.cli import INTERRUPTS
from krill.cli.overview import ASKED, print_overview
from krill.cli.streams import guard_streams, standard_output
from krill.errors import ConfigError, Interrupted, KrillError, StorageError
from krill.faults import refused_by_system


class Interrupts:
    """Ctrl-C, a scheduler's SIGTERM and a terminal that is closed end a command alike: a KeyboardInterrupt,
    nothing half-written.

    `raised` once there was one: a library may make another exception of it, or drop it, as a callback from C
    may do; it is then raised again.
    """

    def __init__(self) -> None:
        self.raised = False

    def install(self) -> None:
        """Handle them from now on, except those that are ignored, as under nohup."""
        for number in INTERRUPTS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._raise)
        sys.unraisablehook = _report_dropped

    def ignore(self) -> None:
        """While the command cleans up and prints its result, another one must not interrupt it."""
        for number in INTERRUPTS:
            signal.signal(number, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _raise(self, signal_number: int, frame: FrameType | None) -> None:
        if self._waits(frame):
            self._repeat(signal_number, 0.01)
            return
        self.raised = True
        self._repeat(signal_number, 0.1)
        raise KeyboardInterrupt

    def _waits(self, frame: FrameType | None) -> bool:
        """Not inside an import: what libraries do to load themselves crashes on an exception, or loses it.
        And not while an earlier one is on its way out: another must not disturb what cleans up.

        Both are over in a moment, and then the signal comes again.
        """
        return (self.raised and sys.exc_info()[1] is not None) or _is_importing(frame)

    def _repeat(self, signal_number: int, seconds: float) -> None:
        def again(alarm: int, frame: FrameType | None) -> None:
            handler = signal.getsignal(signal_number)
            if self._waits(frame):
                self._repeat(signal_number, 0.01)
            elif callable(handler):
                handler(signal_number, frame)
            elif handler is not signal.SIG_IGN:  # a library has put back what it takes for the default
                self._raise(signal_number, frame)

        signal.signal(signal.SIGALRM, again)
        signal.siginterrupt(signal.SIGALRM, False)
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _report_dropped(dropped: sys.UnraisableHookArgs) -> None:
    """An interrupt that was dropped is raised again: nothing is to be said about it."""
    if not isinstance(dropped.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(dropped)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib._bootstrap"):
            return True
        frame = frame.f_back
    return False


_interrupts = Interrupts()


def main() -> None:
    try:
        _interrupts.install()  # from its first line on one can come
        guard_process()
        guard_streams()
        code = _run_verb()
        _interrupts.ignore()  # the command has ended, and what comes now is to keep its code
    except KeyboardInterrupt:
        stop = Interrupted("interrupted: what was done is kept", hint="run the same command to continue")
        code = _fail(stop.message, stop.hint, stop.exit_code)
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


def _run_verb() -> int:
    """Run what was typed and return its exit code; print what went wrong."""
    try:
        _refuse_other_encodings(sys.argv[1:])
        if sys.argv[1:] in ASKED:
            print_overview()
        else:
            from krill import _native
            from krill.cli.commands import call

            _native.configure_malloc()  # before there are threads, which would keep heaps of their own
            call()
        output = standard_output()
        output.flush()
        return 0 if output.lost is None else _fail(*_explain_lost_output(output.lost), StorageError.exit_code)
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


def _fail(message: str, hint: str | None, code: int) -> int:
    _interrupts.ignore()
    from krill.cli.screen import print_error

    print_error(message, hint)
    return code
