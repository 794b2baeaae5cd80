"""The process made ready for bounded work: allocators, thread pools, and everything it will import.

Libraries are imported here, before the plan takes stock of what the process holds, so that none of them
arrives later as a surprise.
"""

from __future__ import annotations


def ready_process(threads: int, *, text_output: bool) -> None:
    """Fix malloc and Arrow for this run; safe to call again."""
    import numpy  # noqa: F401
    import pyarrow as pa

    from krill import _native

    _native.configure_malloc()
    pa.set_memory_pool(pa.system_memory_pool())
    pa.set_cpu_count(threads)
    pa.set_io_thread_count(1)
    if text_output:
        import pyarrow.parquet  # noqa: F401
