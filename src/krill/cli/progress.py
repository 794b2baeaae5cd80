"""Progress: a live line on a terminal, plain lines when piped."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO, TypedDict

from krill.budget import MemoryMonitor, format_size, resident_bytes, resolve_limit
from krill.cli.options import BudgetOptions, OutputOptions, VerifyOptions
from krill.threads.progress import Progress, Silent

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

# A stage that lasts says so this often when the output is piped.
LINE_SECONDS = 10.0
TICK_SECONDS = 1.0
# Stages whose work is counted in something else than bytes.
UNITS = {
    "merge": "merges",
    "tokenise": "tokens",
    "train": "tokens",
    "score": "tokens",
    "learn": "documents",
    "answer": "documents",
}


class Bounds(TypedDict):
    """What a command passes on to the work it does: within what, whether files are verified, who watches."""

    memory: str | int
    threads: str | int
    verify: bool
    progress: Progress
    floor: int


@contextmanager
def bounded(display: OutputOptions, budget: BudgetOptions, verify: VerifyOptions) -> Iterator[Bounds]:
    """The bounds as they were typed; the budget is the whole process, as its floor is 0."""
    memory, threads = budget.resolve()
    with watch(display, memory) as progress:
        yield Bounds(memory=memory, threads=threads, verify=verify.enabled, progress=progress, floor=0)


@contextmanager
def watch(display: OutputOptions, memory: str | int) -> Iterator[Progress]:
    """Progress as the output allows: bars on a terminal, lines elsewhere, nothing with --quiet."""
    limit = resolve_limit(memory)
    if display.quiet:
        yield Silent()
        return
    stream = sys.stderr if display.json else sys.stdout
    if stream.isatty():
        with _terminal(limit, stderr=display.json) as progress:
            yield progress
        return
    monitor = MemoryMonitor(stream)
    monitor.start_monitoring()
    lines = ProgressLines(stream, limit, monitor)
    with lines.kept_alive():
        yield lines
    monitor.report_final()


class ProgressLines:
    """Plain lines: each stage as it begins and ends, its rate, and the memory held."""

    def __init__(self, stream: TextIO, limit: int, monitor: MemoryMonitor) -> None:
        self._stream = stream
        self._limit = limit
        self._monitor = monitor
        self._total: int | None = None
        self._done = 0
        self._begun = self._said = time.monotonic()
        self._stage = ""

    def begin(self, stage: str, total: int | None) -> None:
        self._stage, self._total, self._done = stage, total, 0
        self._begun = self._said = time.monotonic()
        self._monitor.report_current(f"before {stage}")

    def advance(self, done: int) -> None:
        self._done += done
        now = time.monotonic()
        if now - self._said < LINE_SECONDS:
            return
        self._said = now
        rate = self._done / (now - self._begun)
        line = f"{self._stage}: {_amount(self._stage, self._done)}"
        if self._total:
            left = max(0.0, (self._total - self._done) / rate) if rate else 0.0
            line += f" of {_amount(self._stage, self._total)}, about {left:.0f} s left"
        self.note(f"{line}, {_amount(self._stage, int(rate))}/s, memory {_memory(self._limit)}")

    def end(self, stage: str) -> None:
        seconds = time.monotonic() - self._begun
        rate = f", {_amount(stage, int(self._done / seconds))}/s" if self._done and seconds > 0 else ""
        self.note(f"{stage}: {_amount(stage, self._done)} in {seconds:.1f} s{rate}")
        self._monitor.report_current(f"after {stage}")

    def note(self, line: str) -> None:
        self._said = time.monotonic()
        print(line, file=self._stream, flush=True)

    @contextmanager
    def kept_alive(self) -> Iterator[None]:
        """Say that the command is at work when it has said nothing for long: while files are listed, or one
        block takes its time."""
        ended = threading.Event()
        thread = threading.Thread(target=self._tick, args=(ended,), name="krill-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _tick(self, ended: threading.Event) -> None:
        while not ended.wait(TICK_SECONDS):
            if time.monotonic() - self._said >= LINE_SECONDS - 2 * TICK_SECONDS:
                doing = self._stage or "looking at the input"
                with suppress(
                    OSError, ValueError
                ):  # whoever read the lines is gone: no matter of this thread
                    self.note(f"{doing}: still at work, memory {_memory(self._limit)}")


@contextmanager
def _terminal(limit: int, *, stderr: bool) -> Iterator[Progress]:
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    from krill.cli.screen import Screen

    with Bars(
        TextColumn("{task.description:8}", markup=False),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[facts]}", markup=False),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=Screen(stderr=stderr),
    ) as bars:
        yield ProgressBars(bars, limit)


class ProgressBars:
    """One bar per stage: work done, rate, time left, memory against the budget."""

    def __init__(self, bars: Bars, limit: int) -> None:
        self._bars = bars
        self._limit = limit
        self._stage = ""
        self._begun = 0.0
        self._done = 0
        self._task = bars.add_task("look", total=None, facts="at the input")  # moves by itself until then

    def begin(self, stage: str, total: int | None) -> None:
        """A bar for the stage; without a total it moves but doesn't fill."""
        if not self._stage:
            self._bars.remove_task(self._task)
        self._stage, self._begun, self._done = stage, time.monotonic(), 0
        self._task = self._bars.add_task(stage, total=total, facts=self._facts())

    def advance(self, done: int) -> None:
        self._done += done
        self._bars.update(self._task, advance=done, facts=self._facts())

    def end(self, stage: str) -> None:
        """Fill the bar: what was estimated as its total may have been a little off."""
        done = max(1, self._done)
        self._bars.update(self._task, total=done, completed=done, facts=self._facts())

    def note(self, line: str) -> None:
        self._bars.console.print(line, markup=False, highlight=False)

    def _facts(self) -> str:
        seconds = time.monotonic() - self._begun
        rate = ""
        if self._done and seconds > 0.1:
            rate = f"{_amount(self._stage, int(self._done / seconds))}/s, "
        return f"{_amount(self._stage, self._done)}, {rate}memory {_memory(self._limit)}"


def _amount(stage: str, done: int) -> str:
    return f"{done:,} {UNITS[stage]}" if stage in UNITS else format_size(done)


def _memory(limit: int) -> str:
    return f"{format_size(resident_bytes())} of {format_size(limit)}"
