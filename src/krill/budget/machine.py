"""What this process may use: memory and cores, as the kernel and the container allow."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from krill.budget.size import format_size
from krill.errors import BudgetError, ConfigError

MOST_THREADS = 1024
# What the program and its libraries map, most of it never touched: 330 MB measured with two threads.
MAPPED = 400_000_000
# What of it is private and can be written: 110 MB were too little with two threads, 150 enough.
PRIVATE = 150_000_000
_CGROUP = Path("/sys/fs/cgroup")


def available_bytes() -> int:
    """The least of the machine's available memory, and what the limits of cgroup and addresses leave."""
    import psutil

    free = int(psutil.virtual_memory().available)
    limits = (_cgroup_left(), _addressable(MAPPED))
    return min([free, *(left for left in limits if left is not None)])


def require_address_space(mapped: int, private: int, limit: int) -> None:
    """Refuse what the limits of the shell can't hold: a budget beside what is `mapped` (`ulimit -v`), and the
    `private` memory of libraries (`ulimit -d`).

    Where these limits are met, some libraries raise an error, and others end the process by a signal.
    """
    data, _ = resource.getrlimit(resource.RLIMIT_DATA)
    if data != resource.RLIM_INFINITY and data < private:
        raise BudgetError(
            f"Krill's libraries take {format_size(private)} of data, and this shell is limited to"
            f" {format_size(data)}",
            hint="ulimit -d unlimited; --memory bounds what is really held",
        )
    left = _addressable(mapped)
    if left is None or (limit <= left and left):
        return
    given = format_size(resource.getrlimit(resource.RLIMIT_AS)[0])
    what = f"a budget of {format_size(limit)} takes" if limit else "Krill and its libraries take"
    remedy = f", or --memory {left // 10**6}MB" if left > mapped // 2 else ""
    raise BudgetError(
        f"{what} {format_size(mapped + limit)} of address space, and this shell is limited to {given}",
        hint=f"ulimit -v unlimited{remedy}; --memory bounds what is really held",
    )


def _addressable(mapped: int) -> int | None:
    """What the limit on addresses leaves; None where there is none."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else max(0, limit - mapped)


def available_threads() -> int:
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def _cgroup_left() -> int | None:
    """What is left of the tightest memory limit from this process's cgroup (v2) up to the root."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    names = [line[3:] for line in lines if line.startswith("0::")]
    if not names:
        return None
    folder = _CGROUP / names[0].lstrip("/")
    left: int | None = None
    for place in (folder, *folder.parents):
        if place != _CGROUP and _CGROUP not in place.parents:
            break
        limit, used = _read_number(place / "memory.max"), _read_number(place / "memory.current")
        if limit is not None and used is not None:
            room = max(0, limit - used)
            left = room if left is None else min(left, room)
    return left


def resolve_threads(threads: int | str) -> int:
    """`auto` is every core that the process may use."""
    if threads == "auto":
        return available_threads()
    try:
        number = int(threads)
    except ValueError:
        number = 0
    if not 1 <= number <= MOST_THREADS:
        raise ConfigError(
            f"`threads` is `{threads}`", hint=f"give a whole number from 1 to {MOST_THREADS}, or auto"
        )
    return number


def _read_number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
