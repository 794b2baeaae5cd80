"""The command line: one file per verb, no logic.

In: what the user types. Out: a call into the packages above, its result as text or JSON, and an exit code: 1
internal, 2 usage or config, 3 input, 4 budget, 5 storage or lock, 130 interrupt. Held in memory: nothing
of size; a verb imports its package when it is called, so that `krill --help` is instant.
"""

import gc
import os
import resource
import signal
from contextlib import suppress
from types import FrameType

__all__ = ["main"]

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> None:
    from krill.cli.streams import open_closed_streams

    open_closed_streams()
    _refuse_small_address_space()
    for number in INTERRUPTS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, _leave)
    # Loading makes 300,000 objects and no garbage; looking for some after each 700 would take a tenth of it.
    gc.set_threshold(20_000)
    # NumPy's library for matrices starts threads that wait by spinning; nothing here multiplies any.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # A library written in Rust would print a page of frames before its error, which takes one line.
    os.environ["RUST_BACKTRACE"] = "0"
    # Pydantic would look for plugins in every package that is installed, at each start.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from krill.cli import app

    app.main()


def _refuse_small_address_space() -> None:
    """Libraries would end the process while they are loaded, without a reason that a user can read."""
    limits = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
    if all(resource.getrlimit(limit)[0] == resource.RLIM_INFINITY for limit in limits):
        return
    from krill.errors import BudgetError

    try:
        from krill.budget.machine import MAPPED, PRIVATE, require_address_space

        require_address_space(MAPPED, PRIVATE, 0)
    except (BudgetError, MemoryError, ImportError) as error:
        fact: object = "this shell's limits are too low: ulimit -v unlimited; ulimit -d unlimited"
        if isinstance(error, BudgetError):
            fact = error
        with suppress(OSError):
            os.write(2, f"error: {fact}\n".encode())
        os._exit(BudgetError.exit_code)


def _leave(signal_number: int, frame: FrameType | None) -> None:
    """Ctrl-C while modules are loaded ends the process at once, without a traceback.

    Nothing is begun yet that needs an end, and an exception could be raised inside an import's own callbacks,
    where it would be printed and lost.
    """
    os._exit(130)
