"""What this process may use: memory and cores, as the kernel and the container allow."""

from __future__ import annotations

import os
from pathlib import Path

from krill.errors import ConfigError

MOST_THREADS = 1024
_CGROUP = Path("/sys/fs/cgroup")


def available_bytes() -> int:
    """The smaller of the machine's available memory and what is left of the cgroup's limit."""
    import psutil

    free = int(psutil.virtual_memory().available)
    left = _cgroup_left()
    return free if left is None else min(free, left)


def available_threads() -> int:
    """Cores that this process may run on."""
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
