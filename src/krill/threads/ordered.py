"""`ordered_map`: all threads work, results come in input order, and what is in flight is bounded in bytes.

The native kernels release the GIL, so threads are real parallelism and nothing is duplicated in memory, as
it would be with processes.
"""

from __future__ import annotations

import gc
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol, TypeVar

from krill import _native
from krill.faults import system_errors

Item = TypeVar("Item")
Result = TypeVar("Result")

# Native, as an interrupt that came up in a callback of Python's would be printed and lost.
gc.callbacks.append(_native.note_collection)


class Throttle(Protocol):
    """What slows work down when memory nears its limit; `budget.Meter` is one."""

    def under_pressure(self) -> bool:
        """Whether no more work should start than is needed to go on."""

    def relieve(self) -> None:
        """Called when nothing is in flight and pressure holds: free what can be freed, or stop the run."""


def ordered_map(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    threads: int,
    bytes_in_flight: int,
    size: Callable[[Item], int],
    throttle: Throttle | None = None,
    abandoned: threading.Event | None = None,
) -> Generator[Result, None, None]:
    """`work` over `items` on `threads` threads; results in order.

    No more than `bytes_in_flight` bytes of items (by `size`) are worked on or wait to be handed out,
    except that one item always goes, whatever its size; beside them the next item waits, already taken from
    `items`, until it fits. `items` is advanced in the caller's thread. An
    error surfaces at its place in the order; later work is abandoned. Closing the iterator early waits for
    the items that run and drops the rest; work that takes long may look at `abandoned`, which is set then.
    What the garbage collector closes ends by itself, and nobody waits for it.
    """
    source = iter(items)
    held: deque[tuple[Future[Result], int]] = deque()
    in_flight = 0
    waiting: Item | None = None
    exhausted = False
    pool = ThreadPoolExecutor(threads, thread_name_prefix="krill")
    try:
        while True:
            # One item per thread and one more, so that no thread waits while the caller uses a result.
            while not exhausted and len(held) <= threads:
                if waiting is None:
                    waiting = next(source, None)
                    if waiting is None:
                        exhausted = True
                        break
                nbytes = size(waiting)
                if held and (in_flight + nbytes > bytes_in_flight or _pressed(throttle)):
                    break
                if not held and _pressed(throttle):
                    assert throttle is not None
                    throttle.relieve()
                with system_errors():
                    held.append((pool.submit(work, waiting), nbytes))
                in_flight += nbytes
                waiting = None
            if not held:
                return
            future, nbytes = held.popleft()
            result = future.result()
            del future
            yield result
            del result
            in_flight -= nbytes
    except BaseException:  # an error, an interrupt, or the iterator was closed
        if abandoned is not None:
            abandoned.set()
        raise
    finally:
        for future, _ in held:
            future.cancel()
        # The collector may close a map that nobody holds any more, in the midst of any code: also of code
        # that holds the lock with which threads start and end. To wait for one there is to wait forever.
        pool.shutdown(wait=not _native.collection_runs_here(), cancel_futures=True)


def _pressed(throttle: Throttle | None) -> bool:
    return throttle is not None and throttle.under_pressure()


class Gate:
    """Lets as much through at once as `capacity` allows; what is larger goes alone.

    For code whose memory grows with what it is given, such as a Hugging Face tokenizer with a long document.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._free = capacity
        self._changed = threading.Condition()

    @contextmanager
    def hold(self, weight: int) -> Iterator[None]:
        """Wait until `weight` fits, hold it, give it back."""
        weight = min(weight, self._capacity)
        with self._changed:
            self._changed.wait_for(lambda: self._free >= weight)
            self._free -= weight
        try:
            yield
        finally:
            with self._changed:
                self._free += weight
                self._changed.notify_all()
