"""The meter: what the process really holds.

The promise is `VmHWM`, the kernel's own high-water mark of resident memory, which is what `/usr/bin/time -v`
prints. It is never reset. A sampler reads the resident size twenty times a second for the peaks of single
stages, and tells the work in flight when memory nears the limit.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from krill.budget.size import format_size
from krill.errors import BudgetError

SAMPLE_SECONDS = 0.05
# Above this part of the limit, work in flight is held back until memory is given back.
PRESSURE = 0.95


def resident_bytes() -> int:
    """Resident memory of this process, now."""
    from krill import _native

    held = _native.resident_bytes()
    if held >= 0:
        return held
    import psutil

    return int(psutil.Process().memory_info().rss)


def peak_bytes() -> int:
    """The most that this process has ever held: `VmHWM`, or `ru_maxrss` where there is no /proc."""
    status = _status("VmHWM")
    if status is not None:
        return status
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def tree_pss_bytes() -> int | None:
    """Proportional memory of this process and its children; None where the kernel doesn't tell."""
    waiting, total = [os.getpid()], 0
    while waiting:
        process = Path("/proc", str(waiting.pop()))
        try:
            memory = (process / "smaps_rollup").read_text()
            children = "".join(path.read_text() for path in process.glob("task/*/children"))
        except OSError:
            continue  # a child that has ended
        total += sum(int(line.split()[1]) * 1024 for line in memory.splitlines() if line.startswith("Pss:"))
        waiting += map(int, children.split())
    return total or None


class Meter:
    """Watches one run.

    `floor` is 0 for a command, whose budget is the whole process. In the Python API the budget counts growth
    above what the caller's process held already: then `floor` is that.
    """

    def __init__(self, limit: int, floor: int = 0) -> None:
        self.limit = limit
        self.floor = floor
        self.stages: dict[str, int] = {}
        self.tree_pss: int | None = None
        self._peak = 0
        self._stage = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="krill-meter", daemon=True)

    def __enter__(self) -> Meter:
        self._sample()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._sample()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Charge what is held meanwhile to the stage `name`."""
        outer, self._stage = self._stage, name
        try:
            self._sample()
            yield
            self._sample()
            # Slow to read (a walk over all that is held), so once a stage and not with every sample; and not
            # in the Python API, where most of it is the caller's, who may hold gigabytes.
            if not self.floor:
                self.tree_pss = max(self.tree_pss or 0, tree_pss_bytes() or 0) or None
        finally:
            self._stage = outer

    @property
    def used(self) -> int:
        """What counts against the budget now."""
        return max(0, resident_bytes() - self.floor)

    @property
    def peak(self) -> int:
        """What counted against the budget at the fullest moment."""
        # The kernel counts resident pages per thread and adds up late: a sample may be a few pages ahead.
        return self._peak if self.floor else max(self._peak, peak_bytes())

    def under_pressure(self) -> bool:
        """Whether work in flight should shrink: memory nears the limit in spite of the plan."""
        return self.used > self.limit * PRESSURE

    def relieve(self) -> None:
        """Give freed memory back to the system; stop the run, resumable, if it is over the limit even so."""
        from krill import _native

        _native.trim()
        if self.used > self.limit:
            raise BudgetError(
                f"memory went over the budget in spite of the plan: {format_size(self.used)} held,"
                f" {format_size(self.limit)} given",
                hint="what was done is kept: run the same command with a larger --memory or fewer --threads",
            )

    def _run(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            self._sample()

    def _sample(self) -> None:
        used = self.used
        self._peak = max(self._peak, used)
        if self._stage:
            self.stages[self._stage] = max(self.stages.get(self._stage, 0), used)


def _status(field: str) -> int | None:
    try:
        text = Path("/proc/self/status").read_text()
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return None
