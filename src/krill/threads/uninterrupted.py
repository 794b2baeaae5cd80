"""A few steps that belong together: Ctrl-C waits until they are done.

Comes in: a body of a `with`. Goes out: the interrupt, behind it. Held in memory: nothing.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_INTERRUPTS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Signals that would interrupt the body are answered at its end, by whoever answers them otherwise.

    Python answers signals in its main thread; in the others nothing is to be done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    before = {
        number: signal.signal(number, note)
        for number in _INTERRUPTS
        if callable(signal.getsignal(number))  # neither ignored nor left to the system
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)
