"""The command line: one file per verb, no logic.

In: what the user types. Out: a call into the rooms above, its result on screen or as JSON, and an exit code:
1 internal, 2 usage or config, 3 input, 4 budget, 5 storage or lock, 130 interrupt. Held in memory: nothing
of size; a verb imports its room when it is called, so that `krill --help` is instant.
"""

import gc
import os
import signal
from types import FrameType

__all__ = ["main"]

INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


def main() -> None:
    """Load the verbs, run one, and exit with its code."""
    for number in INTERRUPTS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, _leave)
    # Loading makes 300,000 objects and no garbage; looking for some after each 700 would take a tenth of it.
    gc.set_threshold(20_000)
    # NumPy's library for matrices starts threads that wait by spinning; nothing here multiplies any.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Whether pydantic has plugins, it asks every package that is installed, at each start.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from krill.cli import app

    app.main()


def _leave(signal_number: int, frame: FrameType | None) -> None:
    """Loading takes a moment, and Ctrl-C in it is no fault to be traced.

    Nothing is begun yet that needs an end, and an exception could be raised inside an import's own callbacks,
    where it would be printed and lost.
    """
    os._exit(130)
