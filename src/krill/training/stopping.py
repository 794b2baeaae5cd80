"""Ctrl-C and a scheduler's SIGTERM while a model trains: the step at hand is finished and saved first.

In: signals. Out: a flag that the loop looks at after each step. Held in memory: nothing. A second signal is
answered by whoever answered the first before: at once, without saving.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Final, Self

_INTERRUPTS: Final = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """A context manager; `asked` once a signal came. In other threads than the main one it never is."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {
                number: signal.signal(number, self._note)
                for number in _INTERRUPTS
                if callable(signal.getsignal(number))  # neither ignored nor left to the system
            }
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
