"""The meter: what the process really holds.

The promise is `VmHWM`, the kernel's own high-water mark of resident memory, which is what `/usr/bin/time -v`
prints. It is never reset. A sampler reads the resident size twenty times a second for the peaks of single
stages, and holds work in flight back when memory nears the limit. In a command, a native guard ends the
process with the code of a budget error before it is over the limit, whatever code makes it grow.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from krill.budget.plan import Need, Plan, make_plan
from krill.budget.size import format_size
from krill.budget.timeline import Timeline
from krill.errors import BudgetError

if TYPE_CHECKING:
    from krill import _native

SAMPLE_SECONDS = 0.05
# Above this part of the limit, work in flight is held back until memory is given back.
PRESSURE = 0.95
_SAMPLES_PER_TRIM = 4
# Left free under the limit: memory that grows in spite of the plan is seen this much before it is too late.
# Where other programs keep all cores busy, the guard may come to look a few milliseconds late.
RESERVE = 4 * 10**6
# Code that was let go and is mapped again when a run uses it: up to 6 MB of Arrow's, Python's and our own,
# about as much as is mapped again at once. Since Linux 6.18 that is more where files of libraries were just
# written: they lie in the page cache in larger pieces, and are mapped by the piece. A run then maps thrice
# what is above.
CODE_IN_USE = 8 * 10**6
_MAPPED_AT_ONCE = 7 * 10**6
# The kernel counts the pages of each thread and adds them to the process's later.
LATE_PAGES = 500_000
_LARGER = "run the same command with a larger --memory or fewer --threads"

_guards_process = False


def guard_process() -> None:
    """From now on, a `Meter` of the whole process may end it: for commands, whose process is theirs."""
    global _guards_process
    _guards_process = True


def owns_process() -> bool:
    """Whether this is the process of a command, which may be ended."""
    return _guards_process


def resident_bytes() -> int:
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


def tree_pss_bytes(root: int | None = None) -> int | None:
    """Proportional memory of this process, or another, and its children; None where the kernel doesn't
    report it."""
    waiting, total = [os.getpid() if root is None else root], 0
    while waiting:
        folder = Path("/proc", str(waiting.pop()))
        try:
            memory = (folder / "smaps_rollup").read_text()
            children = "".join(path.read_text() for path in folder.glob("task/*/children"))
        except OSError:
            continue  # a child that has ended
        total += sum(int(line.split()[1]) * 1024 for line in memory.splitlines() if line.startswith("Pss:"))
        waiting += map(int, children.split())
    return total or None


class Meter:
    """Watches one run.

    `floor` is 0 for a command, whose budget is the whole process. In the Python API the budget counts growth
    above what the caller's process held already: then `floor` is that. `threads` is how many may work.
    """

    def __init__(self, limit: int, floor: int = 0, threads: int = 1) -> None:
        self.limit = limit
        self.floor = floor
        self.threads = threads
        self.suspect = ""
        """What may hold more than the plan knows of, and what helps then, for the hint of an error."""
        self.stages: dict[str, int] = {}
        self.tree_pss: int | None = None
        self.timeline = Timeline()
        self._begun = time.monotonic()
        self._peak = 0
        self._stage = ""
        self._lent = 0
        self._others: Callable[[], int] = int
        self.others_peak = 0
        """The most that processes of this one have held, of what was lent to them."""
        self._guard: _native.MemoryGuard | None = None
        self._at_limit: BudgetError | None = None
        self._lending = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="krill-meter", daemon=True)

    def __enter__(self) -> Meter:
        self._sample()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._guard is not None:
            self._guard.stop()
        self._sample()

    @contextmanager
    def stage(self, name: str) -> Iterator[dict[str, Any]]:
        """Charge what is held meanwhile to the stage `name`; the dictionary has its `seconds` and its `peak`
        when it ends, for the manifest."""
        outer, self._stage = self._stage, name
        figures: dict[str, Any] = {"name": name, "seconds": 0.0, "peak": 0}
        begun = time.monotonic()
        try:
            self._sample(due=True)
            with self.timeline.stage(name):
                yield figures
            self._sample(due=True)
            figures |= {"seconds": round(time.monotonic() - begun, 3), "peak": self.stages[name]}
            # Slow to read (a walk over all that is held), so once a stage and not with every sample; and not
            # in the Python API, where most of it is the caller's, who may hold gigabytes.
            if not self.floor:
                self.tree_pss = max(self.tree_pss or 0, tree_pss_bytes() or 0) or None
        finally:
            self._stage = outer

    def plan(
        self, needs: Sequence[Need], base: int | None = None, *, faster: Sequence[Need] | None = None
    ) -> Plan:
        """Share the limit out on top of what is held now, or of `base`; refuses what can't fit.

        `faster` are needs with which the run takes less time: they are planned for where they fit.
        """
        if base is None:
            base = self._program()
        # From now on nothing may go beyond. Before, a refusal says what would do; the guard could not.
        before = self.peak + LATE_PAGES
        plan = make_plan(self.limit, base, needs, reserve=RESERVE, before=before)
        self.guard()
        if faster is not None:
            with suppress(BudgetError):
                better = make_plan(self.limit, base, faster, reserve=RESERVE, before=before)
                return replace(better, least=plan.least)
        return plan

    def lend(self, size: int, held: Callable[[], int] = int) -> None:
        """From now on, processes that this one has started may hold so many bytes of the limit, and this one
        what is left of it. `held` says what they hold."""
        with self._lending:  # of two threads that stop one guard, the second would wait for ever
            if size == self._lent:
                return
            self._sample()
            self._lent, self._others = size, held
            if self._guard is not None:
                self._guard.stop()
                self._guard = None
                self.guard(self._at_limit)

    def report(self, plan: Plan) -> dict[str, Any]:
        """The block `budget` of a manifest."""
        measured = {"measured_peak": self.peak, "tree_pss": self.tree_pss, "threads": self.threads}
        if self.others_peak:
            measured["processes_peak"] = self.others_peak
        return {**plan.to_json(), **measured}

    @property
    def seconds(self) -> float:
        return round(time.monotonic() - self._begun, 3)

    @property
    def used(self) -> int:
        """What counts against the budget now."""
        return max(0, resident_bytes() - self.floor)

    @property
    def peak(self) -> int:
        """What counted against the budget at the fullest moment, with what was lent and held then."""
        # The kernel counts resident pages per thread and adds up late: a sample may be a few pages ahead.
        return self._peak if self.floor else max(self._peak, peak_bytes())

    def under_pressure(self) -> bool:
        """Whether work in flight should shrink: memory nears the limit in spite of the plan."""
        return self.used > (self.limit - self._lent) * PRESSURE

    def relieve(self) -> None:
        """Give freed memory back to the system; stop the run, resumable, if it is at the limit even so."""
        from krill import _native

        _native.trim(code=True)
        if self.used > self.limit - self._lent - RESERVE:
            raise BudgetError(
                f"memory reached the budget in spite of the plan: {format_size(self.used)} held,"
                f" {format_size(self.limit - self._lent)} given",
                hint=f"what was done is kept: {_LARGER}{self.suspect}",
            )

    def _program(self) -> int:
        """What the program itself takes: what it holds, less the code that only loading it has used.

        That is up to 40 of 90 MB, more or less of it as the files of libraries lie in the page cache. In the
        Python API it is the caller's.
        """
        if self.floor:
            return self.used
        from krill import _native

        _native.trim(code=True)
        above = max(0, (_status("RssFile") or 0) - _MAPPED_AT_ONCE)
        return self.used + CODE_IN_USE + 3 * above

    def guard(self, error: BudgetError | None = None) -> None:
        """End the process with `error` before it goes beyond the limit; in a command, and once."""
        if self.floor or not _guards_process or self._guard is not None:
            return
        ends_at = self.limit - self._lent - RESERVE
        if (self.used if self._lent else self.peak) > ends_at:
            return  # loading the program took more: nothing is left to be kept
        from krill import _native

        error = error or BudgetError(
            f"memory reached the budget in spite of the plan: {format_size(self.limit)} given",
            hint=f"what was committed is kept: {_LARGER}{self.suspect}",
        )
        message = f"error: {error}\n"
        guard = _native.MemoryGuard(ends_at, message, error.exit_code)
        if guard.start():
            self._guard, self._at_limit = guard, error

    def _run(self) -> None:
        from krill import _native

        samples = 0
        while not self._stop.wait(SAMPLE_SECONDS):
            with suppress(OSError):  # where no more files can be opened, the next sample may find one
                self._sample()
                samples += 1
                # What the heap has kept of freed memory goes back: a walk over it all, so not all the time.
                if samples >= _SAMPLES_PER_TRIM and self.under_pressure():
                    _native.trim(code=True)
                    samples = 0

    def _sample(self, *, due: bool = False) -> None:
        others = self._others()
        used = self.used + others
        self._peak, self.others_peak = max(self._peak, used), max(self.others_peak, others)
        self.timeline.sample(used, due=due)
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
