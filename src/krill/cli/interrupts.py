"""Ctrl-C and a scheduler's SIGTERM end a command alike: nothing half-written, everything resumable.

In: signals. Out: a KeyboardInterrupt where Python stands. Held in memory: nothing.
"""

from __future__ import annotations

import signal
from types import FrameType

from krill.cli import INTERRUPTS


class Interrupts:
    """How they are answered. `raised` once one was: a library may make another exception of it."""

    def __init__(self) -> None:
        self.raised = False

    def answer(self) -> None:
        """From now on, but for those that are ignored, as under nohup."""
        for number in INTERRUPTS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._raise)

    def ignore(self) -> None:
        """Tidying up and telling take a moment, in which another one must not disturb."""
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
