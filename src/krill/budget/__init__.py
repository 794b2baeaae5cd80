"""The budget: what the user states, how it is shared out, and what was really used.

In: a size such as `512MB` or `auto`, and the needs of each part of a run. Out: a `Plan` whose named shares
are the only bytes a part may use, and a `Meter` that reads the true peak and keeps a command under its
limit. Held in memory: a few numbers and two threads.

`MB` is 10^6 bytes and `MiB` is 2^20, here and everywhere in Krill.
"""

from krill.budget.machine import available_bytes, available_threads, resolve_threads
from krill.budget.meter import RESERVE, Meter, guard_process, peak_bytes, resident_bytes
from krill.budget.monitor import MemoryMonitor
from krill.budget.plan import Kind, Need, Plan, make_plan, memory_flag, resolve_limit
from krill.budget.size import format_size, parse_size

__all__ = [
    "RESERVE",
    "Kind",
    "MemoryMonitor",
    "Meter",
    "Need",
    "Plan",
    "available_bytes",
    "available_threads",
    "format_size",
    "guard_process",
    "make_plan",
    "memory_flag",
    "parse_size",
    "peak_bytes",
    "resident_bytes",
    "resolve_limit",
    "resolve_threads",
]
