"""A process made ready for bounded work: allocators, thread pools, everything it will import, and its meter.

Libraries are imported here, before the plan takes stock of what the process holds, so that none of them
arrives later as a surprise. A caller of the Python API gets Arrow's settings back as they were.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from krill import _native
from krill.budget.machine import resolve_threads
from krill.budget.meter import Meter
from krill.budget.plan import resolve_limit


@contextmanager
def metered_process(
    memory: str | int, threads: int | str, *, floor: int = 0, parquet: bool = False
) -> Iterator[Meter]:
    """One heap, the system's allocator, no more threads than were asked for, and a meter that is running;
    `floor` is what of the process doesn't count: see `Meter`."""
    meter = Meter(resolve_limit(memory), floor, resolve_threads(threads))
    _native.configure_malloc()  # before libraries start threads, which would keep heaps of their own
    import numpy  # noqa: F401
    import pyarrow as pa

    if parquet:
        _native.trim(code=not floor)  # else code of all that was loaded before is held while this is
        import pyarrow.parquet
    before = pa.default_memory_pool(), pa.cpu_count(), pa.io_thread_count()
    _set_arrow(pa.system_memory_pool(), meter.threads, 1)
    try:
        with meter:
            yield meter
    finally:
        _set_arrow(*before)


def _set_arrow(pool: object, threads: int, io_threads: int) -> None:
    import pyarrow as pa

    pa.set_memory_pool(pool)
    pa.set_cpu_count(threads)
    pa.set_io_thread_count(io_threads)
